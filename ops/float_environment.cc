// Two expressions whose results tell FTZ, DAZ, contraction and the rounding mode.
#include "ops/float_environment.h"

#include "formats/error.h"

namespace mxo {

void require_ieee_arithmetic() {
  volatile float tiny = 0x1p-126f;
  volatile float half = 0.5f;
  volatile float kept = tiny * half;  // 2^-127 is subnormal
  volatile float subnormal = 0x1p-127f;
  volatile float two = 2.0f;
  if (kept == 0.0f || subnormal * two != 0x1p-126f) {
    throw Error(Fault::unsupported,
                "this process flushes subnormal floats to zero (FTZ or DAZ is set, often by a "
                "library linked with -ffast-math); results would be wrong");
  }
  // (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24 exactly, and 0 if the product is rounded first.
  volatile float a = 1.0f + 0x1p-12f;
  volatile float c = -(1.0f + 0x1p-11f);
  if (a * a + c != 0.0f) {
    throw Error(Fault::unsupported,
                "this build fuses multiply and add; configure with -ffp-contract=off");
  }
  volatile float one = 1.0f;
  volatile float tie = 0x1p-24f;
  if (one + tie != 1.0f || one + 3 * tie != 1.0f + 0x1p-22f) {
    throw Error(Fault::unsupported, "the rounding mode is not to nearest, ties to even");
  }
}

}  // namespace mxo
