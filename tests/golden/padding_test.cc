// Rows and elements that are zero because nobody fills them, and hold something else.
#include <gtest/gtest.h>

#include "formats/scale_layout.h"
#include "golden/explain/recover/recover.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// An output that is 1 but where nobody fills it.
template <typename Idle>
Tensor ones(std::vector<Index> shape, const Idle& idle) {
  return filled<std::uint8_t>(Dtype::u8, std::move(shape), [&](Index i) { return !idle(i); });
}

Tensor ints(const std::vector<Index>& values) {
  return filled<std::int32_t>(Dtype::i32, {static_cast<Index>(values.size())},
                              [&](Index i) { return values[static_cast<std::size_t>(i)]; });
}

struct Case {
  Call call{"any", {}, {}};
  std::string name = "y";
  NamedTensors expected;
  mutable Index left = 0;  ///< elements that nothing explained

  /// What is said where `actual` came; all that is claimed is settled.
  std::vector<std::string> claims(Tensor owed, Tensor actual) const {
    Came came(std::move(owed), std::move(actual), call, name);
    const Index before = came.output.left;
    std::vector<std::string> said;
    double elements = 0.0;
    for (const Claim& c : recover_padding(call, came.output, expected)) {
      said.push_back(c.id + ": " + c.sentence);
      elements += c.elements;
      EXPECT_EQ(c.where.tensor, name);
    }
    left = came.output.left;
    EXPECT_EQ(static_cast<double>(before - left), elements);
    return said;
  }
  /// What is said where element i of `owed` came as 9 if it `differs`.
  template <typename Differs>
  std::string said(const Tensor& owed, const Differs& differs) const {
    Tensor actual = owed;
    for (Index i = 0; i < owed.elements(); ++i) {
      if (differs(i)) actual.as<std::uint8_t>()[i * static_cast<Index>(size_of(owed.dtype()))] = 9;
    }
    const std::vector<std::string> list = claims(owed, std::move(actual));
    EXPECT_LE(list.size(), 1u);
    return list.empty() ? "" : list.front();
  }
};

std::string old(const std::string& place, const std::string& what, bool one = false) {
  return "not_zero.padding: " + place + " (" + what + ", zeros expected)" +
         (one ? " holds" : " hold") +
         " other bytes: never written, or written with what does not belong there";
}

/// Groups of 2, 3 and 1 rows at rows 0, 4 and 8 of 12.
Case padded() {
  Case c;
  c.call.op = "pad_groups";
  c.call.replace("group_ends", ends_at({2, 5, 6}));
  c.expected.emplace("padded_starts", ints({0, 4, 8}));
  c.expected.emplace("padded_ends", ints({4, 8, 12}));
  return c;
}
bool is_pad(Index row) { return row == 2 || row == 3 || row == 7 || row > 8; }
Tensor padded_rows() {
  return ones({12, 8}, [](Index i) { return is_pad(i / 8); });
}

TEST(Padding, OfGroupsIsOld) {
  const Case c = padded();
  const Tensor y = padded_rows();
  EXPECT_EQ(c.said(y, [](Index) { return false; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return is_pad(i / 8); }),
            old("rows 2 to 3, 7 and 9 to 11 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 7; }), old("row 7 of y", "pad rows", true));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 > 8; }), old("rows 9 to 11 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 1 || i / 8 == 4 || i / 8 == 6; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 0 || i / 8 == 5 || i / 8 == 8; }), "");
}

TEST(Padding, OfGroupsIsThatOfTheCall) {
  const auto said = [](const auto& change) {
    Case c = padded();
    change(c);
    return c.said(padded_rows(), [](Index i) { return is_pad(i / 8); });
  };
  EXPECT_NE(said([](Case&) {}), "");
  EXPECT_EQ(said([](Case& c) { c.call.op = "unpad_groups"; }), "");
  EXPECT_EQ(said([](Case& c) { c.name = "z"; }), "");
  EXPECT_EQ(said([](Case& c) { c.expected.erase("padded_starts"); }), "");
  EXPECT_EQ(said([](Case& c) { c.expected.erase("padded_ends"); }), "");
}

TEST(Padding, ThatLastsToTheEndOfTheOutput) {
  Case c = padded();
  c.expected.insert_or_assign("padded_starts", ints({0, 4, 11}));
  c.call.replace("group_ends", ends_at({2, 5, 9}));  // more rows than there are
  EXPECT_EQ(
      c.said(ones({12, 8}, [](Index i) { return i / 8 == 7; }), [](Index i) { return i / 8 == 7; }),
      "")
      << "a quarter of rows 7 to 10";
  EXPECT_EQ(c.said(ones({12, 8}, [](Index i) { return i / 8 == 7; }),
                   [](Index i) { return i / 8 >= 7 && i / 8 < 11; }),
            old("rows 7 to 10 of y", "pad rows"));
}

