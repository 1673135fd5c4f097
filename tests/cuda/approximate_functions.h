// Approximate instructions of the device against formats/approximate.h, operand by operand.
#pragma once

#include <cstdint>

namespace mxo::test {

enum class Approximate : std::uint8_t {
  rcp_ftz,
  rsqrt_ftz,
  sqrt_ftz,
  ex2_ftz,
  rcp,
  rsqrt,
  sqrt,
  ex2,
  lg2_ftz,
  lg2,
  tanh,
};

/// How many of all 2^32 floats the instruction and the function give different bits for.
std::int64_t differing(Approximate function);

/// The same of div.full.f32 for `count` pseudo-random pairs of bit patterns; NaNs are one class.
std::int64_t differing_quotients(std::int64_t count);

}  // namespace mxo::test
