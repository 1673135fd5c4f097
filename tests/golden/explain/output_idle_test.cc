// Parts of an output that nobody wrote, or that nobody fills: runs of one bit pattern, padding,
// experts without tokens, lines of zeros.
#include <cmath>

#include "golden/explain/case/wide_values.h"
#include "golden/explain/find/output/recover.h"
#include "golden/museum/operands.h"
#include "tests/golden/claims_said.h"

namespace mxo {
namespace {

/// Codes of e4m3, finite, of both signs, that are no pattern.
Tensor some_codes(std::vector<Index> shape, std::uint32_t seed) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.as<std::uint8_t>()[i] =
        static_cast<std::uint8_t>((seed >> 24 & 0x80) | (0x30 + (seed >> 20) % 17));
  }
  return t;
}

/// Scales 1/2, 1 and 2.
Tensor some_scales(std::vector<Index> shape, std::uint32_t seed) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(126 + (seed >> 20) % 3);
  }
  return t;
}

/// y = x w of groups of rows, a scale for 32 of K.
Call forward_call(const std::vector<Index>& ends, Index n, Index k) {
  const auto groups = static_cast<Index>(ends.size());
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", some_codes({ends.back(), k}, 1));
  call.replace("x.scales", some_scales({ends.back(), (k + 31) / 32}, 2));
  call.replace("w.codes", some_codes({groups, n, k}, 3));
  call.replace("w.scales", some_scales({groups, n, (k + 31) / 32}, 4));
  call.replace("group_ends", ends_at(ends));
  return call;
}

/// dw = dy x of groups of rows, a scale for 32 of them.
Call gradient_call(const std::vector<Index>& ends, Index lines, Index n) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", some_codes({ends.back(), lines}, 1));
  call.replace("dy.scales", some_scales({(ends.back() + 31) / 32, lines}, 2));
  call.replace("x.codes", some_codes({ends.back(), n}, 3));
  call.replace("x.scales", some_scales({(ends.back() + 31) / 32, n}, 4));
  call.replace("group_ends", ends_at(ends));
  return call;
}

/// Bits that are neither zeros nor NaN in any type, no two neighbours alike.
Tensor of_no_fill(Dtype dtype, std::vector<Index> shape) {
  Tensor t(dtype, std::move(shape));
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < t.bytes() / size; ++i) {
    std::memset(t.data() + i * size, static_cast<int>(0x21 + i % 5), size);
  }
  return t;
}

/// `n` elements from `first` on, `step` apart, that hold these bits.
struct Filled {
  Index first;
  Index n;
  std::uint64_t bits = 0;
  Index step = 1;
};

Tensor with_fills(Tensor t, const std::vector<Filled>& fills) {
  const std::size_t size = size_of(t.dtype());
  for (const Filled& f : fills) {
    for (Index i = 0; i < f.n; ++i)
      std::memcpy(t.data() + static_cast<std::size_t>(f.first + i * f.step) * size, &f.bits, size);
  }
  return t;
}

std::string of_fills(const Tensor& want, const std::vector<Filled>& fills,
                     const std::string& name = "y") {
  Differing got(want, with_fills(want, fills), {"any", {}, {}}, name);
  return said(got.output, recover_unwritten);
}

std::string zeros(const std::string& place) {
  return "never_written.zero: " + place + " zeros: never written, cleared, or computed so";
}