TEST(Padding, IsOldAltogether) {
  const Case c = padded();
  const Tensor y = padded_rows();
  // Rows 2 and 3 are next to each other: three in four of their elements, from the start or not.
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 2 || (i / 8 == 3 && i % 8 < 4); }),
            old("rows 2 to 3 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 2 || (i / 8 == 3 && i % 8 < 3); }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 2; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 3; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 10 || i / 8 == 11; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 9 || i / 8 == 10; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 9 || i / 8 == 11; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 7 && i % 8 < 6; }),
            old("columns 0 to 5 of row 7 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 7 && i % 8 < 5; }), "");
}

TEST(Padding, IsNoPlaceWhereMostDiffers) {
  // 48 elements belong to somebody: 24 of them may differ.
  const Case c = padded();
  const auto with = [&](Index n) {
    Index seen = 0;
    return c.said(padded_rows(), [&](Index i) { return is_pad(i / 8) || seen++ < n; });
  };
  EXPECT_EQ(with(24), old("rows 2 to 3, 7 and 9 to 11 of y", "pad rows"));
  EXPECT_EQ(with(25), "");
}

TEST(Padding, OfRanksHasNoToken) {
  Case c;
  c.name = "rank1.x";
  c.expected.emplace("rank1.indices", ints({-1, 3, -1, 0}));
  c.expected.emplace("indices", ints({-1, 3, -1, 0}));
  const Tensor y = ones({4, 8}, [](Index i) { return i / 8 % 2 == 0; });
  const auto idle = [](Index i) { return i / 8 % 2 == 0; };
  EXPECT_EQ(c.said(y, idle), old("rows 0 and 2 of rank1.x", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 3; }), "") << "token 0 is one";
  const auto other = [&](const auto& change) {
    Case changed = c;
    change(changed);
    return changed.said(y, idle);
  };
  EXPECT_EQ(other([](Case& o) { o.name = "x"; }), "");
  EXPECT_EQ(other([](Case& o) { o.name = "rank1.indices"; }), "");
  EXPECT_EQ(other([](Case& o) { o.name = "rank2.x"; }), "");
  EXPECT_EQ(other([](Case& o) {
              o.expected.insert_or_assign("rank1.indices", ints({-1, 3, -1}));
            }),
            "");
}

TEST(Padding, IsExpertsWithoutTokens) {
  Case c;
  c.name = "dw";
  c.call.op = "grouped_linear_backward";
  c.call.replace("group_ends", ends_at({0, 3, 3}));
  const Tensor dw = ones({3, 2, 8}, [](Index i) { return i / 16 != 1; });
  const auto idle = [](Index i) { return i / 16 != 1; };
  EXPECT_EQ(c.said(dw, idle), old("all of experts 0 and 2 of dw", "experts without tokens"));
  EXPECT_EQ(c.said(dw, [](Index i) { return i / 16 == 1 && i % 16 < 8; }), "");
  const auto other = [&](const auto& change, std::vector<Index> shape = {3, 2, 8}) {
    Case changed = c;
    change(changed);
    return changed.said(ones(std::move(shape), idle), idle);
  };
  EXPECT_EQ(other([](Case& o) { o.name = "dx"; }), "");
  EXPECT_EQ(other([](Case& o) { o.call.inputs.erase("group_ends"); }), "");
  EXPECT_EQ(other([](Case& o) { o.call.replace("group_ends", ends_at({0, 3, 3, 3})); }), "");
  EXPECT_EQ(other([](Case&) {}, {6, 8}), "");
}

/// Which bytes of 128x4 tiles hold nobody's scale, of matrices [rows, columns] one after another.
bool is_tile_padding(Index i, Index rows, Index columns) {
  const Index in = i % blocked_bytes(rows, columns);
  const Index tiles = (columns + 3) / 4;
  const Index row = in / 512 / tiles * 128 + in % 16 / 4 * 32 + in % 512 / 16;
  return row >= rows || in / 512 % tiles * 4 + in % 4 >= columns;
}

TEST(Padding, OfTilesIsBeyondTheMatrix) {
  const auto idle = [](Index i) { return is_tile_padding(i, 130, 5); };
  Case c;
  c.name = "tiles";
  c.call.op = "swizzle_scales";
  c.call.replace("scales", Tensor(Dtype::u8, {130, 5}));
  const Index bytes = 256 * 8;
  const std::string words = "padding of tiles";
  const auto what = [&](const std::string& said) {
    return c.left == 0 && said.find("(" + words + ", zeros expected)") != std::string::npos;
  };
  EXPECT_TRUE(what(c.said(ones({bytes}, idle), idle)));
  EXPECT_TRUE(what(c.said(ones({256, 8}, idle), idle)));
  EXPECT_TRUE(what(c.said(ones({3 * bytes}, idle), idle))) << "three matrices";
  EXPECT_FALSE(what(c.said(ones({bytes + 8}, idle), idle)));
  EXPECT_FALSE(what(c.said(ones({bytes, 1}, idle), idle)));
  EXPECT_EQ(c.said(ones({bytes}, idle), [](Index i) { return i == 0; }), "");
  const auto other = [&](const auto& change) {
    Case changed = c;
    change(changed);
    return changed.said(ones({bytes}, idle), idle);
  };
  EXPECT_EQ(other([](Case& o) { o.call.op = "unswizzle_scales"; }), "");
  EXPECT_EQ(other([](Case& o) { o.call.set.set("layout", "m_groups"); }), "");
  EXPECT_EQ(other([](Case& o) { o.call.inputs.clear(); }), "");
  EXPECT_EQ(other([](Case& o) { o.call.replace("scales", Tensor(Dtype::u8, {650})); }), "");
  EXPECT_EQ(other([](Case& o) { o.call.replace("scales", Tensor(Dtype::u8, {0, 5})); }), "");
}

