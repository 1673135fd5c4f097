// Operands that are read another way: which are thought of, in which words, and what is seen then.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/small_bench.h"
#include "tests/golden/small_products.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Numbers = std::vector<double>;

CausesListed inputs_of(const Call& call) { return {call, add_input_hypotheses}; }

/// x [rows, 32 blocks] by w [2, 2, 32 blocks], whose scales are bytes that count from 1 and 101.
Call numbered_scales(Index rows, Index blocks) {
  Call call = forward_call({rows, rows}, 2, 32 * blocks);
  call.replace("x.scales", counted_bytes({rows, blocks}, 1));
  call.replace("w.scales", counted_bytes({2, 2, blocks}, 101));
  return call;
}

/// The gradient of 64 rows, [2, lines] scales of each side.
Call gradient_scales(Index lines) {
  Call call = gradient_call({64}, lines, lines);
  call.replace("dy.scales", counted_bytes({2, lines}, 1));
  call.replace("x.scales", counted_bytes({2, lines}, 101));
  return call;
}

/// Scales of f32, a row of `blocks` for each line.
Call float_scales(Index blocks) {
  Call call = coded_product(2, 2, 1, 32 * blocks);
  call.replace("x.scales", counted_floats({2, blocks}, 3));
  call.replace("w.scales", counted_floats({1, 2, blocks}, 11));
  return call;
}

struct Listed {
  const char* name;
  const char* phrase;
  bool local;
};

void expect_listed(const CausesListed& causes, std::initializer_list<Listed> all) {
  for (const Listed& one : all) {
    const Hypothesis* h = causes.find(one.name, one.phrase);
    ASSERT_NE(h, nullptr) << one.name;
    EXPECT_EQ(h->phrase, one.phrase);
    EXPECT_EQ(h->local, one.local) << one.name;
    EXPECT_EQ(h->stage, Stage::input) << one.name;
  }
}

TEST(InputHypotheses, OfScalesAreInWords) {
  expect_listed(
      inputs_of(numbered_scales(2, 2)),
      {{"x.scales=linear_as_tiles", "linear scales of x are read as 128x4 tiles (not swizzled)",
        false},
       {"w.scales=tiles_as_linear",
        "the scales of w are swizzled once more than they are read back", false},
       {"w.scales=transposed", "the scales of w are read along the wrong axis", false},
       {"x.scales=first_block", "every K block of x takes the scale of block 0", false},
       {"w.scales=block_before", "K blocks of w take the scale of the block before", false},
       {"x.scales=byte_0", "scale byte 0 of x is read as 0", true},
       {"x.codes=transposed", "x is read transposed", false},
       {"scales=exchanged", "the scales of both sides are exchanged", false},
       {"scales=left_out", "all scales are left out", true},
       {"scales=twice", "all scales are applied twice", true},
       {"scales=first_block", "every K block takes the scales of block 0, on both sides", false},
       {"scales=transposed", "the scales of both sides are read along the wrong axis", false}});
  EXPECT_NE(inputs_of(float_scales(2)).find("w.scales=inverse"), nullptr)
      << "with what may be made of each";
  expect_listed(inputs_of(float_scales(2)),
                {{"scales=up", "all scales are rounded up to powers of two", true},
                 {"scales=down", "all scales are cut to powers of two", true}});
}

