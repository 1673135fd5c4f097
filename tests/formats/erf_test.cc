// erf and tanh of a float against 200 bits.
#include "formats/erf.h"

#include <gtest/gtest.h>

#include <cmath>

#include "formats/host_device.h"
#include "tests/support/by_mpfr.h"

namespace mxo {
namespace {

using test::by_mpfr;

void expect_both(std::uint32_t word) {
  const auto x = bit_cast<float>(word);
  ASSERT_EQ(bit_cast<std::uint32_t>(erf_rn(x)), bit_cast<std::uint32_t>(by_mpfr(x, mpfr_erf)))
      << std::hex << word;
  ASSERT_EQ(bit_cast<std::uint32_t>(tanh_rn(x)), bit_cast<std::uint32_t>(by_mpfr(x, mpfr_tanh)))
      << std::hex << word;
}

TEST(Erf, FloatsOfEveryBinadeAreCorrectlyRounded) {
  std::uint32_t mix = 1;
  for (std::uint32_t exponent = 0; exponent < 131; ++exponent) {
    for (int i = 0; i < 400; ++i) {
      mix = mix * 1664525u + 1013904223u;
      expect_both((mix & 0x80000000u) | exponent << 23 | (mix >> 4 & 0x7FFFFFu));
    }
    if (HasFatalFailure()) return;
  }
}

/// All floats from 2^-16 on whose erf or tanh binary64 leaves undecided, and one below.
constexpr std::uint32_t kUndecided[] = {
    0x00AA320C, 0x3425C046, 0x37EE85C4, 0x3940EAD6, 0x39C0057D, 0x3AA60E18, 0x3AC37DE2,
    0x3B25A39D, 0x3C7C9E9F, 0x3C96AE2E, 0x3CD41B91, 0x3D7C3055, 0x3E1FCC60, 0x3EEE0566,
    0x3F043A75, 0x3F44DDFD, 0x3FF8BC7E, 0x4013CD84, 0x40A6EF82, 0x40ACB4D0, 0x40C5E8CA};

TEST(Erf, FloatsThatTheLibraryCannotDecideAreCorrectlyRounded) {
  for (const std::uint32_t word : kUndecided) {
    expect_both(word);
    expect_both(word | 0x80000000u);
  }
}

TEST(Erf, EndsAreSignedZerosOnesAndNan) {
  for (float (*function)(float) : {erf_rn, tanh_rn}) {
    EXPECT_TRUE(std::signbit(function(-0.0f)));
    EXPECT_EQ(function(INFINITY), 1.0f);
    EXPECT_EQ(function(-INFINITY), -1.0f);
    EXPECT_EQ(bit_cast<std::uint32_t>(function(-NAN)), 0x7FC00000u);
    EXPECT_EQ(function(0x1p-149f), 0x1p-149f);
  }
}

}  // namespace
}  // namespace mxo
