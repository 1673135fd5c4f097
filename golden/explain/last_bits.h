// Models that give an f32 output but for its last bits: what is left is the rounding of a function.
#pragma once

#include "golden/explain/output.h"

namespace mxo {

inline constexpr std::uint64_t kLastBits = 64;  ///< units in the last place of an f32

/// How near a model comes to what came.
struct LastBits {
  Index beyond = 0;         ///< elements of no f32 that differ, and f32 farther off than kLastBits
  Index mended = 0;         ///< elements within that, of which far more was owed
  std::uint64_t units = 0;  ///< the most by which an f32 is off

  /// Whether a model is what was computed, another arithmetic apart.
  bool all() const;
};

/// Adds what a patch says of it.
void hold_last_bits(const Output& output, const Patch& patch, LastBits& sum);

}  // namespace mxo
