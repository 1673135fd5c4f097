// The functions of a chip as types: which one is called, with subnormals or without.
#include <gtest/gtest.h>

#include <cstdint>

#include "emu/reference/approximate.h"

namespace mxo {
namespace {

std::uint32_t bits(float x) { return bit_cast<std::uint32_t>(x); }

/// What the function that `op` names gives for x, or for x and 3.
float found(ChipFunction function, bool ftz, float x) {
  Approximate op;
  op.function = function;
  op.ftz = ftz;
  float y = -7.0f;
  int calls = 0;
  visit_on_chip(op, [&](auto on_chip) {
    ++calls;
    if constexpr (decltype(on_chip)::kDivides) {
      y = on_chip(x, 3.0f);
    } else {
      y = on_chip(x);
    }
  });
  EXPECT_EQ(calls, 1);
  return y;
}

TEST(ChipFunctions, AreCalledByTheirNames) {
  for (const float x : {0.7f, 2.3f, 0x1.8p-127f, 0x1.8p-3f}) {
    EXPECT_EQ(found(ChipFunction::ex2, true, x), ex2_approx_ftz(x));
    EXPECT_EQ(found(ChipFunction::ex2, false, x), ex2_approx(x));
    EXPECT_EQ(found(ChipFunction::rcp, true, x), rcp_approx_ftz(x));
    EXPECT_EQ(found(ChipFunction::rcp, false, x), rcp_approx(x));
    EXPECT_EQ(found(ChipFunction::rsqrt, true, x), rsqrt_approx_ftz(x));
    EXPECT_EQ(found(ChipFunction::rsqrt, false, x), rsqrt_approx(x));
    EXPECT_EQ(found(ChipFunction::sqrt, true, x), sqrt_approx_ftz(x));
    EXPECT_EQ(found(ChipFunction::sqrt, false, x), sqrt_approx(x));
    EXPECT_EQ(found(ChipFunction::lg2, true, x), lg2_approx_ftz(x));
    EXPECT_EQ(found(ChipFunction::lg2, false, x), lg2_approx(x));
    EXPECT_EQ(found(ChipFunction::div_full, true, x), div_full_ftz(x, 3.0f));
    EXPECT_EQ(found(ChipFunction::div_full, false, x), div_full(x, 3.0f));
    for (const bool ftz : {true, false}) {
      EXPECT_EQ(found(ChipFunction::tanh, ftz, x), tanh_approx(x));
    }
  }
  EXPECT_NE(found(ChipFunction::ex2, true, -127.5f), found(ChipFunction::ex2, false, -127.5f));
}

TEST(ChipFunctions, NanIsTheChipsWhateverTheProcessorMakes) {
  for (const std::uint32_t nan : {0x7FC00000u, 0xFFC00001u}) {
    for (const bool ftz : {true, false}) {
      EXPECT_EQ(bits(found(ChipFunction::div_full, ftz, bit_cast<float>(nan))), 0x7FFFFFFFu);
      EXPECT_EQ(bits(found(ChipFunction::tanh, ftz, bit_cast<float>(nan))), 0x7FFFFFFFu);
    }
  }
  const OnChip<ChipFunction::div_full, false> divide;
  EXPECT_EQ(bits(divide(0.0f, 0.0f)), 0x7FFFFFFFu);
}

}  // namespace
}  // namespace mxo
