// Lanes of codes along K at the edges: how many elements, lines and places they are measured of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/lines_taken.h"

namespace mxo {
namespace {

using Order = std::vector<Index>;

const Order kOrder{2, 0, 1, 2};
const std::string kWords = "the codes of x are taken in runs of 4 along K in the order 2, 0, 1, 2";

/// Runs along K in that order, `unit` at a time, as far as whole runs of 16 lanes go.
From in_order(const Order& order, Index depth, Index unit = 1) {
  return [=](Index i) {
    if (i >= depth / (16 * unit) * (16 * unit)) return i;
    const Index run = static_cast<Index>(order.size()) * unit;
    return i - i % run + order[static_cast<std::size_t>(i % run / unit)] * unit + i % unit;
  };
}

/// x and w with a scale for each element, those of odd places eight times as large.
Call laned_call(const Shape& s = {32, 32, 16, {32}, 1}) {
  Call call = forward_call(s);
  for (const char* name : {"x.scales", "w.scales"}) {
    call = edited<float>(call, name, [&](float* scale) {
      for (Index i = 0; i < call.input(name).elements(); ++i) scale[i] *= i % 2 == 0 ? 1.0f : 8.0f;
    });
  }
  return call;
}

Call x_in_order(const Call& call, const Order& order = kOrder, Index unit = 1) {
  return with_lines(call, {"x.codes"}, 1, in_order(order, call.input("x.codes").extent(1), unit));
}

/// What is found where `actual` came.
std::vector<Hypothesis> lanes_of(const Call& call, Tensor actual, const std::string& name = "y") {
  const Came came(multiplied(call), std::move(actual), call, name);
  std::vector<Hypothesis> list;
  add_measured_lanes(call, came.output, list);
  EXPECT_LE(list.size(), 1u);
  return list;
}

std::string said(const Call& call, Tensor actual) {
  const std::vector<Hypothesis> list = lanes_of(call, std::move(actual));
  return list.empty() ? "none" : list[0].phrase;
}

std::string said(const Call& call, const Call& taken) { return said(call, multiplied(taken)); }

TEST(LaneLimits, AreThoseOfOneRun) {
  const Call call = laned_call();
  EXPECT_EQ(said(call, x_in_order(call)), kWords);
  EXPECT_EQ(said(call, with_lines(call, {"w.codes"}, 2, in_order({1, 3, 3, 2}, 16))),
            "the codes of w are taken in runs of 4 along K in the order 1, 3, 3, 2");
  Tensor y = multiplied(call);
  EXPECT_EQ(said(call, y), "none");
  for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= 1.001f;
  EXPECT_EQ(said(call, y), "none") << "each its own";
  const Order all{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  EXPECT_EQ(
      said(call, x_in_order(call, all)),
      "the codes of x are taken in runs of 16 along K in the order 15, 14, 13, 12, 11, 10, 9, "
      "8, 7, 6, 5, 4, 3, 2, 1, 0");
}

TEST(LaneLimits, OfTheRestStay) {
  // The rest is 128 times as large as what is before.
  for (const auto& size : {std::pair<Index, Index>{18, 1}, {19, 1}, {36, 2}}) {
    const Index depth = size.first;
    const Index unit = size.second;
    Call call = laned_call({32, 32, depth, {32}, 1});
    call = edited<std::uint8_t>(call, "x.codes", [depth](std::uint8_t* codes) {
      for (Index i = 0; i < 32 * depth; ++i) {
        const bool rest = i % depth >= depth / 16 * 16;
        codes[i] = static_cast<std::uint8_t>(codes[i] + (rest ? 0x38 : 0));
      }
    });
    const Call wanted = x_in_order(call, kOrder, unit);
    const std::vector<Hypothesis> found = lanes_of(call, multiplied(wanted));
    ASSERT_EQ(found.size(), 1u) << depth;
    Call altered = call;
    EXPECT_TRUE(found[0].alter(altered));
    EXPECT_EQ(found[0].stage, Stage::input);
    EXPECT_TRUE(same(altered.input("x.codes"), wanted.input("x.codes"))) << depth;
  }
}

TEST(LaneLimits, OfTwoElementsStayTogether) {
  const Call call = laned_call({32, 32, 32, {32}, 1});
  const auto in = [&](const Order& order) { return said(call, x_in_order(call, order)); };
  const std::string start = "the codes of x are taken in runs of ";
  EXPECT_EQ(in({4, 5, 0, 1, 6, 7, 4, 5}), start + "8 along K in the order 2, 0, 3, 2, 2 at a time");
  EXPECT_EQ(in({2, 3, 0, 1}), start + "4 along K in the order 1, 0, 2 at a time");
  EXPECT_EQ(in({2, 3, 1, 0}), start + "4 along K in the order 2, 3, 1, 0");
  EXPECT_EQ(in({2, 0, 0, 2}), start + "4 along K in the order 2, 0, 0, 2");
  EXPECT_EQ(in({1, 2, 2, 3}), start + "4 along K in the order 1, 2, 2, 3");
}

TEST(LaneLimits, AreOfThirtyTwoLines) {
  // Every second of 64 is looked at.
  for (const bool of_rows : {true, false}) {
    const Call call = laned_call(of_rows ? Shape{64, 16, 16, {64}, 1} : Shape{24, 64, 16, {24}, 1});
    const auto without = [&](Index odd) {
      Tensor y = multiplied(x_in_order(call));
      for (Index i = 0; i < y.elements(); ++i) {
        if ((of_rows ? i / 16 : i % 64) % 2 == odd) y.as<float>()[i] = 0.0f;
      }
      return said(call, std::move(y));
    };
    EXPECT_EQ(without(1), kWords);
    EXPECT_EQ(without(0), "none");
  }
}

TEST(LaneLimits, AreOf384Elements) {
  const Call call = laned_call({16, 24, 16, {16}, 1});
  Tensor y = multiplied(x_in_order(call));
  EXPECT_EQ(said(call, y), kWords);
  y.as<float>()[77] = multiplied(call).as<float>()[77];
  EXPECT_EQ(said(call, y), "none");
}

TEST(LaneLimits, AreOfTheGroupWithMostElements) {
  // Of the first group so many rows fail, in 16 columns, and 33 columns of 32 rows of the second.
  const Call call = laned_call({100, 33, 16, {68, 100}, 1});
  const auto two = [&](Index rows, const Order& first, const Order& second) {
    Tensor y = multiplied(call);
    const Tensor of_first = multiplied(x_in_order(call, first));
    const Tensor of_second = multiplied(x_in_order(call, second));
    for (Index i = 0; i < y.elements(); ++i) {
      const Index row = i / 33;
      if (row < 68 && (row >= rows || i % 33 >= 16)) continue;
      y.as<float>()[i] = (row < 68 ? of_first : of_second).as<float>()[i];
    }
    return said(call, std::move(y));
  };
  const Order other{3, 0, 1, 2};
  EXPECT_EQ(two(64, other, kOrder), kWords);
  EXPECT_EQ(two(66, kOrder, other), kWords) << "the first of two";
  EXPECT_EQ(two(68, kOrder, other), kWords);
}

TEST(LaneLimits, AreMeasuredBesideWhatIsNoNumber) {
  const Call call = laned_call();
  Tensor y = multiplied(x_in_order(call));
  y.as<float>()[40] = std::numeric_limits<float>::quiet_NaN();
  y.as<float>()[50] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(said(call, std::move(y)), kWords);
}

TEST(LaneLimits, LeaveOutWhatIsExplained) {
  // Every second element, as on the black squares of a board, came otherwise.
  const Call call = laned_call();
  Came came(multiplied(call), multiplied(x_in_order(call)), call);
  const auto black = [](Index i) { return (i / 32 + i) % 2 == 0; };
  for (Index i = 0; i < 32 * 32; ++i) {
    if (black(i)) came.actual.as<float>()[i] *= -1.0f;
  }
  std::vector<Hypothesis> list;
  add_measured_lanes(call, came.output, list);
  EXPECT_TRUE(list.empty());
  for (Index i = 0; i < 32 * 32; ++i) {
    if (black(i)) came.output.settle(i);
  }
  add_measured_lanes(call, came.output, list);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].phrase, kWords);
}

TEST(LaneLimits, MayHaveAnElementThatVanished) {
  const Call call = laned_call();
  Tensor y = multiplied(x_in_order(call));
  float* const all = y.as<float>();
  *std::min_element(all, all + y.elements(),
                    [](float a, float b) { return std::abs(a) < std::abs(b); }) = 0.0f;
  EXPECT_EQ(said(call, y), kWords);
}

TEST(LaneLimits, OfLargeAndSmallRowsWeighAlike) {
  // Seven of eight rows are forty times as large as the others.
  const auto large = [](Index row) { return row % 8 < 7; };
  const Call call = edited<float>(laned_call(), "x.scales", [&](float* scale) {
    for (Index i = 0; i < 32 * 16; ++i) scale[i] *= large(i / 16) ? 40 * 0x1p-40f : 0x1p-40f;
  });
  Tensor y = multiplied(x_in_order(call));
  EXPECT_EQ(said(call, y), kWords);
  const Tensor other = multiplied(x_in_order(call, {3, 3, 0, 1}));
  for (Index r = 0; r < 32; ++r) {
    if (!large(r)) std::copy_n(other.as<float>() + r * 32, 32, y.as<float>() + r * 32);
  }
  EXPECT_EQ(said(call, y), "none") << "small ones are in another order";
}

/// x whose codes at one place of every 16 are edited.
Call with_lane(const Call& call, Index lane, const std::function<void(std::uint8_t&)>& edit) {
  return edited<std::uint8_t>(call, "x.codes", [&](std::uint8_t* codes) {
    for (Index i = 0; i < 32; ++i) edit(codes[i * 16 + lane]);
  });
}

TEST(LaneLimits, OfSmallCodesAreNamed) {
  const Call call = with_lane(
      laned_call(), 6, [](std::uint8_t& code) { code = static_cast<std::uint8_t>(code - 0x18); });
  EXPECT_EQ(said(call, x_in_order(call)), kWords) << "an eighth of the others";
}

TEST(LaneLimits, ThatNobodyTakesMayBeZeroOrAlike) {
  const Order order{1, 2, 3, 1};
  const std::string words = "the codes of x are taken in runs of 4 along K in the order 1, 2, 3, 1";
  const Call zero = with_lane(laned_call(), 0, [](std::uint8_t& code) { code = 0; });
  EXPECT_EQ(said(zero, x_in_order(zero, order)), words);
  const Call alike = edited<std::uint8_t>(laned_call(), "x.codes", [](std::uint8_t* codes) {
    for (Index i = 0; i < 32; ++i) codes[i * 16 + 4] = codes[i * 16 + 8];
  });
  EXPECT_EQ(said(alike, x_in_order(alike, order)), words);
}

/// What is found where places in the order take so much, and place 5 also so much of place 2.
std::string shared(double much, double more) {
  const Call call = laned_call();
  const Product p = *product_of(call);
  Product plain = p;
  plain.a.scales = nullptr;
  const From from = in_order(kOrder, 16);
  Tensor y(Dtype::f32, {32, 32});
  for (Index i = 0; i < 32; ++i) {
    const std::vector<double> x = plain.line_a(0, i);
    for (Index j = 0; j < 32; ++j) {
      const std::vector<double> w = p.line_b(0, j);
      double sum = 0.0;
      for (Index d = 0; d < 16; ++d) {
        const double code =
            much * x[static_cast<std::size_t>(from(d))] + (d == 5 ? more * x[2] : 0);
        sum += code * scale_value(*p.a.scales, p.scale_a(0, i, d)) * w[static_cast<std::size_t>(d)];
      }
      y.as<float>()[i * 32 + j] = static_cast<float>(sum);
    }
  }
  return said(call, std::move(y));
}

TEST(LaneLimits, AreTakenByFourFifths) {
  EXPECT_EQ(shared(0.85, 0.0), kWords);
  EXPECT_EQ(shared(0.75, 0.0), "none");
  EXPECT_EQ(shared(-1.0, 0.0), "none");
  EXPECT_EQ(shared(1.0, 0.15), kWords);
  EXPECT_EQ(shared(1.0, 0.25), "none");
  EXPECT_EQ(shared(1.0, -0.25), "none");
  EXPECT_EQ(shared(1.0, 1.0), "none") << "two at one place";
}

TEST(LaneLimits, OfOtherOutputsAreNotMeasured) {
  const Call call = laned_call();
  const Tensor y = multiplied(x_in_order(call));
  EXPECT_EQ(lanes_of(call, y).size(), 1u);
  EXPECT_EQ(lanes_of(call, y, "z").size(), 0u);
  Call no_product = call;
  no_product.op = "matmul";
  const Came came(multiplied(call), y, call);
  std::vector<Hypothesis> list;
  add_measured_lanes(no_product, came.output, list);
  EXPECT_TRUE(list.empty());
  // dy in runs of 4 along the rows that are summed.
  const Call gradient = gradient_call({32, 32, 16, {16}});
  EXPECT_EQ(lanes_of(gradient,
                     multiplied(with_lines(gradient, {"dy.codes"}, 0, in_order(kOrder, 16))), "dw")
                .size(),
            0u);
}

}  // namespace
}  // namespace mxo
