// Rows padded and permuted: any element, any stride, and torchao's captures.
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "tests/support/captures.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/same.h"
#include "tests/support/strided.h"

namespace mxo::test::movement_test {
namespace {

class Movement : public testing::TestWithParam<test::Contestant> {
 protected:
  std::unique_ptr<Backend> backend_ =
      make_backend(GetParam().isa == "reference" ? "reference" : "cpu", GetParam().threads);
};

/// The definition, and what runs it on one thread, two, and more than the machine may have.
INSTANTIATE_TEST_SUITE_P(Backends, Movement,
                         testing::Values(test::Contestant{"reference", 1},
                                         test::Contestant{"best", 1}, test::Contestant{"best", 2},
                                         test::Contestant{"best", 7}),
                         [](const auto& row) { return row.param.name(); });

// Rows back to back, apart, and elements apart.
const Lie kLies[] = {{"contiguous"}, {"apart", 1, 3, 1}, {"every_second", 2, 0, 1}};
constexpr Dtype kSizes[] = {Dtype::e4m3, Dtype::bf16, Dtype::f32, Dtype::i64};

/// Row `to` of y becomes row `from` of x, or zeros: independent of every implementation, element by
/// element.
void copy_row(Strided& y, Index to, Strided& x, Index from) {
  const Index columns = x.operand().extent[1];
  const std::size_t size = size_of(x.operand().dtype);
  for (Index d = 0; d < columns; ++d) {
    std::byte* at = y.at(to * columns + d);
    from < 0 ? std::memset(at, 0, size) : std::memcpy(at, x.at(from * columns + d), size);
  }
}

TEST_P(Movement, PadsAnyElementSizeStrideAndAlignment) {
  const std::vector<std::int32_t> cuts[] = {{5, 5, 6, 19}, {0, 0}, {23}, {}, {0, 1, 1, 23}};
  std::uint32_t seed = 1;
  for (const Dtype dtype : kSizes)
    for (const Lie& lie : kLies)
      for (const auto& ends : cuts)
        for (const Index alignment : {1, 3, 16, 40})
          for (const Index columns : {0, 1, 37}) {
            const Lie& other = kLies[seed / 3 % 3];
            const auto groups = static_cast<Index>(ends.size());
            const Index padded = padded_rows(23, groups, alignment);
            const Strided group_ends = integers(ends, lie);
            Strided x(dtype, {23, columns}, lie), y(dtype, {padded, columns}, other);
            Strided starts(Dtype::i32, {groups}, kLies[2]), past(Dtype::i32, {groups}, lie);
            Strided want(dtype, {padded, columns}, other);
            Strided want_starts(Dtype::i32, {groups}, kLies[2]), want_past = integers(ends, lie);
            fill_bytes(x, seed++);
            const auto before = x.bytes();
            pad_groups(*backend_, {x.operand(), group_ends.operand(), y.result(), starts.result(),
                                   past.result(), alignment});
            std::int32_t at = 0, row = 0;
            for (Index g = 0; g < groups; ++g) {
              std::memcpy(want_starts.at(g), &at, sizeof at);
              while (row < ends[static_cast<std::size_t>(g)]) copy_row(want, at++, x, row++);
              while (at % alignment != 0) copy_row(want, at++, x, -1);
              std::memcpy(want_past.at(g), &at, sizeof at);
            }
            while (at < padded) copy_row(want, at++, x, -1);
            EXPECT_TRUE(y.bytes() == want.bytes() && x.bytes() == before) << lie.name;
            EXPECT_TRUE(starts.bytes() == want_starts.bytes() && past.bytes() == want_past.bytes());

            // And back; rows past the last end keep what they held.
            Strided back(dtype, {23, columns}, lie), want_back(dtype, {23, columns}, lie);
            for (Strided* rows : {&back, &want_back}) fill_bytes(*rows, seed);
            for (Index r = 0; r < row; ++r) copy_row(want_back, r, x, r);
            unpad_groups(*backend_,
                         {y.operand(), group_ends.operand(), starts.operand(), back.result()});
            EXPECT_EQ(back.bytes(), want_back.bytes());
          }
}

TEST_P(Movement, GathersAndScattersAnyElementSizeAndStride) {
  const std::vector<std::int32_t> orders[] = {
      {2, 3, 4, -1, -1, 0, 10, 9}, {-1, -1}, {}, {7}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
  std::uint32_t seed = 1;
  for (const Dtype dtype : kSizes)
    for (const Lie& lie : kLies)
      for (const auto& order : orders)
        for (const Index columns : {0, 1, 37}) {
          const Lie& other = kLies[seed / 3 % 3];
          const auto length = static_cast<Index>(order.size());
          const Strided indices = integers(order, lie);
          Strided x(dtype, {11, columns}, lie), y(dtype, {length, columns}, other);
          Strided want(dtype, {length, columns}, other);
          fill_bytes(x, seed++);
          const auto before = x.bytes();
          permute(*backend_, {x.operand(), indices.operand(), y.result()});
          for (Index i = 0; i < length; ++i)
            copy_row(want, i, x, order[static_cast<std::size_t>(i)]);
          EXPECT_TRUE(y.bytes() == want.bytes() && x.bytes() == before) << lie.name;
          Strided back(dtype, {11, columns}, lie), want_back(dtype, {11, columns}, lie);
          unpermute(*backend_, {y.operand(), indices.operand(), back.result()});
          for (Index r = 0; r < 11; ++r)
            copy_row(want_back, r, x, std::count(order.begin(), order.end(), r) > 0 ? r : -1);
          EXPECT_EQ(back.bytes(), want_back.bytes()) << lie.name;
        }
}

TEST_P(Movement, MovesOutputsLargerThanTheCaches) {
  constexpr Index kRows = 3001;
  constexpr Index kColumns = 3001;  // 18 MB of bf16, rows off every line boundary
  Tensor x(Dtype::bf16, {kRows, kColumns});
  for (Index i = 0; i < x.elements(); ++i)
    x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i * 2654435761u >> 7);
  Tensor indices(Dtype::i32, {kRows});
  for (Index i = 0; i < kRows; ++i) {
    const Index shuffled = i * 1009 % kRows;
    indices.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 50 == 0 ? -1 : shuffled);
  }
  Tensor y(Dtype::bf16, {kRows, kColumns});
  std::memset(y.data(), 0xA5, y.bytes());
  permute(*backend_, {x.operand(), indices.operand(), y.result()});
  const std::vector<std::uint16_t> zeros(static_cast<std::size_t>(kColumns), 0);
  for (Index i = 0; i < kRows; ++i) {
    const Index from = indices.as<std::int32_t>()[i];
    const std::uint16_t* expected =
        from < 0 ? zeros.data() : x.as<std::uint16_t>() + from * kColumns;
    ASSERT_EQ(std::memcmp(y.as<std::uint16_t>() + i * kColumns, expected, kColumns * 2), 0) << i;
  }
}

TEST_P(Movement, PermutesColumnMajorRowsAsTheyAre) {
  // 2 columns that lie far apart: one row's extent in bytes equals the step to the next row.
  const std::vector<std::uint16_t> values{1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9, 7, 9, 8, 9};
  const Operand x{values.data(), Dtype::bf16, 2, {4, 2}, {2, 8}};
  const std::vector<std::int32_t> order{1, 2, 3};
  const Operand indices{order.data(), Dtype::i32, 1, {3}, {1}};
  std::vector<std::uint16_t> y(6);
  permute(*backend_, {x, indices, {y.data(), Dtype::bf16, 2, {3, 2}, {2, 1}}});
  EXPECT_EQ(y, (std::vector<std::uint16_t>{2, 6, 3, 7, 4, 8}));
}

TEST_P(Movement, TakesAnEmptyOperandWhoseAddressLiesInTheResult) {
  Strided x(Dtype::f32, {4, 2}, kLies[0]), want(Dtype::f32, {4, 2}, kLies[0]);
  const Strided indices = integers({});
  Operand y = x.operand();
  y.data = x.at(3);
  y.extent[0] = 0;
  unpermute(*backend_, {y, indices.operand(), x.result()});
  for (Index r = 0; r < 4; ++r) copy_row(want, r, x, -1);
  EXPECT_EQ(x.bytes(), want.bytes());
}

class MovementCaptures : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Backend> backend_ = make_backend(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Backends, MovementCaptures, testing::Values("reference", "cpu"),
                         [](const auto& row) { return std::string(row.param); });

TEST_P(MovementCaptures, PadsAndUnpadsAsTorchaoDid) {
  const TensorFile& file = test::capture("layouts");
  for (int n = 0; n < 5; ++n) {
    for (const char* alignment : {"16", "32", "128"}) {
      const std::string pad = "pad." + std::to_string(n) + ".";
      const std::string key = pad + alignment + ".";
      const Tensor& ends = test::tensor_of(file, "groups." + std::to_string(n) + ".offs");
      const NamedTensors out = call_operator(
          *backend_, "pad_groups", {{"x", test::tensor_of(file, pad + "x")}, {"group_ends", ends}},
          test::settings({std::string("alignment=") + alignment}));
      expect_same(test::tensor_of(file, key + "out"), out.at("y"), key);
      expect_same(test::tensor_of(file, key + "start"), out.at("padded_starts"), key);
      expect_same(test::tensor_of(file, key + "end"), out.at("padded_ends"), key);

      const Tensor& unpadded = test::tensor_of(file, key + "unpadded");
      const NamedTensors back = call_operator(
          *backend_, "unpad_groups",
          {{"y", out.at("y")}, {"group_ends", ends}, {"padded_starts", out.at("padded_starts")}},
          test::settings({"rows=" + std::to_string(unpadded.extent(0))}));
      expect_same(unpadded, back.at("x"), key);
    }
  }
}

TEST_P(MovementCaptures, GivesThePermutationsThatTorchaoGave) {
  const TensorFile& file = test::capture("layouts");
  const char* const names[] = {"experts", "ranks", "max_len", "alignment"};
  for (int n = 0; n < 5; ++n) {
    const std::string key = "permute." + std::to_string(n) + ".";
    const auto* args = test::tensor_of(file, key + "args").as<std::int64_t>();
    Parameters set;
    for (int i = 0; i < 4; ++i) set.set(names[i], std::to_string(args[i]));
    const Tensor& counts = test::tensor_of(file, key + "tokens_per_expert");
    const NamedTensors out =
        call_operator(*backend_, "permute_indices", {{"tokens_per_expert", counts}}, set);
    expect_same(test::tensor_of(file, key + "out0"), out.at("indices"), key);
    expect_same(test::tensor_of(file, key + "out1"), out.at("sizes"), key);
    expect_same(test::tensor_of(file, key + "out2"), out.at("ends"), key);
  }
}

}  // namespace
}  // namespace mxo::test::movement_test
