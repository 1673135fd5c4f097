// Functions that most numbers show: powers of two, bits that are flipped or lost.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/mapped.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

/// Some numbers of four binades.
std::vector<float> of_binades(std::size_t n) {
  std::vector<float> values = some_numbers(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::ldexp(values[i], static_cast<int>(i % 4));
  return values;
}

Words times(std::size_t n, double factor) {
  return mapped(of_binades(n), each_of(of_binades(n), [=](double v) { return v * factor; }));
}

TEST(MappedBits, AreTimesAPowerOfTwo) {
  const std::string is = "value.power_of_2: y: every value is multiplied by 2^";
  EXPECT_EQ(times(8, 2.0), Words{is + "1 (8)"});
  EXPECT_EQ(times(9, 0.25), Words{is + "-2 (9)"});
  EXPECT_EQ(times(9, 0x1p20), Words{is + "20 (9)"});
  EXPECT_EQ(times(7, 2.0), Words{});
  EXPECT_EQ(times(9, 3.0), Words{});
  EXPECT_EQ(times(9, -2.0), Words{});
}

TEST(MappedBits, AreTimesAPowerOfTwoBesideOthers) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  const auto with = [](float odd, float came, double factor = 0.5) {
    std::vector<float> wanted = of_binades(10);
    std::vector<float> actual = each_of(wanted, [=](double v) { return v * factor; });
    wanted.push_back(odd);
    actual.push_back(came);
    return mapped(wanted, actual);
  };
  const std::string is = "value.power_of_2: y: every value is multiplied by 2^-1 ";
  EXPECT_EQ(with(0.0f, 0.0f), Words{is + "(10)"});
  EXPECT_EQ(with(-0.0f, -0.0f), Words{is + "(10)"});
  EXPECT_EQ(with(kInfinite, kInfinite), Words{is + "(10)"});
  EXPECT_EQ(with(kNan, kNan), Words{is + "(10)"});
  EXPECT_EQ(with(kInfinite, 1.0f), Words{});
  EXPECT_EQ(with(0x1p-125f, 0x1p-126f), Words{is + "(11)"}) << "the least normal one";
  EXPECT_EQ(with(0x1p-126f, 0x1p-127f), Words{}) << "a subnormal result";
  EXPECT_EQ(with(0x1p-130f, 0x1p-131f), Words{}) << "of a subnormal";
  EXPECT_EQ(with(0x1p-130f, 0x1p-130f), Words{});
  EXPECT_EQ(with(0.0f, 0.5f), Words{});
  EXPECT_EQ(with(0x1p-126f, 0.0f), Words{}) << "a result that is flushed";
  const std::string twice = "value.power_of_2: y: every value is multiplied by 2^1 ";
  EXPECT_EQ(with(0.0f, 0.0f, 2.0), Words{twice + "(10)"});
  EXPECT_EQ(with(0x1p-126f, 0x1p-125f, 2.0), Words{twice + "(11)"});
}

TEST(MappedBits, OfTwoPowersAreTimesNeither) {
  std::vector<float> wanted = of_binades(10);
  std::vector<float> actual = wanted;
  for (std::size_t i = 0; i < 10; ++i) actual[i] *= i < 5 ? 2.0f : 4.0f;
  EXPECT_EQ(mapped(wanted, actual), Words{});
}

TEST(MappedBits, AreOfNoPowerWhereMostAreNoNumbers) {
  // Six of ten are zero, or not finite, on one side: nobody knows what these are times.
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (const auto& [odd, came] : {std::pair{0.0f, 1.0f}, {1.0f, 0.0f}, {kInfinite, 3.0f}}) {
    std::vector<float> wanted = of_binades(10);
    std::vector<float> actual = each_of(wanted, [](double v) { return v * 2.0; });
    wanted.insert(wanted.end(), 12, odd);
    actual.insert(actual.end(), 12, came);
    for (const std::string& said : mapped(wanted, actual)) {
      EXPECT_EQ(said.find("power_of_2"), std::string::npos) << said;
    }
  }
}

TEST(MappedBits, AreFlipped) {
  const std::string is = "bits.flipped: y: the same bits are flipped everywhere ";
  const auto flipped = [](std::size_t n, std::uint64_t mask) {
    Bits wanted;
    for (const float v : some_numbers(n)) wanted.push_back(std::bit_cast<std::uint32_t>(v));
    return mapped(Dtype::f32, wanted, [mask](std::uint64_t w) { return w ^ mask; });
  };
  EXPECT_EQ(flipped(8, 0x24000), Words{is + "(8)"});
  EXPECT_EQ(flipped(7, 0x24000), Words{});
  EXPECT_EQ(flipped(9, 0x4000), Words{"bit.flipped: bit 14 is flipped in all of y (9)"});
}

