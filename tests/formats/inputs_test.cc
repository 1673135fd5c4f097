// Inputs by seed, name and index: values written out by an independent program, and what each
// distribution is.
#include "formats/inputs.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mxo::inputs {
namespace {

constexpr std::uint64_t kSeed = 0x0123456789ABCDEFull;
constexpr std::uint32_t kX = stream_of("x");

float at(Distribution of, std::uint64_t index) { return element(of, kSeed, kX, index, 64); }

template <typename Holds>
int count(Distribution of, const Holds& holds) {
  int found = 0;
  for (std::uint64_t i = 0; i < 65536; ++i) found += holds(at(of, i)) ? 1 : 0;
  return found;
}

TEST(Inputs, AreTheWordsOfThePublishedGenerator) {
  // Salmon et al.'s Random123, known answers of philox4x32-10.
  EXPECT_EQ(philox(PhiloxWords{}, 0),
            (PhiloxWords{{0x6627E8D5u, 0xE169C58Du, 0xBC57AC4Cu, 0x9B00DBD8u}}));
  EXPECT_EQ(philox(PhiloxWords{{~0u, ~0u, ~0u, ~0u}}, ~std::uint64_t{0}),
            (PhiloxWords{{0x408F276Du, 0x41C83B0Eu, 0xA20BC7C6u, 0x6D5451FDu}}));
  EXPECT_EQ(philox(PhiloxWords{{0x243F6A88u, 0x85A308D3u, 0x13198A2Eu, 0x03707344u}},
                   0x299F31D0A4093822ull),
            (PhiloxWords{{0xD16CFE09u, 0x94FDCCEBu, 0x5001E420u, 0x24126EA1u}}));
}

TEST(Inputs, HaveTheSharesTheyAreNamedAfter) {
  EXPECT_EQ(count(Distribution::normal, [](float x) { return std::fabs(x) < 4.0f; }), 65536);
  EXPECT_NEAR(count(Distribution::normal, [](float x) { return x > 0.0f; }), 32768, 1000);
  EXPECT_NEAR(count(Distribution::special, [](float x) { return std::isnan(x); }), 43, 30);
  EXPECT_NEAR(count(Distribution::special, [](float x) { return std::isinf(x); }), 43, 30);
  EXPECT_NEAR(count(Distribution::saturating, [](float x) { return std::fabs(x) >= 14.0f; }), 2048,
              200);
  EXPECT_EQ(count(Distribution::subnormal, [](float x) { return std::fabs(x) < 0x1p-126f; }),
            65536);
  EXPECT_NEAR(count(Distribution::outliers, [](float x) { return std::fabs(x) > 8.0f; }), 180, 80);
}

TEST(Inputs, OfZeroLinesAreZeroInWholeLines) {
  int lines = 0;
  for (std::uint64_t line = 0; line < 1024; ++line) {
    int zeros = 0;
    for (std::uint64_t k = 0; k < 64; ++k)
      zeros += at(Distribution::zero_lines, line * 64 + k) == 0.0f ? 1 : 0;
    EXPECT_TRUE(zeros == 64 || zeros <= 1) << line;
    lines += zeros == 64 ? 1 : 0;
  }
  EXPECT_NEAR(lines, 128, 40);
}

TEST(Inputs, AreAnotherStreamUnderAnotherName) {
  int same = 0;
  for (std::uint64_t i = 0; i < 1000; ++i)
    same += element(Distribution::normal, kSeed, stream_of("w"), i) == at(Distribution::normal, i);
  EXPECT_LT(same, 5);
}

}  // namespace
}  // namespace mxo::inputs
