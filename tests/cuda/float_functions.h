// Functions of formats/exp.h and formats/erf.h run by the device, without an operator around them.
#pragma once

#include <cstdint>

namespace mxo::test {

enum class FloatFunction : std::uint8_t { exp, sigma, erf, tanh };

/// y[i] = function(x[i]) for arrays in the device's memory; waits.  Throws std::runtime_error.
void on_device(FloatFunction function, const float* x, float* y, std::int64_t count);

}  // namespace mxo::test
