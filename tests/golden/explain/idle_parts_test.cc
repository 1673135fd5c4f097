// Experts without tokens, tiles beyond a matrix and lines of zeros, which hold something else.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "formats/scale_layout.h"
#include "tests/golden/padding_case.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

TEST(Padding, IsExpertsWithoutTokens) {
  PaddingCase c;
  c.name = "dw";
  c.call.op = "grouped_linear_backward";
  c.call.replace("group_ends", ends_at({0, 3, 3}));
  const Tensor dw = ones({3, 2, 8}, [](Index i) { return i / 16 != 1; });
  const auto idle = [](Index i) { return i / 16 != 1; };
  EXPECT_EQ(c.said(dw, idle), old("all of experts 0 and 2 of dw", "experts without tokens"));
  EXPECT_EQ(c.said(dw, [](Index i) { return i / 16 == 1 && i % 16 < 8; }), "");
  const auto other = [&](const auto& change, std::vector<Index> shape = {3, 2, 8}) {
    PaddingCase changed = c;
    change(changed);
    return changed.said(ones(std::move(shape), idle), idle);
  };
  EXPECT_EQ(other([](PaddingCase& o) { o.name = "dx"; }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.inputs.erase("group_ends"); }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.replace("group_ends", ends_at({0, 3, 3, 3})); }), "");
  EXPECT_EQ(other([](PaddingCase&) {}, {6, 8}), "");
  EXPECT_EQ(other([](PaddingCase&) {}, {3, 16}), "");
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
  PaddingCase c;
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
  c.said(ones({bytes}, idle), [&](Index i) { return idle(i) || i == 0; });
  EXPECT_EQ(c.left, 1) << "the first scale is none of the padding";
  const auto other = [&](const auto& change) {
    PaddingCase changed = c;
    change(changed);
    return changed.said(ones({bytes}, idle), idle);
  };
  EXPECT_EQ(other([](PaddingCase& o) { o.call.op = "unswizzle_scales"; }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.set.set("layout", "m_groups"); }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.inputs.clear(); }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.replace("scales", Tensor(Dtype::u8, {650})); }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.replace("scales", Tensor(Dtype::u8, {0, 5})); }), "");
}

TEST(Padding, OfTilesIsThatOfQuantisedScales) {
  const auto idle = [](Index i) { return is_tile_padding(i, 40, 2); };
  PaddingCase c;
  c.name = "scales";
  c.call.op = "quantize";
  c.call.replace("x", Tensor(Dtype::bf16, {40, 64}));
  c.call.set.set("scale_layout", "blocked");
  const auto other = [&](const auto& change) {
    PaddingCase changed = c;
    change(changed);
    return changed.said(ones({512}, idle), idle);
  };
  EXPECT_NE(other([](PaddingCase&) {}), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.name = "codes"; }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.op = "dequantize"; }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.set = {}; }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.call.inputs.clear(); }), "");
}

/// `operand` with codes of zero, of either sign, where idle(i).
template <typename ZeroAt>
void clear_codes(Call& call, const std::string& operand, const ZeroAt& zero) {
  Tensor codes = call.input(operand);
  for (Index i = 0; i < codes.elements(); ++i) {
    if (zero(i)) codes.as<std::uint8_t>()[i] = i % 2 == 0 ? 0 : 0x80;
  }
  call.replace(operand, std::move(codes));
}

TEST(Padding, IsOfLinesThatAreZero) {
  PaddingCase c;
  c.call = forward_call({2, 5}, 8, 32);
  clear_codes(c.call, "x.codes", [](Index i) { return i / 32 == 3; });
  clear_codes(c.call, "x.codes", [](Index i) { return i / 32 == 1 && i % 32 < 31; });
  clear_codes(c.call, "x.codes", [](Index i) { return i / 32 == 2 && i % 32 > 0; });
  const auto idle = [](Index i) { return i / 8 == 3; };
  const Tensor y = ones({5, 8}, idle);
  const std::string words = "lines of x that are zero";
  EXPECT_EQ(c.said(y, idle), old("row 3 of group 1 of y", words, true));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 1; }), "") << "but for its last code";
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 2; }), "") << "but for its first code";
  clear_codes(c.call, "x.codes", [](Index i) { return i < 32; });
  EXPECT_EQ(c.said(y, [](Index i) { return i < 8; }), old("row 0 of group 0 of y", words, true));
  c.name = "z";
  EXPECT_EQ(c.said(y, idle), "");
  PaddingCase plain;
  plain.call = forward_call({2, 5}, 8, 32);
  EXPECT_EQ(plain.said(y, idle), "");
  PaddingCase thin;
  thin.call = forward_call({2, 5}, 8, 1);
  clear_codes(thin.call, "x.codes", [](Index i) { return i == 3; });
  EXPECT_EQ(thin.said(y, idle), old("row 3 of group 1 of y", words, true));
}

TEST(Padding, IsOfColumnsThatAreZeroInAGroup) {
  PaddingCase c;
  c.name = "dw";
  c.call = gradient_call({32, 32, 64}, 3, 8);
  clear_codes(c.call, "dy.codes", [](Index i) { return i / 3 >= 32 && i % 3 == 1; });
  const auto idle = [](Index i) { return i / 8 == 7; };
  EXPECT_EQ(c.said(ones({3, 3, 8}, idle), idle),
            old("row 1 of expert 2 of dw", "lines of dy that are zero", true));
}

TEST(Padding, IsOfNoColumnThatIsZeroARowLater) {
  PaddingCase c;
  c.name = "dw";
  c.call = gradient_call({32, 64}, 3, 8);
  clear_codes(c.call, "dy.codes", [](Index i) { return i % 3 == 0 && i / 3 >= 1 && i / 3 <= 32; });
  const auto first = [](Index i) { return i / 8 == 3; };
  EXPECT_EQ(c.said(ones({2, 3, 8}, first), first), "");
}

TEST(Padding, OfEmptyExpertsIsNoneOfZeroLines) {
  PaddingCase c;
  c.name = "dw";
  c.call = gradient_call({0, 32}, 2, 8);
  clear_codes(c.call, "dy.codes", [](Index i) { return i % 2 == 0; });
  const auto idle = [](Index i) { return i < 24; };
  Tensor actual = ones({2, 2, 8}, idle);
  std::fill_n(actual.as<std::uint8_t>(), 24, std::uint8_t{9});
  EXPECT_EQ(c.claims(ones({2, 2, 8}, idle), std::move(actual)),
            (std::vector<std::string>{
                old("all of expert 0 of dw", "experts without tokens"),
                old("row 0 of expert 1 of dw", "lines of dy that are zero", true)}));
}

}  // namespace
}  // namespace mxo
