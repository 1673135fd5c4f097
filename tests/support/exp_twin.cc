// exp and the logistic function by libm in double and, where that cannot decide, MPFR.
#include "tests/support/exp_twin.h"

#include <algorithm>
#include <cmath>

#include "formats/host_device.h"
#include "tests/support/by_mpfr.h"

namespace mxo::test {
namespace {

/// glibc's exp is good to 2^-52; with the sum and the quotient of sigmoid the error is below 2^-50.
float twin(float x, ExpFunction f) {
  if (std::isnan(x)) return bit_cast<float>(0x7FC00000u);
  // Within 2^-27 of 0 both functions lie less than half an ulp from their value at 0.
  if (std::fabs(x) < 0x1p-27f) return f == ExpFunction::exp ? 1.0f : 0.5f;
  if (x > 200.0f) return f == ExpFunction::exp ? INFINITY : 1.0f;
  if (x < -200.0f) return 0.0f;
  const auto wide = static_cast<double>(x);
  const double value = f == ExpFunction::exp ? std::exp(wide) : 1.0 / (1.0 + std::exp(-wide));
  const auto below = static_cast<float>(value * (1 - 0x1p-49));
  const auto above = static_cast<float>(value * (1 + 0x1p-49));
  return below == above ? below : f == ExpFunction::exp ? exp_by_mpfr(x) : sigma_by_mpfr(x);
}

/// Whether twin()'s first lines give all floats of a run the same; they have one sign.
bool flat(float first, float last) {
  if (std::isnan(first)) return true;
  return std::fabs(last) < 0x1p-27f || (std::fabs(first) > 200.0f && !std::isnan(last));
}

}  // namespace

void exp_twin(ExpFunction f, std::uint32_t word, float* values) {
  const auto x = [word](std::int32_t i) {
    return bit_cast<float>(word + static_cast<std::uint32_t>(i));
  };
  if (flat(x(0), x(kExpRun - 1))) {
    std::fill_n(values, kExpRun, twin(x(0), f));
  } else {
    for (std::int32_t i = 0; i < kExpRun; ++i) values[i] = twin(x(i), f);
  }
}

}  // namespace mxo::test