/// Numbers rounded to `bits` fraction bits, or cut to them.
double kept_bits(double v, int bits, bool cut) {
  const double scaled = std::ldexp(v, bits);  // of numbers from 1 to 2
  return std::ldexp(cut ? std::trunc(scaled) : std::nearbyint(scaled), -bits);
}

TEST(MappedBits, AreCutOrRounded) {
  for (const int bits : {1, 7, 10, 21}) {
    for (const bool cut : {true, false}) {
      // Between those that are kept there are ties, to even and to odd ones.
      std::vector<float> wanted = some_numbers(24);
      wanted.push_back(static_cast<float>(1.0 + std::ldexp(0.5, -bits)));
      wanted.push_back(static_cast<float>(1.0 + std::ldexp(1.5, -bits)));
      const std::vector<float> actual =
          each_of(wanted, [&](double v) { return kept_bits(v, bits, cut); });
      Index differ = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i) differ += wanted[i] != actual[i];
      const std::string of = std::to_string(bits) + " fraction bits";
      EXPECT_EQ(mapped(wanted, actual),
                Words{(cut ? "value.truncated: y: values are cut to " + of
                           : "value.rounded: y: values are rounded to " + of + " on the way") +
                      " (" + std::to_string(differ) + ")"})
          << bits;
    }
  }
}

TEST(MappedBits, AreCutByOneBit) {
  const std::vector<float> wanted = some_numbers(24);
  const std::vector<float> actual =
      each_of(wanted, [](double v) { return kept_bits(v, 22, true); });
  const Words words = mapped(wanted, actual);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].substr(0, 55), "value.truncated: y: values are cut to 22 fraction bits ");
}

TEST(MappedBits, AreCutToSomeBits) {
  const std::vector<float> wanted = of_binades(12);
  EXPECT_EQ(
      mapped(wanted,
             each_of(wanted, [](double v) { return std::copysign(std::exp2(std::ilogb(v)), v); })),
      Words{})
      << "no fraction is left";
}

TEST(MappedBits, AreCutInEightElements) {
  const auto cut = [](std::size_t n, int bits, bool all) {
    const std::vector<float> wanted = some_numbers(n);
    return mapped(wanted, each_of(wanted, [&](double v) { return kept_bits(v, bits, all); }));
  };
  EXPECT_EQ(cut(8, 7, true).size(), 1u);
  EXPECT_EQ(cut(7, 7, true), Words{});
  EXPECT_EQ(cut(7, 7, false), Words{});
  EXPECT_EQ(cut(8, 0, true), Words{"value.clamped: y: values are clamped at 1 (8)"});
}

TEST(MappedBits, OfBytesExchangeTheirHalves) {
  const Bits bytes{0x12, 0x34, 0xF0, 0x07, 0x9A, 0x5C, 0x61, 0x2E};
  const auto nibbles = [](std::uint64_t w) { return (w % 16) * 16 + w / 16; };
  const std::string is = "value.nibbles: y: the nibbles of every byte are exchanged (8)";
  EXPECT_EQ(mapped(Dtype::u8, bytes, nibbles), Words{is});
  EXPECT_EQ(mapped(Dtype::e4m3, bytes, nibbles), Words{is});
  EXPECT_EQ(mapped(Dtype::u8, {0x12, 0x34, 0xF0, 0x07, 0x9A, 0x5C, 0x61}, nibbles), Words{});
}

TEST(MappedBits, OfWordsExchangeTheirBytes) {
  const std::string is = "value.bytes: y: the bytes of every element are exchanged ";
  struct Of {
    Dtype dtype;
    std::size_t bytes;
  };
  for (const Of& of : {Of{Dtype::u16, 2}, Of{Dtype::bf16, 2}, Of{Dtype::i32, 4}, Of{Dtype::f32, 4},
                       Of{Dtype::i64, 8}, Of{Dtype::f64, 8}}) {
    const auto exchanged = [&](std::size_t n) {
      Bits wanted;
      Bits actual;
      for (std::size_t i = 0; i < n; ++i) {
        std::uint64_t w = 0;
        std::uint64_t turned = 0;
        for (std::size_t b = 0; b < of.bytes; ++b) {
          const std::uint64_t byte = 0x31 + 7 * i * (b + 1) % 67 + b;
          w = w * 256 + byte;
          turned |= byte << (8 * b);
        }
        wanted.push_back(w);
        actual.push_back(turned);
      }
      return mapped(of.dtype, wanted, actual);
    };
    EXPECT_EQ(exchanged(9), Words{is + "(9)"}) << of.bytes;
    EXPECT_EQ(exchanged(7), Words{}) << of.bytes;
  }
}

}  // namespace
}  // namespace mxo
