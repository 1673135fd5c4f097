// The arithmetic this library needs, in this process and compiled with these flags.
#include <cfenv>

#include <gtest/gtest.h>
#include <immintrin.h>

#include "emu/backends.h"
#include "formats/error.h"
#include "formats/mx_scale.h"
#include "ops/float_environment.h"

namespace mxo {
namespace {

constexpr unsigned kFlushToZero = 0x8000;
constexpr unsigned kDenormalsAreZero = 0x0040;

/// Runs `fn` with bits of the SSE control register set, as a foreign crtfastmath.o leaves them.
template <typename Fn>
void with_control_bits(unsigned bits, Fn&& fn) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | bits);
  fn();
  _mm_setcsr(before);
}

Fault fault_of_a_new_backend() {
  try {
    make_reference_backend();
  } catch (const Error& error) {
    return error.fault();
  }
  return Fault::internal;
}

TEST(Arithmetic, IsAsWrittenInThisProcess) { EXPECT_NO_THROW(require_ieee_arithmetic()); }

TEST(Arithmetic, FusesNothingInThisTranslationUnit) {
  volatile float a = 1.0f + 0x1p-12f;
  volatile float c = -(1.0f + 0x1p-11f);
  EXPECT_EQ(a * a + c, 0.0f) << "the product was not rounded before the sum";
}

TEST(Arithmetic, KeepsTheSubnormalDescaleThatDecidesAScale) {
  volatile float amax = 0x1.5p-118f;  // 1.5 * 448 * 2^-127, so the descale is 1.5 * 2^-127
  EXPECT_EQ(shared_scale<kE4M3>(amax, ScaleMode::rceil, kTorchao).bits, 1);
}

TEST(Arithmetic, NoBackendStartsWhileSubnormalsAreFlushed) {
  Fault flush = Fault::internal;
  Fault zero = Fault::internal;
  with_control_bits(kFlushToZero, [&] { flush = fault_of_a_new_backend(); });
  with_control_bits(kDenormalsAreZero, [&] { zero = fault_of_a_new_backend(); });
  EXPECT_EQ(flush, Fault::unsupported);
  EXPECT_EQ(zero, Fault::unsupported);
}

TEST(Arithmetic, NoBackendStartsUnderAnotherRoundingMode) {
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const Fault fault = fault_of_a_new_backend();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(fault, Fault::unsupported) << "rounding mode " << mode;
  }
}

}  // namespace
}  // namespace mxo
