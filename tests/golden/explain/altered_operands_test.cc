// Operands that a cause alters, each in its words, and what is seen of the operand then.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/scale_layout.h"
#include "tests/golden/altered_operands.h"

namespace mxo {
namespace {

Call ends(const std::vector<Index>& at, const char* op = "cast") {
  return with(op, "group_ends", ends_at(at));
}
/// x [rows, 32 blocks] by w [2, 2, 32 blocks], whose scales are bytes that count from 1 and 101.
Call scales(Index rows, Index blocks) {
  return but(forward_call({rows, rows}, 2, 32 * blocks),
             {{"x.scales", counted_bytes({rows, blocks}, 1)},
              {"w.scales", counted_bytes({2, 2, blocks}, 101)}});
}
/// The gradient of `rows` rows, whose scales count from 1.
Call gradient(Index rows, Index lines) {
  return but(gradient_call({rows}, lines, lines),
             {{"dy.scales", counted_bytes({rows / 32, lines}, 1)},
              {"x.scales", counted_bytes({rows / 32, lines}, 11)}});
}
/// Scales of f32, a row of `blocks` for each line, that count from 3 and 11.
Call float_scales(Index blocks) {
  return but(coded_product(2, 2, 1, 32 * blocks),
             {{"x.scales", counted_floats({2, blocks}, 3)},
              {"w.scales", counted_floats({1, 2, blocks}, 11)}});
}
Call gate(std::vector<Index> shape) {
  return with("swiglu", "x", counted_floats(std::move(shape), 1));
}
/// Numbers that bf16 rounds, and that f16 keeps, cuts or loses.
Tensor numbers() { return floats({4}, {1 + 0x1.8p-8f, 1 + 0x1p-10f, 70000, -0x1p-30f}); }
const Numbers kInBf16{1 + 0x1p-7, 1, 70144, -0x1p-30};
const Numbers kInF16{1 + 0x1.8p-8, 1 + 0x1p-10, HUGE_VAL, -0.0};
/// Scales of f32 that f16 keeps.
Call narrow_scales() {
  return but(coded_product(2, 1, 1), {{"x.scales", floats({2, 1}, {1 + 0x1.8p-8f, 1 + 0x1.8p-11f})},
                                      {"w.scales", floats({1, 1, 1}, {3 + 0x1p-10f})}});
}
Tensor some_powers() { return floats({5}, {1 + 0x1.8p-8f, 3, 0x1.6p-3f, 0, -3}); }

/// Scales x [2, 2] and w [2, n, 2].
Call shared(const Tensor& x, const Tensor& w) {
  return but(forward_call({1, 2}, w.extent(1), 64), {{"x.scales", x}, {"w.scales", w}});
}
Call joined() {
  return shared(bytes({2, 2}, {3, 1, 2, 5}), bytes({2, 2, 2}, {1, 2, 4, 3, 8, 5, 6, 7}));
}

TEST(AlteredOperands, OfScalesAreReadElsewhere) {
  const auto adds = add_input_hypotheses;
  // Rows of 12: four of each lie in the first tile, and rows are 16 bytes apart there.
  const char* as_tiles = "1 2 3 4 0 0 0 0 0 0 0 0 17 18 19 20 0 0 0 0 0 0 0 0";
  const char* as_rows = "1 2 3 4 0 0 0 0 0 0 0 0 0 0 0 0 13 14 15 16 0 0 0 0";
  const char* linear = "linear scales of x are read as 128x4 tiles (not swizzled)";
  const char* experts = "1 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 18 0 0 0 0 0 0 0 0 0 0 0 0 0 0";
  const Call of_experts =
      but(forward_call({1, 2}, 8, 64), {{"w.scales", counted_bytes({2, 8, 2}, 1)}});
  const char* first = "every K block of x takes the scale of block 0";
  const char* both = "every K block takes the scales of block 0, on both sides";
  expect_seen(adds, scales(2, 12),
              {{"x.scales=linear_as_tiles", linear, as_tiles},
               {"x.scales=tiles_as_linear",
                "the scales of x are swizzled once more than they are read back", as_rows}});
  expect_seen(
      adds, of_experts,
      {{"w.scales=linear_as_tiles", "", experts}, {"w.scales=tiles_as_linear", "", experts}});
  expect_none(adds, float_scales(2), "x.scales=linear_as_tiles");
  expect_none(adds, scales(0, 2), "x.scales=linear_as_tiles");
  expect_seen(
      adds, scales(3, 1),
      {{"scales=exchanged", "the scales of both sides are exchanged", "101 102 103", "x.scales"},
       {"scales=exchanged", "", "1 2 3 1", "w.scales"}});
  expect_seen(adds, scales(0, 1), {{"scales=exchanged", "", "0 0 0 0", "w.scales"}});
  expect_seen(
      adds, scales(2, 3),
      {{"x.scales=first_block", first, "1 1 1 4 4 4"},
       {"x.scales=block_before", "K blocks of x take the scale of the block before", "1 1 2 4 4 5"},
       {"scales=first_block", both, "101 101 101 104 104 104 107 107 107 110 110 110", "w.scales"},
       {"scales=first_block", both, "1 1 1 4 4 4", "x.scales"}});
  expect_seen(adds, scales(2, 1),
              {{"x.scales=first_block", "", ""}, {"scales=first_block", "", "", "x.scales"}});
  expect_none(adds, but(coded_product(2, 2, 1, 32), {{"x.scales", counted_floats({2}, 1)}}),
              "x.scales=first_block");
  expect_seen(adds, gradient(96, 2),
              {// The blocks of a gradient are rows of scales.
               {"dy.scales=first_block", "", "1 2 1 2 1 2"},
               {"dy.scales=block_before", "", "1 2 1 2 3 4"},
               {"scales=first_block", "", "11 12 11 12 11 12", "x.scales"}});
  expect_none(adds, gradient(32, 2), "dy.scales=first_block");
  expect_seen(adds, float_scales(1),
              {{"scales=left_out", "all scales are left out", "1 1", "w.scales"},
               {"scales=twice", "all scales are applied twice", "9 16", "x.scales"},
               {"scales=twice", "", "121 144", "w.scales"},
               {"scales=up", "all scales are rounded up to powers of two", "4 4", "x.scales"},
               {"scales=down", "all scales are cut to powers of two", "2 4", "x.scales"}});
  expect_none(adds, scales(2, 2), "scales=up");
  expect_none(adds, without(float_scales(1), "x.scales"), "scales=left_out");
  expect_none(adds, without(float_scales(1), "w.scales"), "scales=left_out");
  expect_seen(adds, with("cast", "x", counted_floats({2, 2}, 1)),
              {{"x=transposed", "x is read transposed", "1 3 2 4"}});
  expect_none(adds, with("cast", "x", counted_floats({4}, 1)), "x=transposed");
  expect_seen(adds, with("dequantize", "scales", counted_bytes({2, 2}, 1)),
              {{"scales=transposed", "scales are read along the wrong axis", "1 3 2 4"}});
}

/// One scale a row is a row of one column.
TEST(AlteredOperands, OfRowsTakeOtherScales) {
  for (const Index blocks : {1, 2}) {
    const bool one = blocks == 1;
    expect_seen(add_addressing_hypotheses, scales(4, blocks),
                {{"x.scales=row_0", "every row of x takes the scales of row 0",
                  one ? "1 1 1 1" : "1 2 1 2 1 2 1 2"},
                 {"x.scales=first_tile", "first 32", one ? "1 2 3 4" : "1 2 3 4 5 6 7 8"}});
  }
  Call vector = but(coded_product(3, 2, 1, 32), {{"x.scales", counted_floats({3}, 1)}});
  vector.replace("group_ends", ends_at({3}));
  expect_seen(add_addressing_hypotheses, vector,
              {{"x.scales=row_0", "every row of x takes the scale of row 0", "1 1 1"}});
}

/// Experts of 96 columns, in blocks of 64: the second of each is 32 high.
TEST(AlteredOperands, OfBlocksOfRowsAreTakenForOthers) {
  const Call call =
      but(forward_call({1, 2}, 96, 128),
          {{"x.scales", counted_floats({2, 1}, 1)}, {"w.scales", counted_floats({2, 2, 1}, 1)}});
  Numbers evenly;
  Numbers across;
  Numbers halves;
  for (Index i = 0; i < 2 * 96; ++i) {
    halves.push_back(static_cast<double>(1 + i / 96 * 2 + std::min<Index>(i % 96 / 32, 1)));
    evenly.push_back(static_cast<double>(1 + i / 48));
    across.push_back(static_cast<double>(1 + i / 64));
  }
  expect_seen(add_block_hypotheses, call,
              {{"w.scales=rows_of_block",
                "the scales of w are taken for blocks of 48 rows rather than 64", written(evenly)},
               {"w.scales=rows_of_block", "of 32 rows rather than 64", written(halves)},
               {"w.scales=across_experts", "those of one matrix", written(across)}});
}

TEST(AlteredOperands, OfScaleByte0AreZeros) {
  Call call = but(scales(2, 2), {{"x.codes", counted_bytes({2, 64}, 1)}});
  expect_none(add_input_hypotheses, call, "x.scales=byte_0");
  expect_none(add_input_hypotheses, float_scales(2), "x.scales=byte_0");

  call.replace("x.scales", bytes({2, 2}, {1, 0, 2, 3}));
  Numbers seen = plain_numbers(call.input("x.codes"));
  std::fill(seen.begin() + 32, seen.begin() + 64, 0.0);
  const Call down = but(gradient(64, 2), {{"dy.codes", counted_bytes({64, 2}, 1)},
                                          {"dy.scales", bytes({2, 2}, {0, 2, 3, 0})}});
  Numbers seen_down = plain_numbers(down.input("dy.codes"));
  for (std::size_t row = 0; row < 64; ++row) seen_down[2 * row + row / 32] = 0;
  expect_seen(add_input_hypotheses, call,
              {{"x.scales=byte_0", "scale byte 0 of x is read as 0", written(seen), "x.codes"}});
  expect_seen(add_input_hypotheses, down,
              {{"dy.scales=byte_0", "", written(seen_down), "dy.codes"}});
}

TEST(AlteredOperands, OfEndsStayWithinTheRows) {
  const auto adds = add_input_hypotheses;
  const char* ignored = "blocks do not restart at each group";
  const char* buffer =
      "the last group runs to the end of the buffer: rows that belong to nobody are summed";
  const Call buffered = but(gradient_call({32, 96}, 2, 2), {{"group_ends", ends_at({32, 64})}});
  const char* ignored_id = "group_ends=ignored";
  expect_seen(adds, ends({2, 3, 5}, "quantize"), {{ignored_id, ignored, "5 5 5"}});
  expect_none(adds, ends({5}, "quantize"), ignored_id);
  expect_none(adds, ends({2, 5}), ignored_id);
  expect_seen(adds, buffered, {{"group_ends=buffer", buffer, "32 96"}});
  expect_none(adds, gradient_call({32, 96}, 2, 2), "group_ends=buffer");
  expect_none(adds, forward_call({4}, 2, 64), "group_ends=buffer");
  const char* moved = "group_ends=moved";
  expect_seen(adds, ends({2, 4, 6}),
              {{"group_ends-1", "groups end 1 row early", "1 3 6"},
               {"group_ends+1", "groups end 1 row late", "3 5 6"},
               {moved, "group 1 ends 1 row early", "2 3 6"},
               {moved, "group 0 ends 1 row late", "3 4 6"}});
  expect_seen(adds, ends({0, 4, 6}), {{"group_ends-1", "", "0 3 6"}});
  expect_seen(adds, ends({2, 6, 6}),
              {{"group_ends+1", "", "3 6 6"}, {"group_ends-1", "", "1 5 6"}});
  expect_seen(adds, ends({32, 64}),
              {{"group_ends-32", "groups end 32 rows early", "0 64"},
               {"group_ends+32", "groups end 32 rows late", "64 64"}});
  expect_none(adds, ends({31, 63}), "group_ends-32");
  expect_none(adds, ends({}), "group_ends-1");
  expect_none(adds, ends({32, 63}), "group_ends+32");
  expect_seen(adds, ends({1, 2}),
              {{moved, "group 0 ends 1 row early", "0 2"},
               {moved, "group 0 ends 1 row late", "2 2"},
               {moved, "group 1 ends 1 row late", "1 3"}});
  expect_none(adds, ends({0, 2}), moved, "group 0 ends 1 row early");
  expect_seen(adds, ends({2, 2}),
              {{moved, "group 1 ends 1 row early", ""}, {moved, "group 0 ends 1 row late", ""}});
}

TEST(AlteredOperands, OfWeightsAndGates) {
  const auto adds = add_input_hypotheses;
  const Call weights = with("combine", "weights", floats({3}, {0.5f, 1 + 0x1p-8f, 3}));
  const Call ranks = but(weights, {{"probs", floats({1}, {3})},
                                   {"rank0.weights", floats({1}, {4})},
                                   {"rank1.weights", Tensor(Dtype::bf16, {1})},
                                   {"x", floats({1}, {5})}});
  expect_seen(adds, weights,
              {{"weights=twice", "router weights are applied twice",
                written({0.25, static_cast<float>(1 + 0x1p-7 + 0x1p-16), 9})},
               {"weights=left_out", "router weights are left out", "1 1 1"},
               {"weights=bf16", "router weights are rounded to bf16 first", written({0.5, 1, 3})}});
  expect_seen(adds, ranks,
              {{"weights=twice", "", "9", "probs"},
               {"weights=twice", "", "16", "rank0.weights"},
               {"weights=twice", "", "0", "rank1.weights"},
               {"weights=twice", "", "5", "x"}});
  const Call one_of_two = but(with("combine", "probs", floats({1}, {3})),
                              {{"rank1.weights", Tensor(Dtype::bf16, {1})}});
  expect_seen(adds, one_of_two, {{"weights=twice", "", "9", "probs"}});
  expect_none(adds, with("combine", "weights", Tensor(Dtype::bf16, {1})), "weights=twice");
  expect_seen(
      adds, gate({2, 8}),
      {{"x=halves", "gate and up are exchanged", "5 6 7 8 1 2 3 4 13 14 15 16 9 10 11 12"},
       {"x=interleaved", "gate and up are read interleaved",
        "1 3 5 7 2 4 6 8 9 11 13 15 10 12 14 16"},
       {"x=interleaved", "interleaved in runs of 2", "1 2 5 6 3 4 7 8 9 10 13 14 11 12 15 16"},
       {"x=interleaved", "runs of 4", ""}});
  expect_none(adds, gate({1, 24}), "x=interleaved", "runs of 8");
  expect_seen(adds, gate({1, 12}),
              {{"x=of_ranks", "of 6: 2 ranks cut", "1 2 3 7 8 9 4 5 6 10 11 12"}});
  expect_none(adds, gate({1, 12}), "x=of_ranks", "4 ranks");
  expect_none(adds, gate({1, 7}), "x=halves");
  expect_none(adds, gate({2, 0}), "x=halves");
}

TEST(AlteredOperands, AreRoundedFirst) {
  const auto adds = add_precision_hypotheses;
  const Tensor halves =
      tensor_from<F16>(Dtype::f16, {2}, {encode<kF16>(1 + 0x1.8p-8f), encode<kF16>(-0x1.8p-20f)});
  const Call powers = with("dequantize", "scales", some_powers());
  const Call near =
      with("dequantize", "scales", floats({2}, {1024 * (1 - 0x1p-24f), 1024 * (1 + 0x1p-23f)}));
  expect_seen(adds, with("swiglu", "x", numbers()),
              {{"x=bf16", "x is rounded to bf16 first", written(kInBf16)}});
  expect_seen(
      adds, with("quantize", "x", numbers()),
      {{"x=bf16_cut", "x is cut to bf16 first, toward zero", written({1, 1, 69632, -0x1p-30})},
       {"x=f16", "x is rounded to f16 first", written(kInF16)}});
  expect_seen(adds, with("route", "logits", numbers()),
              {{"logits=f16", "logits are rounded to f16 first", written(kInF16)}});
  expect_seen(adds, with("route", "bias", numbers()),
              {{"bias=bf16", "the bias is rounded to bf16 first", written(kInBf16)}});
  expect_none(adds, with("swiglu", "x", Tensor(Dtype::bf16, {4})), "x=bf16");
  expect_none(adds, with("swiglu", "x", halves), "x=bf16");
  expect_seen(adds, with("quantize", "x", halves),
              {{"x=bf16", "x is rounded to bf16 first", written({1 + 0x1p-7, -0x1.8p-20})}});
  expect_seen(
      adds, narrow_scales(),
      {{"x.scales=bf16", "the scales of x are rounded to bf16 first", written({1 + 0x1p-7, 1})},
       {"x.scales=f16", "the scales of x are rounded to f16 first",
        written({1 + 0x1.8p-8, 1 + 0x1p-10})},
       {"x.scales=bf16", "", written({3 + 0x1p-10}), "w.scales"},
       {"scales=bf16", "the scales of both sides are rounded to bf16 first",
        written({1 + 0x1p-7, 1}), "x.scales"},
       {"scales=bf16", "", "3", "w.scales"}});
  expect_none(adds, but(narrow_scales(), {{"w.scales", floats({1, 1, 1}, {0x1p-30f})}}),
              "w.scales=f16");
  expect_none(adds, but(narrow_scales(), {{"w.scales", floats({1, 1, 1}, {0x1p20f})}}),
              "scales=f16");
  expect_none(adds, without(narrow_scales(), "w.scales"), "scales=bf16");
  expect_seen(
      adds, powers,
      {{"scales=down", "the scales are cut to powers of two first", written({1, 2, 0x1p-3, 0, -3})},
       {"scales=up", "the scales are rounded up to powers of two first",
        written({2, 4, 0x1p-2, 0, -3})},
       {"scales=nearest", "the scales are rounded to the nearest power of two first",
        written({1, 4, 0x1p-3, 0, -3})}});
  expect_seen(adds, near, {{"scales=down", "", "512 1024"}, {"scales=up", "", "1024 2048"}});
  expect_none(adds, with("cast", "scales", some_powers()), "scales=down");
}

/// Beside what planted faults show: three lines have no halves, NaN is larger than nothing, and
/// what alters nothing is none.
TEST(AlteredOperands, OfScalesShareTheLargest) {
  const auto adds = add_shared_scales;
  const Call odd = shared(counted_bytes({2, 2}, 1), counted_bytes({2, 3, 2}, 1));
  const Call nan =
      shared(bytes({2, 2}, {255, 1, 255, 255}), bytes({2, 2, 2}, {1, 255, 2, 2, 3, 3, 4, 4}));
  const Call f32 =
      but(coded_product(2, 2, 1, 64), {{"x.scales", floats({2, 2}, {-1, -2, 0.1f, 0.3f})},
                                       {"w.scales", floats({1, 2, 2}, {1, 1, 2, 2})}});
  expect_seen(adds, joined(),
              {{"x.scales=largest_of_expert", "", ""},
               {"w.scales=largest_of_line", "", "2 2 4 4 8 8 7 7"},
               {"w.scales=largest_of_tensor", "", "8 8 8 8 8 8 8 8"}});
  expect_seen(adds, odd,
              {{"w.scales=largest_of_halves", "", ""},
               {"w.scales=largest_of_pairs", "", "3 4 3 4 5 6 9 10 9 10 11 12"}});
  expect_seen(adds, nan, {{"x.scales=largest_of_line", "", "1 1 255 255"}});
  expect_seen(adds, f32,
              {{"x.scales=largest_of_line", "", written({-1, -1, 0.3f, 0.3f})},
               {"w.scales=largest_of_line", "", ""}});
  expect_seen(adds, but(f32, {{"x.scales", floats({2}, {1, 2})}}),
              {{"x.scales=largest_of_tensor", "", "2 2"}});
  expect_none(adds, gradient(32, 2), "dy.scales=largest_of_line");
  expect_none(adds, lines_by_lines({2}, 2, 2), "x=largest_of_line");
  expect_none(adds, but(f32, {{"w.scales", Tensor(Dtype::f32, {1})}}), "w.scales=largest_of_line");
}

}  // namespace
}  // namespace mxo
