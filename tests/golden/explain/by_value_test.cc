// Codes and scale bytes that are read as other numbers, wherever they stand.
#include "golden/explain/find/quantiser/quantiser.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

/// Codes of every byte that is a number, scales of seven sizes, and x as they make it.
Call every_code(const char* format) {
  Tensor codes(Dtype::u8, {56, 256});
  for (Index i = 0; i < codes.elements(); ++i)
    codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 37 % 256);
  Tensor scales(Dtype::e8m0, {56, 8});
  for (Index s = 0; s < scales.elements(); ++s)
    scales.as<std::uint8_t>()[s] = static_cast<std::uint8_t>(120 + s * 5 % 7);
  return of("dequantize", {{"codes", std::move(codes)}, {"scales", std::move(scales)}},
            {{"format", format}, {"out", "f32"}});
}

/// The sentence where elements hold value(code, scale byte) times the scale; NaN: as they are.
template <typename Value>
std::string said(const char* format, Value value) {
  const auto b = make_cpu_backend();
  const Call call = every_code(format);
  const Planted p = spoiled(*b, call, [&](NamedTensors& out) {
    const auto* codes = call.input("codes").as<std::uint8_t>();
    const auto* scales = call.input("scales").as<std::uint8_t>();
    float* x = out.at("x").as<float>();
    for (Index i = 0; i < out.at("x").elements(); ++i) {
      const int byte = scales[i / 32];
      const float v = value(codes[i], byte, i);
      if (v != 1e9f) x[i] = v * std::ldexp(1.0f, byte - 127);
    }
  });
  return explain(*b, p.call, p.expected, p.actual).sentence();
}

constexpr float kAsIs = 1e9f;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(ByValue, CodesAreReadAsOtherNumbers) {
  EXPECT_EQ(said("e4m3", [](int c, int, Index) { return c == 0x80 ? kNaN : kAsIs; }),
            "explained: code 80 is read as NaN rather than -0");
  EXPECT_EQ(said("e4m3fnuz", [](int c, int, Index) { return c == 0x80 ? -0.0f : kAsIs; }),
            "explained: code 80 is read as -0 rather than NaN");
  EXPECT_EQ(
      said("e4m3", [](int c, int,
                      Index) { return (c & 0x7F) == 0x7F ? (c < 128 ? 480.0f : -480.0f) : kAsIs; }),
      "explained: codes are read otherwise: 7F as 480 rather than NaN, FF as -480 rather "
      "than NaN");
  EXPECT_EQ(said("e4m3",
                 [](int c, int, Index) {
                   const int m = c & 0x7F;
                   if (m == 0 || m > 7) return kAsIs;
                   return (c < 128 ? 1.0f : -1.0f) *
                          std::ldexp(1.0f + 0.125f * static_cast<float>(m), -7);
                 }),
            "explained: subnormal codes are read by the formula of normal ones, 1.m of the lowest "
            "exponent");
}

TEST(ByValue, ScaleBytesAreReadAsNaN) {
  EXPECT_EQ(said("e4m3", [](int, int byte, Index) { return byte == 124 ? kNaN : kAsIs; }),
            "explained: scale byte 124 is read as NaN rather than 0.125");
}

TEST(ByValue, ScaleBytesOfAProductAreReadAsNaN) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 5, {{16, 24, 40}, 40, 32, 64});
  // A byte of a few rows.
  const Tensor& scales = call.input("x.scales");
  const Index columns = scales.extent(1);
  std::map<int, std::set<Index>> rows;
  for (Index i = 0; i < scales.elements(); ++i)
    rows[scales.as<std::uint8_t>()[i]].insert(i / columns);
  const auto few = std::find_if(rows.begin(), rows.end(), [](const auto& at) {
    return at.second.size() > 1 && at.second.size() < 20;
  });
  ASSERT_NE(few, rows.end());
  const int byte = few->first;
  const Planted p = altered(*b, call, {"x.scales"}, [&](Tensor& t, const Tensor&) {
    for (Index i = 0; i < t.elements(); ++i) {
      if (t.as<std::uint8_t>()[i] == byte) t.as<std::uint8_t>()[i] = 0xFF;
    }
  });
  const Explanation e = explain(*b, p.call, p.expected, p.actual);
  ASSERT_FALSE(e.causes.empty());
  const std::string words = "scale byte " + std::to_string(byte) + " of x is read as NaN";
  EXPECT_TRUE(e.causes[0].sentence.starts_with(words)) << e.sentence();
}

}  // namespace
}  // namespace mxo