/// Rows of 12 scales: four of each lie in the first tile, and rows are 16 bytes apart there.
TEST(InputHypotheses, OfTilesKnowWhereScalesLie) {
  const CausesListed causes = inputs_of(numbered_scales(2, 12));
  EXPECT_EQ(operand_if(causes, "x.scales=linear_as_tiles", "x.scales"),
            (Numbers{1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 17, 18, 19, 20, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(operand_if(causes, "x.scales=tiles_as_linear", "x.scales"),
            (Numbers{1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 13, 14, 15, 16, 0, 0, 0, 0}));
}

TEST(InputHypotheses, OfTilesAreOfEachExpert) {
  Call call = forward_call({1, 2}, 8, 64);
  call.replace("w.scales", counted_bytes({2, 8, 2}, 1));
  const CausesListed causes = inputs_of(call);
  for (const char* name : {"w.scales=linear_as_tiles", "w.scales=tiles_as_linear"}) {
    Numbers expected(32);
    expected[0] = 1;
    expected[1] = 2;
    expected[16] = 17;
    expected[17] = 18;
    EXPECT_EQ(operand_if(causes, name, "w.scales"), expected) << name;
  }
}

TEST(InputHypotheses, OfTilesNeedBytesInRows) {
  const char* name = "x.scales=linear_as_tiles";
  EXPECT_FALSE(inputs_of(float_scales(2)).altered(name));
  EXPECT_FALSE(inputs_of(numbered_scales(0, 2)).altered(name));
  Call call = numbered_scales(2, 1);
  EXPECT_TRUE(inputs_of(call).altered(name));
  call.replace("x.scales", counted_bytes({2}, 1));
  EXPECT_FALSE(inputs_of(call).altered(name));
}

TEST(InputHypotheses, OfExchangedScalesReachAsFarAsTheyGo) {
  const CausesListed causes = inputs_of(numbered_scales(3, 1));
  EXPECT_EQ(operand_if(causes, "scales=exchanged", "x.scales"), (Numbers{101, 102, 103}));
  EXPECT_EQ(operand_if(causes, "scales=exchanged", "w.scales"), (Numbers{1, 2, 3, 1}));
  EXPECT_EQ(operand_if(inputs_of(numbered_scales(0, 1)), "scales=exchanged", "w.scales"),
            (Numbers{0, 0, 0, 0}))
      << "of no scales at all";
  EXPECT_EQ(operand_if(inputs_of(numbered_scales(1, 1)), "scales=exchanged", "w.scales"),
            (Numbers{1, 1, 1, 1}))
      << "of one scale";
  for (const char* name : {"x.scales", "w.scales"}) {
    Call without = causes.call;
    without.inputs.erase(name);
    EXPECT_FALSE(causes.at("scales=exchanged").alter(without));
  }
}

TEST(InputHypotheses, OfBlocksTakeScalesOfEarlierOnes) {
  const CausesListed causes = inputs_of(numbered_scales(2, 3));
  EXPECT_EQ(operand_if(causes, "x.scales=first_block", "x.scales"), (Numbers{1, 1, 1, 4, 4, 4}));
  EXPECT_EQ(operand_if(causes, "x.scales=block_before", "x.scales"), (Numbers{1, 1, 2, 4, 4, 5}));
  const Call both = causes.altered("scales=first_block").value();
  EXPECT_EQ(plain_numbers(both.input("x.scales")), (Numbers{1, 1, 1, 4, 4, 4}));
  EXPECT_EQ(plain_numbers(both.input("w.scales")),
            (Numbers{101, 101, 101, 104, 104, 104, 107, 107, 107, 110, 110, 110}));
  EXPECT_EQ(operand_if(inputs_of(float_scales(2)), "x.scales=first_block", "x.scales"),
            (Numbers{3, 3, 5, 5}));
  EXPECT_EQ(operand_if(inputs_of(numbered_scales(1, 2)), "x.scales=first_block", "x.scales"),
            (Numbers{1, 1}))
      << "of one row";
  EXPECT_FALSE(inputs_of(numbered_scales(2, 1)).altered("x.scales=first_block"));
  EXPECT_FALSE(inputs_of(numbered_scales(2, 1)).altered("scales=first_block"));
}

/// The blocks of a gradient are rows of scales.
TEST(InputHypotheses, OfBlocksOfGradientsRunDown) {
  Call call = gradient_call({96}, 2, 2);
  call.replace("dy.scales", counted_bytes({3, 2}, 1));
  call.replace("x.scales", counted_bytes({3, 2}, 11));
  const CausesListed causes = inputs_of(call);
  EXPECT_EQ(operand_if(causes, "dy.scales=first_block", "dy.scales"), (Numbers{1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(operand_if(causes, "dy.scales=block_before", "dy.scales"), (Numbers{1, 2, 1, 2, 3, 4}));
  EXPECT_EQ(operand_if(causes, "scales=first_block", "x.scales"),
            (Numbers{11, 12, 11, 12, 11, 12}));
  EXPECT_EQ(operand_if(inputs_of(gradient_scales(1)), "dy.scales=first_block", "dy.scales"),
            (Numbers{1, 1}))
      << "of one line";
  EXPECT_FALSE(inputs_of(gradient_call({32}, 2, 2)).altered("dy.scales=first_block"));
  EXPECT_FALSE(inputs_of(gradient_scales(0)).altered("dy.scales=first_block"));
  call = coded_product(2, 2, 1, 32);
  call.replace("x.scales", counted_floats({2}, 1));
  EXPECT_FALSE(inputs_of(call).altered("x.scales=first_block")) << "of no blocks";
}

TEST(InputHypotheses, OfScaleByte0MakeZeros) {
  Call call = numbered_scales(2, 2);
  EXPECT_FALSE(inputs_of(call).altered("x.scales=byte_0"));
  call.replace("x.codes", counted_bytes({2, 64}, 1));
  call.replace("x.scales", tensor_from<std::uint8_t>(Dtype::u8, {2, 2}, {1, 0, 2, 3}));
  Numbers expected = plain_numbers(call.input("x.codes"));
  std::fill(expected.begin() + 32, expected.begin() + 64, 0.0);
  EXPECT_EQ(operand_if(inputs_of(call), "x.scales=byte_0", "x.codes"), expected);
  call.replace("w.codes", counted_bytes({2, 2, 64}, 1));
  call.replace("w.scales", counted_bytes({2, 2}, 0));
  EXPECT_FALSE(inputs_of(call).altered("w.scales=byte_0")) << "of no blocks";
  EXPECT_EQ(inputs_of(float_scales(2)).find("x.scales=byte_0"), nullptr);
}

TEST(InputHypotheses, OfScaleByte0OfGradientsRunDown) {
  Call call = gradient_scales(2);
  call.replace("dy.codes", counted_bytes({64, 2}, 1));
  call.replace("dy.scales", tensor_from<std::uint8_t>(Dtype::u8, {2, 2}, {0, 2, 3, 0}));
  Numbers expected = plain_numbers(call.input("dy.codes"));
  for (std::size_t row = 0; row < 64; ++row) expected[2 * row + row / 32] = 0;
  EXPECT_EQ(operand_if(inputs_of(call), "dy.scales=byte_0", "dy.codes"), expected);
}

TEST(InputHypotheses, OfAllScalesAreOfBothSides) {
  const CausesListed causes = inputs_of(float_scales(1));
  const auto both = [&](const char* name) {
    return std::pair{operand_if(causes, name, "x.scales"), operand_if(causes, name, "w.scales")};
  };
  EXPECT_EQ(both("scales=left_out"), (std::pair{Numbers{1, 1}, Numbers{1, 1}}));
  EXPECT_EQ(both("scales=twice"), (std::pair{Numbers{9, 16}, Numbers{121, 144}}));
  EXPECT_EQ(both("scales=up"), (std::pair{Numbers{4, 4}, Numbers{16, 16}}));
  EXPECT_EQ(both("scales=down"), (std::pair{Numbers{2, 4}, Numbers{8, 8}}));
  Call one = causes.call;
  one.inputs.erase("x.scales");
  for (const char* name : {"scales=left_out", "scales=twice", "scales=up"}) {
    Call left = one;
    EXPECT_FALSE(causes.at(name).alter(left)) << name;
  }
  EXPECT_EQ(inputs_of(numbered_scales(2, 2)).find("scales=up"), nullptr) << "they are powers";
  EXPECT_EQ(inputs_of(one).names("scales="), Words{});
  one = causes.call;
  one.inputs.erase("w.scales");
  EXPECT_EQ(inputs_of(one).names("scales="), Words{});
}

TEST(InputHypotheses, OfOperandsWithoutScalesAreTransposed) {
  Call call = lines_by_lines({1, 2}, 2, 2);
  EXPECT_EQ(inputs_of(call).names("x"), Words{"x=transposed"});
  EXPECT_EQ(inputs_of(call).names("w"), Words{"w=transposed"});
  call = {"cast", {}, {}};
  EXPECT_EQ(inputs_of(call).list.size(), 0u);
  call.replace("x", counted_floats({4}, 1));
  EXPECT_EQ(inputs_of(call).list.size(), 0u);
  call.replace("x", counted_floats({2, 2}, 1));
  EXPECT_EQ(inputs_of(call).phrases(), Words{"x is read transposed"});
  EXPECT_EQ(operand_if(inputs_of(call), "x=transposed", "x"), (Numbers{1, 3, 2, 4}));
  call = {"dequantize", {}, {}};
  call.replace("scales", counted_bytes({2, 2}, 1));
  EXPECT_EQ(inputs_of(call).phrases(), Words{"scales are read along the wrong axis"});
  EXPECT_EQ(operand_if(inputs_of(call), "scales=transposed", "scales"), (Numbers{1, 3, 2, 4}));
}

}  // namespace
}  // namespace mxo
