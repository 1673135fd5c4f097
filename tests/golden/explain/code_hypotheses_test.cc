// Codes that are decoded, ordered or addressed in another way: which are thought of, and as what.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/small_products.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<double>;

CausesListed codes_of(const Call& call) { return {call, add_code_hypotheses}; }

/// x.codes [rows, k] and w.codes [2, n, k] that count from 1.
Call counted_product(Index rows, Index n, Index k) {
  Call call = forward_call({rows, rows}, n, k);
  call.replace("x.codes", counted_bytes({rows, k}, 1));
  call.replace("w.codes", counted_bytes({2, n, k}, 1));
  return call;
}

/// dy.codes [rows, 1] that count from 1.
Call counted_gradient(Index rows) {
  Call call = gradient_call({rows}, 1, 2);
  call.replace("dy.codes", counted_bytes({rows, 1}, 1));
  return call;
}

/// Zeros, the first and last subnormals, the first normals and the last code, of both signs.
Call some_subnormals(const char* op, const char* format) {
  Call call{op, {}, {}};
  call.set.set("format", format);
  call.replace("codes", tensor_from<std::uint8_t>(Dtype::u8, {2, 7},
                                                  {0x00, 0x01, 0x03, 0x04, 0x07, 0x08, 0x7F,  //
                                                   0x80, 0x81, 0x83, 0x84, 0x87, 0x88, 0xFF}));
  return call;
}

TEST(CodeHypotheses, OfSubnormalCodesAreZeros) {
  for (const char* op : {"dequantize", "decode"}) {
    const CausesListed causes = codes_of(some_subnormals(op, "e4m3"));
    EXPECT_EQ(causes.phrases(), (Words{"subnormal codes are read as zero",
                                       "subnormal codes are read as zero, without their signs"}));
    EXPECT_EQ(causes.names(), (Words{"codes=flushed", "codes=flushed"}));
    for (const Hypothesis& h : causes.list) EXPECT_FALSE(h.local);
    EXPECT_EQ(operand_if(causes, "codes=flushed", "codes"),
              (Numbers{0, 0, 0, 0, 0, 8, 0x7F, 0x80, 0x80, 0x80, 0x80, 0x80, 0x88, 0xFF}));
    EXPECT_EQ(operand_if(causes, "codes=flushed", "codes", "without"),
              (Numbers{0, 0, 0, 0, 0, 8, 0x7F, 0x80, 0, 0, 0, 0, 0x88, 0xFF}));
  }
  EXPECT_EQ(codes_of(some_subnormals("cast", "e4m3")).list.size(), 0u);
  EXPECT_EQ(codes_of({"decode", {}, {}}).list.size(), 0u);
}

/// FNUZ has no negative zero: 80 is NaN.
TEST(CodeHypotheses, OfSubnormalCodesAreThoseOfTheFormat) {
  const auto flushed = [](const char* format) {
    return operand_if(codes_of(some_subnormals("decode", format)), "codes=flushed", "codes");
  };
  EXPECT_EQ(flushed("e5m2"),
            (Numbers{0, 0, 0, 4, 7, 8, 0x7F, 0x80, 0x80, 0x80, 0x84, 0x87, 0x88, 0xFF}));
  EXPECT_EQ(flushed("e4m3fnuz"), (Numbers{0, 0, 0, 0, 0, 8, 0x7F, 0x80, 0, 0, 0, 0, 0x88, 0xFF}));
  EXPECT_EQ(flushed("e5m2fnuz"),
            (Numbers{0, 0, 0, 4, 7, 8, 0x7F, 0x80, 0, 0, 0x84, 0x87, 0x88, 0xFF}));
  Call normal = some_subnormals("decode", "e4m3");
  normal.replace("codes", counted_bytes({2}, 8));
  EXPECT_FALSE(codes_of(normal).altered("codes=flushed"));
}

