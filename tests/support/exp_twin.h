// exp and the logistic function of a float, correctly rounded: an independent model, for sweeps.
#pragma once

#include <cstdint>

namespace mxo::test {

enum class ExpFunction { exp, sigmoid };

/// Floats of one sweep at a time: n = 2^14 that follow each other from `word` on, a multiple of n,
/// so that they have one sign and exponent.
inline constexpr std::int32_t kExpRun = 1 << 14;

/// The correctly rounded values of a run.  In double by libm and, where that cannot decide the
/// rounding, by MPFR.
void exp_twin(ExpFunction f, std::uint32_t word, float* values);

}  // namespace mxo::test
