// The functions of approximate as types, for loops of host and device.
#pragma once

#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh.h"
#include "ops/approximate.h"

namespace mxo {

/// One function, of x alone or of x and b; a NaN is 7FFFFFFF whatever the processor makes of it.
template <ChipFunction function, bool ftz>
struct OnChip {
  static constexpr bool kDivides = function == ChipFunction::div_full;

  MXO_HD float operator()(float x) const { return one_nan(of(x)); }
  MXO_HD float operator()(float x, float b) const {
    return one_nan(ftz ? div_full_ftz(x, b) : div_full(x, b));
  }

 private:
  MXO_HD static float one_nan(float y) { return y != y ? bit_cast<float>(interpolator::kNan) : y; }
  MXO_HD static float of(float x) {
    if constexpr (function == ChipFunction::ex2) {
      return ftz ? ex2_approx_ftz(x) : ex2_approx(x);
    } else if constexpr (function == ChipFunction::rcp) {
      return ftz ? rcp_approx_ftz(x) : rcp_approx(x);
    } else if constexpr (function == ChipFunction::rsqrt) {
      return ftz ? rsqrt_approx_ftz(x) : rsqrt_approx(x);
    } else if constexpr (function == ChipFunction::sqrt) {
      return ftz ? sqrt_approx_ftz(x) : sqrt_approx(x);
    } else if constexpr (function == ChipFunction::lg2) {
      return ftz ? lg2_approx_ftz(x) : lg2_approx(x);
    } else {
      return tanh_approx(x);
    }
  }
};

template <bool ftz, typename Fn>
void visit_on_chip(ChipFunction function, Fn&& fn) {
  switch (function) {
    case ChipFunction::ex2: fn(OnChip<ChipFunction::ex2, ftz>{}); break;
    case ChipFunction::rcp: fn(OnChip<ChipFunction::rcp, ftz>{}); break;
    case ChipFunction::rsqrt: fn(OnChip<ChipFunction::rsqrt, ftz>{}); break;
    case ChipFunction::sqrt: fn(OnChip<ChipFunction::sqrt, ftz>{}); break;
    case ChipFunction::lg2: fn(OnChip<ChipFunction::lg2, ftz>{}); break;
    case ChipFunction::tanh: fn(OnChip<ChipFunction::tanh, false>{}); break;
    case ChipFunction::div_full: fn(OnChip<ChipFunction::div_full, ftz>{}); break;
  }
}

/// Calls fn(OnChip<..>{}) for the function that `op` names.
template <typename Fn>
void visit_on_chip(const Approximate& op, Fn&& fn) {
  if (op.ftz) {
    visit_on_chip<true>(op.function, fn);
  } else {
    visit_on_chip<false>(op.function, fn);
  }
}

}  // namespace mxo