TEST(CodeHypotheses, OfBytesOfOperands) {
  Call call = counted_product(1, 1, 4);
  call.replace("x.codes", tensor_from<std::uint8_t>(Dtype::u8, {1, 4}, {0x01, 0x12, 0xB2, 0x85}));
  const CausesListed causes = codes_of(call);
  EXPECT_EQ(causes.at("x.codes=flushed").phrase, "subnormal codes of x are read as zero");
  EXPECT_EQ(causes.at("x.codes=nibbles").phrase, "the nibbles of every code of x are exchanged");
  EXPECT_EQ(causes.at("w.codes=bits_reversed").phrase, "the bits of every code of w are reversed");
  EXPECT_EQ(operand_if(causes, "x.codes=flushed", "x.codes"), (Numbers{0, 0x12, 0xB2, 0x80}));
  EXPECT_EQ(operand_if(causes, "x.codes=nibbles", "x.codes"), (Numbers{0x10, 0x21, 0x2B, 0x58}));
  EXPECT_EQ(operand_if(causes, "x.codes=bits_reversed", "x.codes"),
            (Numbers{0x80, 0x48, 0x4D, 0xA1}));
  for (const char* name : {"x.codes=flushed", "x.codes=nibbles", "x.codes=reversed_2"}) {
    EXPECT_TRUE(causes.at(name).local) << name;
    EXPECT_EQ(causes.at(name).stage, Stage::input);
  }
  call = lines_by_lines({2}, 2, 2);
  call.replace("x", floats({2, 1}, {1 + 0x1p-23f, 1}));
  const CausesListed wide = codes_of(call);
  EXPECT_FALSE(wide.altered("x=flushed")) << "f32 are no codes";
  EXPECT_EQ(wide.find("x=nibbles"), nullptr);
}

TEST(CodeHypotheses, OfLanesAreInWords) {
  const CausesListed causes = codes_of(counted_product(1, 1, 64));
  EXPECT_EQ(causes.phrases("x.codes=reversed"),
            (Words{"x is reversed in runs of 2 along K", "x is reversed in runs of 4 along K",
                   "x is reversed in runs of 8 along K", "x is reversed in runs of 16 along K",
                   "x is reversed in runs of 32 along K", "x is reversed in runs of 64 along K"}));
  EXPECT_EQ(causes.phrases("w.codes=halves_").front(),
            "w is taken with halves exchanged in runs of 4 along K");
  EXPECT_EQ(causes.phrases("w.codes=interleaved_").front(),
            "w is taken with halves interleaved in runs of 4 along K");
  EXPECT_EQ(causes.phrases("w.codes=apart_").front(),
            "w is taken with even and odd ones set apart in runs of 4 along K");
  EXPECT_EQ(codes_of(counted_gradient(4)).at("dy.codes=reversed_8").phrase,
            "rows of dy.codes are reversed in runs of 8");
}

TEST(CodeHypotheses, OfLanesTakeCodesOfTheirRun) {
  const CausesListed causes = codes_of(counted_product(1, 1, 16));
  const auto seen = [&](const char* name) { return operand_if(causes, name, "x.codes"); };
  EXPECT_EQ(seen("x.codes=reversed_4"),
            (Numbers{4, 3, 2, 1, 8, 7, 6, 5, 12, 11, 10, 9, 16, 15, 14, 13}));
  EXPECT_EQ(seen("x.codes=halves_8"),
            (Numbers{5, 6, 7, 8, 1, 2, 3, 4, 13, 14, 15, 16, 9, 10, 11, 12}));
  EXPECT_EQ(seen("x.codes=interleaved_8"),
            (Numbers{1, 5, 2, 6, 3, 7, 4, 8, 9, 13, 10, 14, 11, 15, 12, 16}));
  EXPECT_EQ(seen("x.codes=apart_8"),
            (Numbers{1, 3, 5, 7, 2, 4, 6, 8, 9, 11, 13, 15, 10, 12, 14, 16}));
  EXPECT_EQ(seen("x.codes=reversed_32"), Numbers{}) << "K is shorter";
}

