// Rows of sums rounded to bf16 in f32, each with a proved bound of what that loses.
#pragma once

#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

/// Rows [first, end) of 32 sums each, rounded to bf16.  A row all of whose sums passed the rounding
/// test goes to out + row * step, around the caches if `streams`, which wants lines of 64 bytes;
/// another, or all if `out` is null, to left[row], its failed sums marked in failed[row].
struct RoundedRows {
  std::uint16_t* out;
  std::int64_t step;
  bool streams;
  std::uint32_t rows_left;  ///< bit of each that is in `left`
  alignas(64) std::uint16_t left[kTileLanes][kMaxNr];
  std::uint32_t failed[kTileLanes];
};

}  // namespace mxo::cpu
