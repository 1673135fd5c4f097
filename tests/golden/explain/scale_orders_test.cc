// Scales that meet in another order than each with its own codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tests/golden/partial_sums.h"

namespace mxo {
namespace {

TEST(ScaleOrders, ComeAfterRoundingOfLines) {
  // 257 codes are 256 in bf16; two scales for the whole line.
  const Call call = scaled(257, floats({1, 1}, {3}), floats({1, 1, 1}, {5}));
  EXPECT_EQ(first(call, "scales=after_rounding"), 256 * 15);
  EXPECT_EQ(listed(call).back().name, "scales=after_rounding");
  EXPECT_EQ(listed(call).back().stage, Stage::input);
  EXPECT_EQ(listed(call).back().phrase, "sums of codes are rounded to bf16 before they are scaled");
  for (const bool x : {false, true}) {
    const Call blocks = x ? scaled(256, floats({1, 2}, {2, 3}), floats({1, 1, 1}, {5}))
                          : scaled(256, floats({1, 1}, {5}), floats({1, 1, 2}, {2, 3}));
    for (const std::string& name : names_of(listed(blocks)))
      EXPECT_EQ(name.find("scales"), name.npos);
  }
}

TEST(ScaleOrders, AreOfLinesThatAreMany) {
  Call call = scaled(257, floats({2, 1}, {3, 7}), floats({1, 2, 1}, {5, 11}));
  EXPECT_EQ(listed(call).back().name, "scales=after_rounding");
  Tensor w(Dtype::e4m3, {2, 2, 257});
  std::fill_n(w.as<std::uint8_t>(), w.elements(), std::uint8_t{0x38});
  call.replace("w.codes", w);
  call.replace("w.scales", floats({2, 2, 1}, {1, 1, 5, 11}));
  call.replace("group_ends", ends_at({1, 2}));
  const Tensor y = given(call, "scales=after_rounding");
  EXPECT_EQ(y.as<float>()[0], 256 * 3);
  EXPECT_EQ(y.as<float>()[2], 256 * 35);
  EXPECT_EQ(y.as<float>()[3], 256 * 77);
  const Call one = scaled(1, floats({2, 1}, {3, 7}), floats({1, 2, 1}, {5, 11}));
  EXPECT_EQ(listed(one).back().name, "scales=after_rounding") << "K may be 1";
}

/// 15 rows by 2^-150 are 7.5 of the least number, if they are added before they are scaled.
TEST(ScaleOrders, OfGradientsAreOfWholeGroups) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  for (const auto& [name, lines] : {std::pair{"dy", Index{2}}, {"x", Index{3}}}) {
    Tensor codes(Dtype::e4m3, {30, lines});
    std::fill_n(codes.as<std::uint8_t>(), codes.elements(), std::uint8_t{0x38});
    Tensor scales(Dtype::f32, {2, lines});
    std::fill_n(scales.as<float>(), scales.elements(), lines == 2 ? 0x1p-140f : 0x1p-10f);
    call.replace(std::string(name) + ".codes", codes);
    call.replace(std::string(name) + ".scales", scales);
  }
  call.replace("group_ends", ends_at({15, 30}));
  call.set.set("out", "f32");
  const Tensor dw = given(call, "scales=a_first");
  ASSERT_EQ(dw.elements(), 12);
  for (Index i = 0; i < 12; ++i) EXPECT_EQ(dw.as<float>()[i], 8 * 0x1p-149f) << i;
  for (const Hypothesis& h : listed(call)) EXPECT_NE(h.name, "scales=after_rounding");
}

TEST(ScaleOrders, MatterInExtremes) {
  const auto orders = [](float x, float w) {
    const auto list = listed(scaled(15, floats({1, 1}, {x}), floats({1, 1, 1}, {w})));
    return list.size();
  };
  EXPECT_EQ(orders(1, 1), 1u);
  EXPECT_EQ(orders(0x1p50f, 0x1p-50f), 1u);
  EXPECT_EQ(orders(0, -1), 1u);
  EXPECT_EQ(orders(0x1.1p50f, 1), 5u);
  EXPECT_EQ(orders(1, 0x1.1p50f), 5u);
  EXPECT_EQ(orders(0x0.fp-50f, 1), 5u);
  EXPECT_EQ(orders(1, -0x0.fp-50f), 5u);
}

/// w without scales, of ones.
Call of_one_side(Index k, const Tensor& of_x) {
  Call call = scaled(k, of_x, floats({1, 1, 1}, {1}));
  Tensor w(Dtype::bf16, {1, 1, k});
  std::fill_n(w.as<BF16>(), w.elements(), encode<kBF16>(1));
  call.inputs.erase("w.codes");
  call.inputs.erase("w.scales");
  call.replace("w", w);
  return call;
}

TEST(ScaleOrders, OfOneSideMatterInExtremes) {
  EXPECT_EQ(names_of(listed(of_one_side(15, floats({1, 1}, {3})))), Names{});
  const Call far = of_one_side(15, floats({1, 1}, {0x1p60f}));
  EXPECT_EQ(names_of(listed(far)),
            (Names{"scales=joined", "scales=joined_flushed", "scales=a_first", "scales=b_first"}));
  EXPECT_EQ(first(far, "scales=a_first"), 15 * 0x1p60f);
  EXPECT_EQ(names_of(listed(of_one_side(64, floats({1, 2}, {2, 3})))),
            (Names{"sum=bf16_every_16", "sum=f16_every_16", "sum=bf16_every_32", "sum=f16_every_32",
                   "sum=bf16_slices_2", "sum=bf16_slices_in_bf16_2"}))
      << "slices are whole blocks";
}

TEST(ScaleOrders, MultiplyInTheirOrder) {
  // 15 codes; 2^-100 by 2^-48 is subnormal, 2^100 by 2^100 infinite.
  const auto sums = [](float x, float w) {
    const Call call = scaled(15, floats({1, 1}, {x}), floats({1, 1, 1}, {w}));
    std::vector<float> all;
    for (const char* name : {"joined", "joined_flushed", "a_first", "b_first"}) {
      all.push_back(first(call, "scales=" + std::string(name)));
    }
    return all;
  };
  const float infinite = std::numeric_limits<float>::infinity();
  const float least = 15 * 0x1p-148f;
  EXPECT_EQ(sums(0x1p-100f, 0x1p-48f), (std::vector<float>{least, 0, least, least}));
  EXPECT_EQ(sums(0x1p-100f, 0x1p-26f),
            (std::vector<float>{15 * 0x1p-126f, 15 * 0x1p-126f, 15 * 0x1p-126f, 15 * 0x1p-126f}));
  EXPECT_EQ(sums(0x1p100f, 0x1p100f), (std::vector<float>{infinite, infinite, infinite, infinite}));
  // 2^-150 is zero, and 15 of it are 7.5 of the least.
  EXPECT_EQ(sums(0x1p-140f, 0x1p-10f), (std::vector<float>{0, 0, 8 * 0x1p-149f, 8 * 0x1p-149f}));
  // 15 by 2^126 is infinite unless the other scale comes first.
  EXPECT_EQ(sums(0x1p126f, 0x1p-10f),
            (std::vector<float>{15 * 0x1p116f, 15 * 0x1p116f, infinite, 15 * 0x1p116f}));
}

TEST(ScaleOrders, AreOfScalesOfEveryBlock) {
  // 128 codes by 2^60: one scale for each line of one side, four or two for each of the other.
  const float s = 0x1p60f;
  for (const Call& call : {scaled(512, floats({1, 1}, {s}), floats({1, 1, 4}, {1, 2, 3, 4})),
                           scaled(512, floats({1, 4}, {1, 2, 3, 4}), floats({1, 1, 1}, {s})),
                           scaled(512, floats({1, 4}, {1, 2, 3, 4}), floats({1, 1, 2}, {s, s}))}) {
    for (const char* name : {"joined", "joined_flushed", "a_first", "b_first"}) {
      EXPECT_EQ(first(call, "scales=" + std::string(name)), 128 * 10 * s) << name;
    }
  }
}

TEST(ScaleOrders, SayWhoseScalesComeFirst) {
  const auto list = listed(scaled(15, floats({1, 1}, {0x1p60f}), floats({1, 1, 1}, {1})));
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list[1].phrase, "both scales are multiplied with each other first, in f32");
  EXPECT_EQ(list[2].phrase,
            "both scales are multiplied with each other first, and subnormal products become zero");
  EXPECT_EQ(list[3].phrase, "sums are multiplied with the scales of x first, in f32");
  EXPECT_EQ(list[4].phrase, "sums are multiplied with the scales of w first, in f32");
}

}  // namespace
}  // namespace mxo
