// The start-up check of the arithmetic: passes here, and notices what would falsify results.
#include "ops/float_environment.h"

#include <gtest/gtest.h>

#include "formats/error.h"
#include "tests/support/float_state.h"

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

TEST(FloatEnvironment, RefusesFlushingAndEveryOtherRoundingMode) {
  for (const test::FloatState state : test::kForeignStates) {
    Fault fault = Fault::internal;
    {
      const test::WithFloatState foreign(state);
      fault = fault_of_check();
    }
    EXPECT_EQ(fault, Fault::unsupported) << "state " << static_cast<int>(state);
  }
}

}  // namespace
}  // namespace mxo