TEST(Padding, OfTilesIsThatOfQuantisedScales) {
  const auto idle = [](Index i) { return is_tile_padding(i, 40, 2); };
  Case c;
  c.name = "scales";
  c.call.op = "quantize";
  c.call.replace("x", Tensor(Dtype::bf16, {40, 64}));
  c.call.set.set("scale_layout", "blocked");
  const auto other = [&](const auto& change) {
    Case changed = c;
    change(changed);
    return changed.said(ones({512}, idle), idle);
  };
  EXPECT_NE(other([](Case&) {}), "");
  EXPECT_EQ(other([](Case& o) { o.name = "codes"; }), "");
  EXPECT_EQ(other([](Case& o) { o.call.op = "dequantize"; }), "");
  EXPECT_EQ(other([](Case& o) { o.call.set = {}; }), "");
  EXPECT_EQ(other([](Case& o) { o.call.inputs.clear(); }), "");
}

TEST(Padding, IsOfLinesThatAreZero) {
  Case c;
  c.call = forward_call({2, 5}, 8, 32);
  Tensor codes = c.call.input("x.codes");
  std::fill_n(codes.as<std::uint8_t>() + 3 * 32, 32, std::uint8_t{0x80});  // minus zero
  std::fill_n(codes.as<std::uint8_t>() + 32, 31, std::uint8_t{0});
  c.call.replace("x.codes", codes);
  const auto idle = [](Index i) { return i / 8 == 3; };
  const Tensor y = ones({5, 8}, idle);
  EXPECT_EQ(c.said(y, idle), old("row 3 of group 1 of y", "lines of x that are zero", true));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 1; }), "") << "but for its last code";
  c.name = "z";
  EXPECT_EQ(c.said(y, idle), "");
  Case plain;
  plain.call = forward_call({2, 5}, 8, 32);
  EXPECT_EQ(plain.said(y, idle), "");
}

TEST(Padding, IsOfColumnsThatAreZeroInAGroup) {
  Case c;
  c.name = "dw";
  c.call = gradient_call({32, 32, 64}, 3, 8);
  Tensor codes = c.call.input("dy.codes");
  for (Index r = 32; r < 64; ++r) codes.as<std::uint8_t>()[r * 3 + 1] = 0;
  c.call.replace("dy.codes", codes);
  const auto idle = [](Index i) { return i / 8 == 7; };
  EXPECT_EQ(c.said(ones({3, 3, 8}, idle), idle),
            old("row 1 of expert 2 of dw", "lines of dy that are zero", true));
}

/// Ends of groups of rank 0 that came as `came`.
std::string ends_of(const std::vector<Index>& came, const std::string& name = "rank0.group_ends",
                    Dtype type = Dtype::i32) {
  Case c;
  c.name = name;
  c.expected.emplace("rank0.indices", filled<std::int32_t>(type, {8}, [](Index i) {
                       return i == 1 || i == 2 || i == 6 ? -1 : i;
                     }));
  const auto said = c.claims(ints({3, 5, 8, 20}), ints(came));
  return said.empty() ? "" : said.front();
}

TEST(GroupEnds, CountRowsWithoutPadding) {
  EXPECT_EQ(ends_of({1, 3, 5, 5}),
            "group_ends.unpadded: rank0.group_ends counts rows without the padding of groups");
  EXPECT_EQ(ends_of({1, 3, 5, 6}), "");
  EXPECT_EQ(ends_of({2, 3, 5, 5}), "");
  EXPECT_EQ(ends_of({3, 5, 8, 5}), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "group_ends"), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "rank0.ends"), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "rank1.group_ends"), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "rank0.group_ends", Dtype::u32), "");
}

TEST(GroupEnds, OfWhichOneDiffersAreNotTold) {
  Case c;
  c.name = "rank0.group_ends";
  c.expected.emplace("rank0.indices", ints({0, 1, 2, -1}));
  EXPECT_TRUE(c.claims(ints({2, 4}), ints({2, 3})).empty());
  c.expected.insert_or_assign("rank0.indices", ints({0, -1, 2, -1}));
  EXPECT_EQ(c.claims(ints({2, 4}), ints({1, 2})).size(), 1u);
  Case floats;
  floats.name = "rank0.group_ends";
  floats.expected = c.expected;
  const auto as_floats = [](const std::vector<Index>& v) {
    return filled<std::int32_t>(Dtype::f32, {2},
                                [&](Index i) { return v[static_cast<std::size_t>(i)]; });
  };
  EXPECT_TRUE(floats.claims(as_floats({2, 4}), as_floats({1, 2})).empty());
}

}  // namespace
}  // namespace mxo
