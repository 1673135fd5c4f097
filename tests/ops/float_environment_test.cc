// The start-up check of the arithmetic: passes here, and notices what would falsify results.
#include "ops/float_environment.h"

#include <xmmintrin.h>

#include <cfenv>

#include <gtest/gtest.h>

#include "formats/error.h"

namespace mxo {
namespace {

Fault fault_of_check() {
  try {
    require_ieee_arithmetic();
  } catch (const Error& error) {
    return error.fault();
  }
  return Fault::internal;
}

TEST(FloatEnvironment, IsIeeeInThisProcess) { EXPECT_NO_THROW(require_ieee_arithmetic()); }

TEST(FloatEnvironment, RefusesEveryOtherRoundingMode) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    ASSERT_EQ(std::fesetround(mode), 0);
    const Fault fault = fault_of_check();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(fault, Fault::unsupported) << "mode " << mode;
  }
}

TEST(FloatEnvironment, RefusesFlushToZeroAndDenormalsAreZero) {
  const unsigned before = _mm_getcsr();
  for (const unsigned flag : {0x8000u, 0x0040u}) {  // MXCSR: FTZ, DAZ
    _mm_setcsr(before | flag);
    const Fault fault = fault_of_check();
    _mm_setcsr(before);
    EXPECT_EQ(fault, Fault::unsupported) << "MXCSR flag " << flag;
  }
}

}  // namespace
}  // namespace mxo
