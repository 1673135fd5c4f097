// The arithmetic this library needs, in this process and compiled with these flags.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "formats/error.h"
#include "formats/mx_scale.h"
#include "ops/float_environment.h"
#include "tests/support/float_state.h"

namespace mxo {
namespace {

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

TEST(Arithmetic, NoBackendStartsUnderForeignFloatStates) {
  for (const test::FloatState state : test::kForeignStates) {
    Fault fault = Fault::internal;
    {
      const test::WithFloatState foreign(state);
      fault = fault_of_a_new_backend();
    }
    EXPECT_EQ(fault, Fault::unsupported) << "state " << static_cast<int>(state);
  }
}

}  // namespace
}  // namespace mxo
