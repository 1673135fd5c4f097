// Functions that most elements show: differences, powers of two, bits that are flipped or lost.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "formats/minifloat.h"
#include "tests/golden/mapped.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;

const Bits kNumbers{5, 1000, 77, 123456};

TEST(MappedBits, OfIntegersAreOffByANumber) {
  const auto by = [](Dtype dtype, std::uint64_t more, std::uint64_t all) {
    return mapped(dtype, kNumbers, [&](std::uint64_t w) { return (w + more) & all; });
  };
  const std::uint64_t low = 0xFFFFFFFF;
  const std::string is = "value.offset: y: every number is ";
  for (const Dtype dtype : {Dtype::i32, Dtype::u32}) {
    EXPECT_EQ(by(dtype, 3, low), Words{is + "3 too high (4)"});
    EXPECT_EQ(by(dtype, static_cast<std::uint64_t>(-3), low), Words{is + "3 too low (4)"});
  }
  EXPECT_EQ(by(Dtype::i64, 3, ~std::uint64_t{0}), Words{is + "3 too high (4)"});
  EXPECT_EQ(by(Dtype::i64, static_cast<std::uint64_t>(-6), ~std::uint64_t{0}),
            Words{is + "6 too low (4)"})
      << "below zero";
}

TEST(MappedBits, OfIntegersComeRound) {
  EXPECT_EQ(mapped(Dtype::u8, {3, 255, 9, 30}, {4, 0, 10, 31}),
            Words{"value.offset: y: every number is 1 too high (4)"});
  EXPECT_EQ(mapped(Dtype::i64, {std::uint64_t{1} << 63, 0, 9},
                   {(std::uint64_t{1} << 63) - 7, static_cast<std::uint64_t>(-7), 2}),
            Words{"value.offset: y: every number is 7 too low (3)"});
}

TEST(MappedBits, OfIntegersMayBeAFew) {
  const std::string is = "value.offset: y: every number is 3 too high ";
  EXPECT_EQ(mapped(Dtype::i32, {5}, {8}), Words{is + "(1)"});
  EXPECT_EQ(mapped(Dtype::i32, {5, 9, 12}, {8, 12, 15}), Words{is + "(3)"});
  const auto rows = [](Index wrong) {
    // Rows of three numbers: the first ones are 3 too high, and others by each another number.
    Bits wanted;
    Bits actual;
    for (Index i = 0; i < 21; ++i) {
      wanted.push_back(static_cast<std::uint64_t>(100 + 41 * i));
      actual.push_back(wanted.back() + static_cast<std::uint64_t>(i < 21 - wrong ? 3 : 1000 * i));
    }
    Came came(of_bits(Dtype::i32, {7, 3}, wanted), of_bits(Dtype::i32, {7, 3}, actual));
    return mapped(came);
  };
  EXPECT_EQ(rows(9), Words{"value.offset: rows 0 to 3 of y: every number is 3 too high (12)"});
  EXPECT_EQ(rows(12), Words{}) << "nine of 21 agree";
}

TEST(MappedBits, HaveToBeThoseOfMoreThanHalf) {
  // Two rows of four: one is 3 too high, of the other none is alike.
  const Bits wanted{5, 6, 17, 18, 70, 81, 92, 113};
  const auto of = [&](std::uint64_t fifth) {
    Came came(of_bits(Dtype::i32, {2, 4}, wanted),
              of_bits(Dtype::i32, {2, 4}, {8, 9, 20, 21, fifth, 97, 220, 520}));
    return mapped(came);
  };
  EXPECT_EQ(of(777), Words{});
  EXPECT_EQ(of(73), Words{"value.offset: row 0 of y: every number is 3 too high (4)"});
}

TEST(MappedBits, OfScalesAreOfTheExponent) {
  EXPECT_EQ(mapped(Dtype::e8m0, {120, 130, 127, 99}, {121, 131, 128, 100}),
            Words{"scale.exponent: y: every scale byte is 1 too high (4)"});
  EXPECT_EQ(mapped(Dtype::e8m0, {120, 130, 127, 99}, {118, 128, 125, 97}),
            Words{"scale.exponent: y: every scale byte is 2 too low (4)"});
}

TEST(MappedBits, AreSampledFromAllOver) {
  // 1024 rows of two, of which every fourth element is looked at: the first of each second row.
  const Came both(filled<std::int32_t>(Dtype::i32, {1024, 2}, [](Index i) { return 50 * i; }),
                  filled<std::int32_t>(Dtype::i32, {1024, 2},
                                       [](Index i) { return 50 * i + (i / 2 % 2 == 0 ? 3 : 21); }));
  Output output = both.output;
  const std::vector<Claim> claims = recover_mapped(output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence.substr(claims[0].sentence.find(": ")),
            ": every number is 3 too high");
  EXPECT_EQ(claims[0].elements, 1024);
}

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
  const auto with = [](float odd, float came) {
    std::vector<float> wanted = of_binades(10);
    std::vector<float> actual = each_of(wanted, [](double v) { return v * 0.5; });
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
