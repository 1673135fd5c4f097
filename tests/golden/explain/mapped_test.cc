// Functions of the value that is owed: zeros, signs, limits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/golden/mapped.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

struct Floats {
  Dtype dtype;
  int fraction;
  int bits;
  bool has_minus_zero;
};
const Floats kFloats[] = {{Dtype::f64, 52, 64, true},     {Dtype::f32, 23, 32, true},
                          {Dtype::bf16, 7, 16, true},     {Dtype::f16, 10, 16, true},
                          {Dtype::e4m3, 3, 8, true},      {Dtype::e5m2, 2, 8, true},
                          {Dtype::e4m3fnuz, 3, 8, false}, {Dtype::e5m2fnuz, 2, 8, false}};

TEST(MappedValues, FlushSubnormalsOfEveryType) {
  const std::string flushed = "value.subnormals_flushed: y: subnormal values are flushed to zero ";
  const std::string zero = "value.subnormals_zero: y: subnormal values are flushed to +0 ";
  for (const Floats& f : kFloats) {
    const std::uint64_t one = std::uint64_t{1} << f.fraction;
    const std::uint64_t sign = std::uint64_t{1} << (f.bits - 1);
    EXPECT_EQ(mapped(f.dtype, {one, 1, one - 1, one + 1, 2}, {one, 0, 0, one + 1, 0}),
              Words{flushed + "(3)"})
        << f.fraction;
    EXPECT_NE(mapped(f.dtype, {one, 1, one - 1, 2}, {0, 0, 0, 0}), Words{flushed + "(4)"});
    EXPECT_EQ(mapped(f.dtype, {sign | 1, 1, sign | one}, {0, 0, sign | one}), Words{zero + "(2)"});
    if (!f.has_minus_zero) continue;
    EXPECT_EQ(mapped(f.dtype, {sign | 1, 1, sign | one}, {sign, 0, sign | one}),
              Words{flushed + "(2)"});
  }
}

TEST(MappedValues, LoseTheSignOfZeros) {
  EXPECT_EQ(mapped({-0.0f, 1.0f, -1.0f, -0.0f}, {0.0f, 1.0f, -1.0f, 0.0f}),
            Words{"value.minus_zero: y: negative zeros lose their sign (2)"});
  EXPECT_EQ(mapped({-0.0f, 1e-40f, -0.0f}, {0.0f, 0.0f, 0.0f}),
            Words{"value.subnormals_zero: y: subnormal values are flushed to +0 (3)"});
}

TEST(MappedValues, AreZeroWhereTheyAreNoNumber) {
  EXPECT_EQ(mapped({kNan, 1.0f, -2.0f, kNan, kInfinite}, {0.0f, 1.0f, -2.0f, 0.0f, kInfinite}),
            Words{"value.nan_zero: y: NaN is written as zero (2)"});
}

/// Eight or fewer negative numbers, among others.
std::vector<float> with_negative(int n) {
  std::vector<float> values{1.5f, 3.0f, 0.0f, -kNan};
  for (int i = 0; i < n; ++i) values.push_back(-1.25f - static_cast<float>(i));
  return values;
}

TEST(MappedValues, AreZeroWhereTheyAreNegative) {
  const auto relu = [](double v) { return v < 0.0 ? 0.0 : v; };
  EXPECT_EQ(mapped(with_negative(8), each_of(with_negative(8), relu)),
            Words{"value.relu: y: negative values are written as zero (ReLU) (8)"});
  EXPECT_EQ(mapped(with_negative(7), each_of(with_negative(7), relu)), Words{});
}

TEST(MappedValues, AreOneOverWhatIsOwed) {
  const auto reciprocal = [](double v) { return 1.0f / static_cast<float>(v); };
  const std::vector<float> eight = some_numbers(8);
  EXPECT_EQ(mapped(eight, each_of(eight, reciprocal)),
            Words{"value.reciprocal: y: values are 1 over what is expected (8)"});
  EXPECT_EQ(mapped(some_numbers(7), each_of(some_numbers(7), reciprocal)), Words{});
}

TEST(MappedValues, LoseTheirSigns) {
  const std::string lost = "value.sign_lost: y: signs are lost ";
  EXPECT_EQ(mapped({-1.5f, 2.0f, -3.0f}, {1.5f, 2.0f, 3.0f}), Words{lost + "(2)"});
  EXPECT_EQ(mapped({-1.5f, 2.0f, 3.0f}, {1.5f, 2.0f, 3.0f}), Words{lost + "(1)"});
  EXPECT_EQ(mapped({-1.1f, 2.3f, -3.3f}, {1.1f, 2.3f, 3.3f}), Words{lost + "(2)"}) << "odd bits";
}