TEST(OutputUnwritten, FillsAreNamedByTheirBits) {
  const std::string nan = "nan: row 2 of y holds NaN: never written, or computed so";
  const std::string no_sign =
      "zero: row 2 of y holds zeros: never written, cleared, or computed so";
  const std::string infinite = ": overflow, a division by zero, or the fill of the buffer";
  const std::string largest = ": the largest number, saturated, or the fill of the buffer";
  const std::string other = ": the fill of the buffer, never written, or one value for all of them";
  struct Row {
    Dtype dtype;
    std::uint64_t bits;
    std::string id;
    std::string words;  ///< after the bits; empty: `id` is all
  };
  for (const Row& row : std::vector<Row>{{Dtype::f32, 0x7FC00000, "never_written." + nan, ""},
                                         {Dtype::e4m3, 0x7F, "never_written." + nan, ""},
                                         {Dtype::bf16, 0x7F80, "infinite", infinite},
                                         {Dtype::f32, 0xFF800000, "infinite", infinite},
                                         {Dtype::e5m2, 0x7C, "infinite", infinite},
                                         {Dtype::bf16, 0x7F7F, "largest", largest},
                                         {Dtype::e4m3, 0x7E, "largest", largest},
                                         {Dtype::e4m3, 0x7D, "fill", other},
                                         {Dtype::bf16, 0x8000, "never_written." + no_sign, ""},
                                         {Dtype::i64, 0xFEDCBA9876543210u, "fill", other}}) {
    char bits[32];
    std::snprintf(bits, sizeof bits, "0x%0*llX", static_cast<int>(2 * size_of(row.dtype)),
                  static_cast<unsigned long long>(row.bits));
    const std::string constant = "constant." + row.id + ": row 2 of y holds " + bits + row.words;
    EXPECT_EQ(of_fills(of_no_fill(row.dtype, {4, 16}), {{32, 16, row.bits}}),
              row.words.empty() ? row.id : constant);
  }
  EXPECT_EQ(of_fills(of_no_fill(Dtype::f32, {8, 4}), {{8, 8, 0x3E800000}}),
            "constant.fill: rows 2 to 3 of y hold 1 / 4: equal shares, all alike");
  const Tensor rows = of_no_fill(Dtype::bf16, {4, 8});
  EXPECT_EQ(of_fills(rows, {{16, 4, 0x7FC0}, {20, 4, 0xFFFF}}), "never_written." + nan);
  EXPECT_EQ(of_fills(rows, {{8, 16}}), zeros("rows 1 to 2 of y hold"));
  const Tensor scales = of_no_fill(Dtype::e8m0, {4, 16});
  EXPECT_EQ(of_fills(scales, {{32, 16, 0x7F}}, "x.scales"), "") << "scales are alike";
  EXPECT_NE(of_fills(scales, {{32, 16, 0xFF}}, "x.scales"), "");
}

TEST(OutputUnwritten, BytesOfSomethingElseAreOfEverySize) {
  const Tensor want = random_bf16({8, 64}, 7);
  const auto rows_as = [&](auto of) {
    Tensor got = want;
    for (Index i = 256; i < 512; ++i) got.as<std::uint16_t>()[i] = of(i);
    Differing wrong(want, got, {"any", {}, {}}, "y");
    return said(wrong.output, recover_wild);
  };
  EXPECT_EQ(rows_as([](Index i) { return static_cast<std::uint16_t>(i * 40503); }),
            "never_written.other: 256 elements in rows 4 to 7 of y hold numbers of every size: "
            "never written, or bytes of something else");
  // Scales that are far off are of one size in a row.
  EXPECT_EQ(rows_as([&](Index i) {
              const float v = std::ldexp(wide_value(want, i), i / 64 % 2 == 0 ? 60 : -60);
              return encode<kBF16>(v).bits;
            }),
            "");
}

using Where = std::function<bool(Index)>;

