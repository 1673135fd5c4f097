// Measured ratios read as scales: where they lie, their value on the grid of the type, their range.
#include "golden/explain/find/quantiser/seen.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mxo {
namespace {

/// x [3, 96] and w [2, 4, 96] in blocks of 32, scales of type `dtype` that are 2 to the power of
/// their index less 3.
struct Scaled {
  Tensor x_codes{Dtype::e4m3, {3, 96}};
  Tensor w_codes{Dtype::e4m3, {2, 4, 96}};
  Tensor x_scales;
  Tensor w_scales;
  Product p;

  explicit Scaled(Dtype dtype) : x_scales(dtype, {3, 3}), w_scales(dtype, {2, 4, 3}) {
    for (Tensor* scales : {&x_scales, &w_scales}) {
      for (Index i = 0; i < scales->elements(); ++i) {
        if (dtype == Dtype::f32) {
          scales->as<float>()[i] = std::ldexp(1.0f, static_cast<int>(i) - 3);
        } else {
          scales->as<std::uint8_t>()[i] = static_cast<std::uint8_t>(124 + i);
        }
      }
    }
    p.a = {"x", &x_codes, &x_scales, Dtype::e4m3, "x.codes", "x.scales"};
    p.b = {"w", &w_codes, &w_scales, Dtype::e4m3, "w.codes", "w.scales"};
    p.ends = {1, 3};
    p.k = 96;
    p.n = 4;
    p.a_lines = 3;
  }
  Scaled(const Scaled&) = delete;
  Scaled& operator=(const Scaled&) = delete;
};

/// Line 2 of group 1.
Effective measured(std::vector<double> ratio, std::vector<double> sigma) {
  Effective e;
  e.group = 1;
  e.line = 2;
  e.ratio = std::move(ratio);
  e.sigma = std::move(sigma);
  e.misfit = 0.0;
  return e;
}

const Effective kPlain = measured({1.0, 2.0, 0.25}, {0.0, 0.0, 0.0});

TEST(SeenScales, LieWhereTheirSideHasThem) {
  const Scaled s(Dtype::f32);
  const Seen x{s.p, Side::a, {}};
  EXPECT_EQ(x.factor().name, "x");
  EXPECT_EQ(x.at(1, 2, 0), 6);
  EXPECT_EQ(x.at(1, 2, 2), 8);
  EXPECT_EQ(x.at(kPlain, 1), 7);
  const Seen w{s.p, Side::b, {}};
  EXPECT_EQ(w.factor().name, "w");
  EXPECT_EQ(w.at(0, 2, 2), 8);
  EXPECT_EQ(w.at(1, 2, 2), 20);
  EXPECT_EQ(w.at(kPlain, 1), 19);
}

TEST(SeenScales, AreTheGivenTimesTheRatio) {
  const Scaled s(Dtype::f32);
  const Seen x{s.p, Side::a, {}};
  EXPECT_EQ(x.value(kPlain, 0), 8.0);
  EXPECT_EQ(x.value(kPlain, 1), 32.0);
  EXPECT_EQ(x.value(kPlain, 2), 8.0);
  const Seen w{s.p, Side::b, {}};
  EXPECT_EQ(w.value(kPlain, 1), 0x1p17);
  Effective first = kPlain;
  first.group = first.line = 0;
  EXPECT_EQ(x.value(first, 0), 0.125) << "of the first of the tensor";
  EXPECT_EQ(x.value(measured({-1.1, 0.0}, {0.0, 0.0}), 0), 8.0 * -1.1) << "as measured";
  EXPECT_EQ(x.value(measured({-1.1, 0.0}, {0.0, 0.0}), 1), 0.0);
}

TEST(SeenScales, OfBytesArePowersOfTwo) {
  const Scaled s(Dtype::e8m0);
  const Seen x{s.p, Side::a, {}};
  EXPECT_EQ(x.value(measured({1.05}, {0.0}), 0), 8.0);
  EXPECT_EQ(x.value(measured({0.3}, {0.0}), 0), 2.0);
  EXPECT_EQ(x.value(measured({1.42}, {0.0}), 0), 16.0) << "nearer in its logarithm";
  EXPECT_TRUE(std::isnan(x.value(measured({-1.0}, {0.0}), 0)));
  EXPECT_TRUE(std::isnan(x.value(measured({0.0}, {0.0}), 0)));
}

TEST(SeenScales, AreUnknownWhereNothingTells) {
  Scaled s(Dtype::f32);
  const Seen x{s.p, Side::a, {}};
  const Effective vague = measured({1.0, 1.0}, {0.0, 0.5});
  EXPECT_TRUE(std::isnan(x.value(vague, 1)));
  EXPECT_FALSE(x.range(vague, 1));
  EXPECT_TRUE(x.range(vague, 0));
  s.p.a.scales = nullptr;
  EXPECT_EQ(x.at(vague, 0), -1);
  EXPECT_TRUE(std::isnan(x.value(vague, 0)));
  EXPECT_FALSE(x.range(vague, 0));
}

TEST(SeenScales, MayBeAnyWithinFiveErrors) {
  const Scaled s(Dtype::f32);
  const Seen x{s.p, Side::a, {}};
  // 8 * -2 = -16, with an error of 0.01 of 2: 16 * (5 * 0.005 + 1e-4).
  const Effective e = measured({-2.0}, {0.01});
  const auto range = x.range(e, 0);
  ASSERT_TRUE(range);
  EXPECT_NEAR(range->from, -16.0 - 0.4016, 1e-12);
  EXPECT_NEAR(range->to, -16.0 + 0.4016, 1e-12);
}

TEST(SeenScales, OfBytesAreOneOfThem) {
  const Scaled s(Dtype::e8m0);
  const Seen x{s.p, Side::a, {}};
  const auto range = x.range(measured({2.05}, {0.02}), 0);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->from, 16.0);
  EXPECT_EQ(range->to, 16.0);
  EXPECT_TRUE(range->holds(16.0));
  EXPECT_FALSE(range->holds(std::nextafter(16.0, 17.0)));
  EXPECT_FALSE(range->holds(std::nextafter(16.0, 15.0)));
}

}  // namespace
}  // namespace mxo