TEST(MappedValues, AreNegated) {
  const auto minus = [](double v) { return -v; };
  EXPECT_EQ(mapped(some_numbers(8), each_of(some_numbers(8), minus)),
            Words{"value.negated: y: every value is negated (8)"});
  EXPECT_EQ(mapped(some_numbers(7), each_of(some_numbers(7), minus)),
            Words{"value.negated: signs are turned in all of y (7)"})
      << "by its bits";
}

const std::vector<float> kWide{1.0f, -9.0f, 3.0f, 9.0f, 2.0f, -8.5f, -2.0f, 7.0f};

TEST(MappedValues, AreClampedOnBothSides) {
  const std::string at_4 = "value.clamped: y: values are clamped at 4 ";
  const auto clamp = [](double v) { return std::min(4.0, std::max(-4.0, v)); };
  EXPECT_EQ(mapped(kWide, each_of(kWide, clamp)), Words{at_4 + "(4)"});
  EXPECT_EQ(mapped({1.0f, kInfinite, -kInfinite}, {1.0f, 4.0f, -4.0f}), Words{at_4 + "(2)"});
  EXPECT_EQ(mapped({1.0f, 4.0f, 5.0f}, {1.0f, 4.0f, 4.0f}), Words{at_4 + "(1)"});
  EXPECT_EQ(mapped({1.0f, 3.5f, 5.0f}, {1.0f, 4.0f, 4.0f}), Words{});
  EXPECT_EQ(mapped({9.0f, 1.0f, 2.0f}, {4.0f, 1.0f, 2.0f}), Words{at_4 + "(1)"}) << "the first";
  EXPECT_EQ(mapped({1.5f, 2.5f}, {0.0f, 0.0f}), Words{}) << "zeros are no clamp";
}

/// Twelve numbers of which eight are far out, above and below.
std::vector<float> far_out(float first, float second) {
  std::vector<float> values{first, second, 1.0f, -1.0f};
  for (int i = 0; i < 8; ++i) values.push_back(static_cast<float>(10 + i));
  return values;
}

TEST(MappedValues, AreClampedOnOneSide) {
  const auto above = [](double v) { return std::min(4.5, v); };
  const auto below = [](double v) { return std::max(-4.5, v); };
  const std::vector<float> high = far_out(-20.0f, 2.0f);
  const std::vector<float> low = each_of(high, [](double v) { return -v; });
  EXPECT_EQ(mapped(high, each_of(high, above)),
            Words{"value.clamped: y: values are clamped above at 4.5, and not on the other side "
                  "(8)"});
  EXPECT_EQ(mapped(low, each_of(low, below)),
            Words{"value.clamped: y: values are clamped below at -4.5, and not on the other side "
                  "(8)"});
  const std::vector<float> seven = [&] {
    std::vector<float> values = high;
    values.pop_back();
    return values;
  }();
  EXPECT_EQ(mapped(seven, each_of(seven, above)), Words{});
}

TEST(MappedValues, AreClampedBesideNan) {
  const std::string above = "value.clamped: y: values are clamped above at 4.5, and not on the ";
  const std::string both = "value.clamped: y: values are clamped at 4.5 ";
  const std::vector<float> one_side = far_out(-20.0f, kNan);
  EXPECT_EQ(mapped(one_side, each_of(one_side, [](double v) { return v > 4.5 ? 4.5 : v; })),
            Words{above + "other side (8)"});
  const std::vector<float> two_sides = far_out(-2.0f, -kNan);
  EXPECT_EQ(mapped(two_sides, each_of(two_sides, [](double v) { return v > 4.5 ? 4.5 : v; })),
            Words{both + "(8)"});
  EXPECT_EQ(
      mapped(two_sides,
             each_of(two_sides, [](double v) { return std::isnan(v) ? -4.5
                                                      : v > 4.5     ? 4.5
                                                                    : v; })),
      Words{both + "(9)"})
      << "NaN is clamped, too";
}

TEST(MappedValues, AreClampedBesideWhatIsExplained) {
  const std::vector<float> wanted{1.0f, 9.0f, 50.0f, -9.0f};
  Came came(filled<float>(Dtype::f32, {4, 1},
                          [&](Index i) { return wanted[static_cast<std::size_t>(i)]; }),
            filled<float>(Dtype::f32, {4, 1}, [&](Index i) {
              return i == 2 ? 60.0f : std::clamp(wanted[static_cast<std::size_t>(i)], -4.0f, 4.0f);
            }));
  came.output.settle(2);
  EXPECT_EQ(mapped(came), Words{"value.clamped: y: values are clamped at 4 (2)"});
}

}  // namespace
}  // namespace mxo
