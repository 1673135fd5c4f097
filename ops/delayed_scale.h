// Delayed scaling: a scale for the next step from the largest magnitudes of steps before.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// Which entries of a history are used.
enum class AmaxChoice : std::uint8_t { max, most_recent };

/// last = history[0] joined with max |x_i| where x is given; NaN elements are left out.
/// Where last is 0, next_history = history and amax = 0; else
///   next_history[i] = history[i + 1] for 0 < i < H - 1, last at H - 1, and 0 at 0
///   amax = last, or the largest of history[1 ..] and last
/// next_scale = fl32(scaled_max / amax) where amax is positive and finite, the largest float where
/// that overflows; else scale.  scaled_max = fl32(max of the format * 2^-margin).
///
///   x             [.., R, K]  f32, bf16 or f16, optional, any strides
///   history       f32 [H], H at least 1, newest first, then oldest to newest
///   scale         f32 [1], what x is multiplied by
///   next_history  f32 [H], next_scale f32 [1]
///
/// With H = 1 next_history is 0.  Any extent of x may be 0.
/// Errors, before any byte is written: Error(shape), Error(dtype).
/// Source: TransformerEngine d0067d0, delayed_scaling.cu, kernel_bulk; read.
struct DelayedScale {
  Operand x;
  Operand history;
  Operand scale;
  Dtype format = Dtype::e4m3;
  AmaxChoice choice = AmaxChoice::max;
  int margin = 0;
  Result next_history;
  Result next_scale;
};

void delayed_scale(Backend& backend, const DelayedScale& op);

}  // namespace mxo
