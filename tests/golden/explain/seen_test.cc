// Measured ratios read as scales: where they lie, their value on the grid of the type, their range.
#include "golden/explain/find/product/measured.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/golden/came.h"

namespace mxo {
namespace {

/// x [3, 96] and w [2, 4, 96] in blocks of 32, scale i of each 2^(i - 3).
struct Scaled {
  Tensor x_codes{Dtype::e4m3, {3, 96}};
  Tensor w_codes{Dtype::e4m3, {2, 4, 96}};
  Tensor x_scales, w_scales;
  Product p;

  explicit Scaled(Dtype dtype) : x_scales(made(dtype, {3, 3})), w_scales(made(dtype, {2, 4, 3})) {
    p.a = {"x", &x_codes, &x_scales, Dtype::e4m3, "x.codes", "x.scales"};
    p.b = {"w", &w_codes, &w_scales, Dtype::e4m3, "w.codes", "w.scales"};
    p.ends = {1, 3};
    p.k = 96;
    p.n = 4;
    p.a_lines = 3;
  }
  static Tensor made(Dtype dtype, std::vector<Index> shape) {
    if (dtype == Dtype::e8m0)
      return filled<std::uint8_t>(dtype, std::move(shape), [](Index i) { return 124 + i; });
    return filled<float>(dtype, std::move(shape),
                         [](Index i) { return std::ldexp(1.0f, static_cast<int>(i) - 3); });
  }
};

/// Line 2 of group 1.
Effective measured(std::vector<double> ratio, std::vector<double> sigma) {
  return {1, 2, std::move(ratio), std::move(sigma), 0.0};
}

TEST(SeenScales, AreTheGivenTimesTheRatio) {
  const Scaled s(Dtype::f32);
  const Effective e = measured({1.0, 2.0, -0.25}, {0.0, 0.0, 0.0});
  const Observation x{s.p, Side::a, {}};
  EXPECT_EQ(x.at(e, 1), 7);
  EXPECT_EQ(x.value(e, 1), 32.0);
  EXPECT_EQ(x.value(e, 2), -8.0) << "as measured";
  const Observation w{s.p, Side::b, {}};
  EXPECT_EQ(w.at(0, 2, 2), 8);
  EXPECT_EQ(w.at(e, 1), 19);
  EXPECT_EQ(w.value(e, 1), 0x1p17);
}

TEST(SeenScales, OfBytesArePowersOfTwo) {
  const Scaled s(Dtype::e8m0);
  const Observation x{s.p, Side::a, {}};
  const auto value = [&](double ratio) { return x.value(measured({ratio}, {0.0}), 0); };
  EXPECT_EQ(value(1.05), 8.0);
  EXPECT_EQ(value(1.42), 16.0) << "nearer in its logarithm";
  EXPECT_TRUE(std::isnan(value(-1.0)));
  EXPECT_TRUE(std::isnan(value(0.0)));
  const auto range = x.range(measured({2.05}, {0.02}), 0);
  EXPECT_TRUE(range->holds(16.0));
  EXPECT_FALSE(range->holds(std::nextafter(16.0, 17.0)));
}

TEST(SeenScales, AreKnownWithinFiveErrors) {
  Scaled s(Dtype::f32);
  const Observation x{s.p, Side::a, {}};
  // 8 * -2 = -16, with an error of 0.01 of 2: 16 * (5 * 0.005 + 1e-4).
  const Effective e = measured({-2.0, 1.0}, {0.01, 0.5});
  const auto range = x.range(e, 0);
  EXPECT_NEAR(range->from, -16.0 - 0.4016, 1e-12);
  EXPECT_NEAR(range->to, -16.0 + 0.4016, 1e-12);
  EXPECT_FALSE(x.range(e, 1)) << "nothing tells";
  s.p.a.scales = nullptr;
  EXPECT_EQ(x.at(e, 0), -1);
  EXPECT_TRUE(std::isnan(x.value(e, 0)));
}

}  // namespace
}  // namespace mxo