/// What would be read behind the last row stays.
TEST(CodeHypotheses, OfLanesOfGradientsAreRows) {
  const CausesListed causes = codes_of(counted_gradient(6));
  const auto seen = [&](const char* name) { return operand_if(causes, name, "dy.codes"); };
  EXPECT_EQ(seen("dy.codes=reversed_2"), (Numbers{2, 1, 4, 3, 6, 5}));
  EXPECT_EQ(seen("dy.codes=reversed_4"), (Numbers{4, 3, 2, 1, 5, 6}));
  EXPECT_EQ(seen("dy.codes=halves_4"), (Numbers{3, 4, 1, 2, 5, 6}));
  EXPECT_EQ(seen("dy.codes=apart_4"), (Numbers{1, 3, 2, 4, 5, 6}));
}

TEST(CodeHypotheses, OfTilesAreInWords) {
  const Words phrases = codes_of(counted_product(1, 1, 4)).phrases("x.codes=tiles");
  ASSERT_EQ(phrases.size(), 6u + 2u * 22u);
  EXPECT_EQ(phrases[0], "tiles of 4 x 4 of x.codes are transposed");
  EXPECT_EQ(phrases[5], "tiles of 128 x 128 of x.codes are transposed");
  EXPECT_EQ(phrases[6], "tiles of 128 x 4 of x.codes are read column-major");
  EXPECT_EQ(phrases[7], "tiles of 128 x 4 of x.codes lie column-major");
}

/// Tiles of 4 x 8 in w [2, 9, 20]: the last row and the last four columns are in none.
TEST(CodeHypotheses, OfTilesLeaveWhatIsInNone) {
  const CausesListed causes = codes_of(counted_product(1, 9, 20));
  Numbers read;
  Numbers lie;
  for (Index i = 0; i < 2 * 9 * 20; ++i) {
    const Index row = i / 20 % 9;
    const Index column = i % 20;
    const Index k = row % 4 * 8 + column % 8;  // in its tile
    const Index first = i - row % 4 * 20 - column % 8;
    const bool stays = row == 8 || column >= 16;
    const Index lying = k % 8 * 4 + k / 8;
    read.push_back(static_cast<std::uint8_t>(1 + (stays ? i : first + k % 4 * 20 + k / 4)));
    lie.push_back(static_cast<std::uint8_t>(1 + (stays ? i : first + lying / 8 * 20 + lying % 8)));
  }
  const char* name = "w.codes=tiles_transposed";
  EXPECT_EQ(operand_if(causes, name, "w.codes", "4 x 8 of w.codes are read"), read);
  EXPECT_EQ(operand_if(causes, name, "w.codes", "4 x 8 of w.codes lie"), lie);
}

TEST(CodeHypotheses, OfTilesNeedAWholeOne) {
  const CausesListed causes = codes_of(counted_product(4, 2, 4));
  const char* name = "x.codes=tiles_transposed";
  EXPECT_EQ(operand_if(causes, name, "x.codes", "4 x 4 of"),
            (Numbers{1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 4, 8, 12, 16}));
  EXPECT_FALSE(causes.altered(name, "8 x 4 of"));
  EXPECT_FALSE(causes.altered(name, "4 x 8 of"));
}

TEST(CodeHypotheses, OfStridesAreNearK) {
  Words expected;
  for (const int stride : {8, 15, 17, 24, 32, 48, 64, 80, 128, 144}) {
    expected.push_back("rows of x are read " + std::to_string(stride) +
                       " elements apart rather than 16");
  }
  EXPECT_EQ(codes_of(counted_product(2, 2, 16)).phrases("x.codes=stride"), expected);
  EXPECT_EQ(codes_of(counted_gradient(16)).names("x.codes=stride"), Words{});
  EXPECT_EQ(codes_of({"cast", {}, {}}).list.size(), 0u);
}

/// What would be read behind the end stays.
TEST(CodeHypotheses, OfStridesAreThoseOfAllRows) {
  const CausesListed causes = codes_of(counted_product(3, 2, 4));
  EXPECT_EQ(operand_if(causes, "x.codes=stride", "x.codes", "read 5"),
            (Numbers{1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 11, 12}));
  EXPECT_EQ(operand_if(causes, "w.codes=stride", "w.codes", "read 3"),
            (Numbers{1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11, 12, 13}));
}

}  // namespace
}  // namespace mxo