Tensor ints(const std::vector<Index>& values) {
  return filled<std::int32_t>(Dtype::i32, {static_cast<Index>(values.size())},
                              [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

/// An output of a call, which is 1 but where it is idle.
struct IdleCase {
  Call call{"any", {}, {}};
  std::string name = "y";
  std::vector<Index> shape;
  Where idle;
  NamedTensors expected = {};

  /// What is said where the elements that `differ` came as 9.
  std::string said_of(const Where& differ) const {
    const auto want = [&](Index i) { return idle(i) ? 0 : 1; };
    Differing got(
        filled<std::uint8_t>(Dtype::u8, shape, want),
        filled<std::uint8_t>(Dtype::u8, shape, [&](Index i) { return differ(i) ? 9 : want(i); }),
        call, name);
    return said(got.output, [&](Output& o) { return recover_padding(call, o, expected); });
  }
};

std::string old(const std::string& place, const std::string& what, bool one = false) {
  return "not_zero.padding: " + place + " (" + what + ", zeros expected)" +
         (one ? " holds" : " hold") +
         " other bytes: never written, or written with what does not belong there";
}

/// Groups of 2, 3 and 1 rows at rows 0, 4 and 8 of 12.
IdleCase padded() {
  IdleCase c;
  c.call.op = "pad_groups";
  c.call.replace("group_ends", ends_at({2, 5, 6}));
  c.expected.emplace("padded_starts", ints({0, 4, 8}));
  c.expected.emplace("padded_ends", ints({4, 8, 12}));
  c.shape = {12, 8};
  c.idle = [](Index i) { return i / 8 == 2 || i / 8 == 3 || i / 8 == 7 || i / 8 > 8; };
  return c;
}

TEST(OutputIdle, RowsAreOldAltogether) {
  const IdleCase c = padded();
  const auto rows = [&](Index first, Index last, Index columns = 8, Index before = -1) {
    return c.said_of([=](Index i) {
      return i / 8 == before || (i / 8 >= first && i / 8 <= last && i % 8 < columns);
    });
  };
  EXPECT_EQ(c.said_of(c.idle), old("rows 2 to 3, 7 and 9 to 11 of y", "pad rows"));
  EXPECT_EQ(rows(7, 7), old("row 7 of y", "pad rows", true));
  EXPECT_EQ(rows(7, 7, 6), old("columns 0 to 5 of row 7 of y", "pad rows"));
  EXPECT_EQ(rows(7, 7, 5), "") << "fewer than three in four";
  EXPECT_EQ(rows(3, 3, 4, 2), old("rows 2 to 3 of y", "pad rows"));
  EXPECT_EQ(rows(3, 3, 3, 2), "");
  EXPECT_EQ(rows(2, 2), "") << "beside it lies one that is right";
  EXPECT_EQ(rows(10, 11), "");
  EXPECT_EQ(rows(4, 6), "") << "rows of groups";
  // 48 elements belong to somebody: 24 of them may differ.
  for (const Index most : {24, 25}) {
    Index seen = 0;
    EXPECT_EQ(c.said_of([&](Index i) { return c.idle(i) || seen++ < most; }) != "", most == 24);
  }
  IdleCase other = padded();
  other.call.op = "unpad_groups";
  EXPECT_EQ(other.said_of(c.idle), "");
}

/// Which bytes of 128x4 tiles hold nobody's scale, of matrices [rows, columns] one after another.
Where tile_padding(Index rows, Index columns) {
  return [=](Index i) {
    const Index tiles = (columns + 3) / 4;
    const Index in = i % ((rows + 127) / 128 * tiles * 512);
    const Index row = in / 512 / tiles * 128 + in % 16 / 4 * 32 + in % 512 / 16;
    return row >= rows || in / 512 % tiles * 4 + in % 4 >= columns;
  };
}

TEST(OutputIdle, PartsOfEachKindAreNamed) {
  IdleCase ranks{{"any", {}, {}}, "rank1.x", {4, 8}, [](Index i) { return i / 8 % 2 == 0; }};
  ranks.expected.emplace("rank1.indices", ints({-1, 3, -1, 0}));
  EXPECT_EQ(ranks.said_of(ranks.idle), old("rows 0 and 2 of rank1.x", "pad rows"));
  EXPECT_EQ(ranks.said_of([](Index i) { return i / 8 == 3; }), "") << "token 0 is one";
  ranks.name = "rank2.x";
  EXPECT_EQ(ranks.said_of(ranks.idle), "");

  IdleCase experts{
      {"grouped_linear_backward", {}, {}}, "dw", {3, 2, 8}, [](Index i) { return i / 16 != 1; }};
  experts.call.replace("group_ends", ends_at({0, 3, 3}));
  EXPECT_EQ(experts.said_of(experts.idle),
            old("all of experts 0 and 2 of dw", "experts without tokens"));
  EXPECT_EQ(experts.said_of([](Index i) { return i / 16 == 1 && i % 16 < 8; }), "");

  for (const std::vector<Index>& shape : {std::vector<Index>{2048}, {256, 8}, {6144}}) {
    IdleCase tiles{{"swizzle_scales", {}, {}}, "tiles", shape, tile_padding(130, 5)};
    tiles.call.replace("scales", Tensor(Dtype::u8, {130, 5}));
    EXPECT_NE(tiles.said_of(tiles.idle).find("(padding of tiles, zeros expected)"),
              std::string::npos);
    EXPECT_EQ(tiles.said_of([](Index i) { return i == 0; }), "");
    tiles.call.set.set("layout", "m_groups");
    EXPECT_EQ(tiles.said_of(tiles.idle), "");
  }
  IdleCase scales{{"quantize", {}, {}}, "scales", {512}, tile_padding(40, 2)};
  scales.call.replace("x", Tensor(Dtype::bf16, {40, 64}));
  EXPECT_EQ(scales.said_of(scales.idle), "") << "row-major";
  scales.call.set.set("scale_layout", "blocked");
  EXPECT_NE(scales.said_of(scales.idle), "");

  // Scales of 5 rows, of which each column is padded to 8.
  IdleCase columns{{"quantize", {}, {}}, "scales", {2, 8}, [](Index i) { return i % 8 > 4; }};
  columns.call.replace("x", Tensor(Dtype::bf16, {5, 256}));
  columns.call.set.set("scale_layout", "mn_major_tma");
  columns.call.set.set("block", "1x128");
  EXPECT_EQ(columns.said_of(columns.idle), old("columns 5 to 7 of scales", "padding to 16 bytes"));
}

TEST(OutputIdle, LinesOfZerosAreNamed) {
  const auto cleared = [](Call call, const char* name, const Where& zero) {
    Tensor codes = call.input(name);
    for (Index i = 0; i < codes.elements(); ++i) {
      if (zero(i)) codes.as<std::uint8_t>()[i] = i % 2 == 0 ? 0 : 0x80;
    }
    call.replace(name, std::move(codes));
    return call;
  };
  const Where row_3 = [](Index i) { return i / 8 == 3; };
  const auto of_codes = [&](const Where& zero) {
    return IdleCase{cleared(forward_call({2, 5}, 8, 32), "x.codes", zero), "y", {5, 8}, row_3}
        .said_of(row_3);
  };
  EXPECT_EQ(of_codes([](Index i) { return i / 32 == 3; }),
            old("row 3 of group 1 of y", "lines of x that are zero", true));
  EXPECT_EQ(of_codes([](Index i) { return i / 32 == 3 && i % 32 < 31; }), "");
  EXPECT_EQ(of_codes([](Index i) { return i / 32 == 3 && i % 32 > 0; }), "");
  const Where row_7 = [](Index i) { return i / 8 == 7; };
  const auto of_gradient = [&](Index first) {
    const Call call = cleared(gradient_call({32, 32, 64}, 3, 8), "dy.codes",
                              [=](Index i) { return i / 3 >= first && i % 3 == 1; });
    return IdleCase{call, "dw", {3, 3, 8}, row_7}.said_of(row_7);
  };
  EXPECT_EQ(of_gradient(32), old("row 1 of expert 2 of dw", "lines of dy that are zero", true));
  EXPECT_EQ(of_gradient(33), "") << "but for a row of the group";
}

TEST(OutputIdle, EndsCountRowsWithoutPadding) {
  const auto ends = [](const std::vector<Index>& got,
                       const std::string& name = "rank0.group_ends") {
    Differing pair(ints({3, 5, 8, 20}), ints(got), {"any", {}, {}}, name);
    const NamedTensors expected = [] {
      NamedTensors tensors;
      tensors.emplace("rank0.indices", ints({0, -1, -1, 3, 4, 5, -1, 7}));
      return tensors;
    }();
    return said(pair.output, [&](Output& o) {
      return recover_padding({"any", {}, {}}, o, expected);
    });
  };
  EXPECT_EQ(ends({1, 3, 4, 5}), "");
  EXPECT_EQ(ends({1, 3, 5, 5}),
            "group_ends.unpadded: rank0.group_ends counts rows without the padding of groups");
  EXPECT_EQ(ends({1, 3, 5, 6}), "");
  EXPECT_EQ(ends({1, 3, 5, 5}, "rank1.group_ends"), "");
}

}  // namespace
}  // namespace mxo
