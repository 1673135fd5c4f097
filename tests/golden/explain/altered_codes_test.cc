// Codes that are decoded, ordered or addressed in another way, each in words, and what is read
// then.
#include <gtest/gtest.h>

#include "tests/golden/altered_operands.h"

namespace mxo {
namespace {

/// x.codes [rows, k] and w.codes [2, n, k] that count from 1.
Call codes(Index rows, Index n, Index k) {
  return but(forward_call({rows, rows}, n, k),
             {{"x.codes", counted_bytes({rows, k}, 1)}, {"w.codes", counted_bytes({2, n, k}, 1)}});
}
Call rows_of_dy(Index rows) {
  return but(gradient_call({rows}, 1, 2), {{"dy.codes", counted_bytes({rows, 1}, 1)}});
}
/// Zeros, the first and last subnormals, the first normals and the last code, of both signs.
Call subnormals(const char* op, const char* format) {
  Call call = with(op, "codes",
                   bytes({2, 7}, {0x00, 0x01, 0x03, 0x04, 0x07, 0x08, 0x7F,  //
                                  0x80, 0x81, 0x83, 0x84, 0x87, 0x88, 0xFF}));
  call.set.set("format", format);
  return call;
}
TEST(AlteredCodes, OfCodesAreDecodedOtherwise) {
  const auto adds = add_code_hypotheses;
  const Call call = but(codes(1, 1, 4), {{"x.codes", bytes({1, 4}, {0x01, 0x12, 0xB2, 0x85})}});
  const char* zero = "subnormal codes are read as zero";
  expect_seen(adds, subnormals("dequantize", "e4m3"),
              {{"codes=flushed", zero, "0 0 0 0 0 8 127 128 128 128 128 128 136 255"}});
  expect_seen(adds, subnormals("decode", "e4m3"),
              {{"codes=flushed", "without their signs", "0 0 0 0 0 8 127 128 0 0 0 0 136 255"}});
  expect_seen(adds, subnormals("decode", "e5m2"),
              {{"codes=flushed", "", "0 0 0 4 7 8 127 128 128 128 132 135 136 255"}});
  expect_seen(adds, subnormals("decode", "e4m3fnuz"),
              {// FNUZ has no negative zero: 80 is NaN.
               {"codes=flushed", "", "0 0 0 0 0 8 127 128 0 0 0 0 136 255"}});
  expect_seen(adds, subnormals("decode", "e5m2fnuz"),
              {{"codes=flushed", "", "0 0 0 4 7 8 127 128 0 0 132 135 136 255"}});
  expect_none(adds, with("decode", "codes", counted_bytes({2}, 8)), "codes=flushed");
  expect_none(adds, subnormals("cast", "e4m3"), "codes=flushed");
  expect_seen(
      adds, call,
      {{"x.codes=flushed", "subnormal codes of x are read as zero", "0 18 178 128"},
       {"x.codes=nibbles", "the nibbles of every code of x are exchanged", "16 33 43 88"},
       {"x.codes=bits_reversed", "the bits of every code of x are reversed", "128 72 77 161"}});
  expect_seen(adds, lines_by_lines({2}, 2, 2), {{"x=flushed", "", ""}, {"x=nibbles", "", ""}});
}

TEST(AlteredCodes, OfCodesLieInAnotherOrder) {
  const auto adds = add_code_hypotheses;
  expect_seen(
      adds, codes(1, 1, 16),
      {{"x.codes=reversed_4", "x is reversed in runs of 4 along K",
        "4 3 2 1 8 7 6 5 12 11 10 9 16 15 14 13"},
       {"x.codes=halves_8", "x is taken with halves exchanged in runs of 8 along K",
        "5 6 7 8 1 2 3 4 13 14 15 16 9 10 11 12"},
       {"x.codes=interleaved_8", "x is taken with halves interleaved in runs of 8 along K",
        "1 5 2 6 3 7 4 8 9 13 10 14 11 15 12 16"},
       {"x.codes=apart_8", "x is taken with even and odd ones set apart in runs of 8 along K",
        "1 3 5 7 2 4 6 8 9 11 13 15 10 12 14 16"},
       {"x.codes=reversed_32", "", ""}});
  expect_seen(adds, rows_of_dy(6),
              {// Of gradients they are rows, and what would lie behind the last stays.
               {"dy.codes=reversed_2", "rows of dy.codes are reversed in runs of 2", "2 1 4 3 6 5"},
               {"dy.codes=reversed_4", "", "4 3 2 1 5 6"},
               {"dy.codes=apart_4", "", "1 3 2 4 5 6"}});
  expect_seen(adds, codes(4, 2, 4),
              {{"x.codes=tiles_transposed", "tiles of 4 x 4 of x.codes are transposed",
                "1 5 9 13 2 6 10 14 3 7 11 15 4 8 12 16"},
               {"x.codes=tiles_transposed", "8 x 4 of", ""},
               {"x.codes=tiles_transposed", "4 x 8 of", ""}});
  expect_seen(adds, codes(3, 2, 4),
              {{"x.codes=stride", "rows of x are read 5 elements apart rather than 4",
                "1 2 3 4 6 7 8 9 11 12 11 12"},
               {"w.codes=stride", "read 3", "1 2 3 4 4 5 6 7 7 8 9 10 10 11 12 13"}});
  expect_none(adds, rows_of_dy(16), "dy.codes=stride");

  // Tiles of 4 x 8 in w [2, 9, 20]: the last row and the last four columns are in none.
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
  expect_seen(
      adds, codes(1, 9, 20),
      {{"w.codes=tiles_transposed", "4 x 8 of w.codes are read column-major", written(read)},
       {"w.codes=tiles_transposed", "4 x 8 of w.codes lie column-major", written(lie)}});
}

/// Of the 32-byte swizzle two runs of 16 bytes change places in the second four of every eight
/// lines.
TEST(AlteredCodes, OfSwizzledLines) {
  Numbers read;
  for (Index i = 0; i < 8 * 32; ++i)
    read.push_back(static_cast<std::uint8_t>(1 + (i / 32 % 8 < 4 ? i : i ^ 16)));
  const std::string words = "exchanged by the number of their line (as the 32-byte swizzle";
  expect_seen(add_addressing_hypotheses, codes(8, 2, 32),
              {{"x.codes=swizzled_32", words.c_str(), written(read)}});
}

}  // namespace
}  // namespace mxo
