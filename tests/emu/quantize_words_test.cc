// Quantisers of bf16 in 16-bit lanes: the bytes of the reference.
#include <gtest/gtest.h>

#include <random>
#include <tuple>

#include "ops/catalogue/scale_parameters.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/random_tensors.h"

namespace mxo::quantize_words_test {
namespace {

/// What x holds.
enum class Filling { every_word, wide, tiny, huge, special };

Tensor filled(std::vector<Index> shape, Filling filling) {
  Tensor x(Dtype::bf16, std::move(shape));
  std::mt19937 random(7);
  for (Index i = 0; i < x.elements(); ++i) {
    float v = static_cast<float>(random() % 2001) * 0x1p-9f - 2.0f;
    const int spread = static_cast<int>(random() % 40) - 30;
    if (filling != Filling::special) v = std::ldexp(v, spread);
    if (filling == Filling::tiny) v = std::ldexp(v, -105);
    if (filling == Filling::huge) v = std::ldexp(v, 115);
    auto word = static_cast<std::uint16_t>(bit_cast<std::uint32_t>(v) >> 16);
    if (filling == Filling::every_word) word = static_cast<std::uint16_t>(random());
    if (filling == Filling::special) {
      if (i / 512 % 3 == 0) word &= 0x8000u;
      if (random() % 700 == 0) word = 0x7FC0;
      if (random() % 700 == 0) word = 0xFF80;
    }
    x.as<std::uint16_t>()[i] = word;
  }
  return x;
}

struct Call {
  std::string rule, scale, block, power, format;
};

/// Every rule with each of its blocks; powers of two and formats in turn.
std::vector<Call> every_call() {
  std::vector<Call> calls;
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool mx = row.scale == ScaleType::e8m0;
    const std::string any = mx ? "1x32|32x1|32x32|1x16" : "1x128|128x1|128x128|1x48|3x7|Rx1|RxK";
    const auto formats = test::split(row.formats.empty() ? "e4m3|e4m3fnuz|e5m2" : row.formats, '|');
    const auto powers = test::split(row.powers, '|');
    for (const std::string& block : test::split(row.blocks.empty() ? any : row.blocks, '|')) {
      const std::size_t i = calls.size();
      calls.push_back({std::string(row.name), mx ? "e8m0" : "f32", block,
                       mx ? "" : powers[i % powers.size()], formats[i % formats.size()]});
    }
  }
  return calls;
}

ScaleChoice choice_of(const Call& call) {
  Parameters set;
  set.set("rule", call.rule);
  set.set("scale", call.scale);
  set.set("block", call.block);
  set.set("format", call.format);
  if (!call.power.empty()) set.set("power_of_2", call.power);
  return scale_choice("quantize", set);
}

struct Bytes {
  Tensor codes;
  Tensor scales;
};

Bytes quantized(Backend& backend, const Operand& x, const Call& call) {
  const ScaleChoice choice = choice_of(call);
  const std::vector<Index> shape(x.extent, x.extent + x.rank);
  Bytes out{{dtype_named(call.format), shape},
            {choice.scale, shape_of_scales(shape, choice.block)}};
  quantize(backend, {x, {}, {out.codes.result(), out.scales.result(), choice.block}, choice.rule});
  return out;
}
Bytes quantized(Backend& backend, const Tensor& x, const Call& call) {
  return quantized(backend, x.operand(), call);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// Every contestant must give the reference's bytes.
void expect_reference(const Operand& x, const Call& call, const std::string& what = "") {
  const Bytes want = quantized(*make_reference_backend(), x, call);
  for (const test::Contestant& contestant : test::contestants()) {
    const Bytes got = quantized(*contestant.make(), x, call);
    ASSERT_TRUE(same_bytes(want.codes, got.codes) && same_bytes(want.scales, got.scales))
        << call.rule << " " << call.scale << " " << call.block << " " << call.power << " "
        << call.format << " " << contestant.name() << " " << describe(x) << " " << what;
  }
}

TEST(WordQuantisers, EqualTheReferenceUnderEveryRule) {
  for (const Filling filling :
       {Filling::every_word, Filling::wide, Filling::tiny, Filling::huge, Filling::special}) {
    const Tensor x = filled({160, 544}, filling);
    for (const Call& call : every_call())
      expect_reference(x.operand(), call, "filling " + std::to_string(static_cast<int>(filling)));
  }
}

/// Lanes take the exponent of an amax as it is where the rule takes a logarithm in f32.
TEST(WordQuantisers, FloorTheLogarithmOfEveryHalf) {
  Tensor x(Dtype::f16, {0x7C00, 32});
  for (Index i = 0; i < x.elements(); ++i)
    x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i % 32 == 5 ? i / 32 : i / 64);
  expect_reference(x.operand(), {"vllm_53110", "e8m0", "1x32", "", "e4m3"});
}

/// Corners of one tensor, so that what lies beyond a view is numbers, too.
TEST(WordQuantisers, EqualTheReferenceForOddAndEmptyShapes) {
  const Tensor x = filled({160, 544}, Filling::wide);
  for (const auto& [rows, columns] :
       {std::pair<Index, Index>{37, 201}, {1, 5}, {129, 97}, {0, 5}, {5, 0}, {0, 0}, {0, 544}}) {
    Operand corner = x.operand();
    corner.extent[0] = rows;
    corner.extent[1] = columns;
    const bool whole = rows % 32 == 0 && columns % 32 == 0;  // as e8m0 scales need blocks
    for (const Call& call : every_call())
      if (call.scale != "e8m0" || whole) expect_reference(corner, call);
  }
}

TEST(WordQuantisers, EqualTheReferenceWhereStoresAreStreamed) {
  const Tensor x = filled({2112, 2048}, Filling::wide);
  const Call calls[] = {
      {"deepgemm", "f32", "1x128", "up", "e4m3"}, {"vllm", "f32", "1xK", "none", "e4m3"},
      {"aiter", "e8m0", "1x32", "", "e4m3"},      {"microxcaling", "e8m0", "32x1", "", "e4m3"},
      {"torchao", "f32", "Rx1", "none", "e4m3"},  {"te", "f32", "RxK", "none", "e4m3"}};
  for (const Call& call : calls) {
    const Bytes want = quantized(*make_cpu_backend({"scalar", 2}), x, call);
    for (const int threads : {1, 2}) {
      const Bytes got = quantized(*make_cpu_backend({"best", threads}), x, call);
      EXPECT_TRUE(same_bytes(want.codes, got.codes)) << call.rule << " " << call.block;
      EXPECT_TRUE(same_bytes(want.scales, got.scales)) << call.rule << " " << call.block;
    }
  }
}

/// Columns of many rows and whole tensors, which threads share in slices, and columns of few in
/// more than one panel: of odd extents, from views whose rows lie apart, of several experts, with
/// blocks that words do not do.
TEST(WordQuantisers, EqualTheReferenceInSlicesAndPanels) {
  for (const Filling filling : {Filling::wide, Filling::every_word}) {
    const Tensor x = filled({2, 1100, 2200}, filling);
    for (const auto& [experts, rows, columns] : {std::tuple<Index, Index, Index>{1, 1099, 2151},
                                                 {2, 512, 64},
                                                 {2, 533, 1},
                                                 {1, 1100, 2}}) {
      Operand corner = x.operand();
      corner.extent[0] = experts;
      corner.extent[1] = rows;
      corner.extent[2] = columns;
      for (const Call& call :
           {Call{"torchao", "f32", "Rx1", "none", "e4m3"},
            Call{"torchao", "f32", "Rx1", "up", "e5m2"}, Call{"te", "f32", "RxK", "none", "e4m3"},
            Call{"vllm_cuda", "f32", "RxK", "none", "e4m3"}}) {
        expect_reference(corner, call);
      }
    }
  }
}

TEST(WordQuantisers, EqualTheReferenceInSlicesOfGroups) {
  const Tensor x = filled({1100, 200}, Filling::wide);
  const Tensor ends = test::group_ends_of({1083, 1090});
  for (const Call& call :
       {Call{"torchao", "f32", "Rx1", "none", "e4m3"}, Call{"te", "f32", "RxK", "none", "e4m3"}}) {
    const ScaleChoice choice = choice_of(call);
    const auto grouped = [&](Backend& backend) {
      Bytes out{{Dtype::e4m3, {1100, 200}}, {choice.scale, {2, call.block == "RxK" ? 1 : 200}}};
      quantize(backend, {x.operand(),
                         ends.operand(),
                         {out.codes.result(), out.scales.result(), choice.block},
                         choice.rule});
      return out;
    };
    const Bytes want = grouped(*make_reference_backend());
    for (const test::Contestant& contestant : test::contestants()) {
      const Bytes got = grouped(*contestant.make());
      EXPECT_TRUE(same_bytes(want.codes, got.codes) && same_bytes(want.scales, got.scales))
          << call.block << " " << contestant.name();
    }
  }
}

}  // namespace
}  // namespace mxo::quantize_words_test
