// Operands of a step, and what calls make of them.
#pragma once

#include <memory>
#include <utility>

#include "golden/explain/case/call.h"

namespace mxo {

using Shared = std::shared_ptr<const Tensor>;

inline Shared shared(Tensor tensor) { return std::make_shared<const Tensor>(std::move(tensor)); }

/// The output of a call that has one.
inline Tensor made_by(Backend& backend, const Call& call) {
  return std::move(run_call(backend, call).begin()->second);
}

/// f32 rounded to bf16, anything else as it is.
inline Shared in_bf16(Backend& backend, const Shared& x) {
  if (x->dtype() != Dtype::f32) return x;
  return shared(made_by(backend, Call{"cast", {{"x", x}}, {}}));
}

}  // namespace mxo
