// Operands of a step, and what calls make of them.
#pragma once

#include <memory>
#include <utility>

#include "golden/explain/call.h"

namespace mxo {

inline std::shared_ptr<const Tensor> shared(Tensor tensor) {
  return std::make_shared<const Tensor>(std::move(tensor));
}

/// The output of a call that has one.
inline Tensor made_by(Backend& backend, const Call& call) {
  return std::move(run_call(backend, call).begin()->second);
}

/// f32 rounded to bf16, anything else as it is.
inline Tensor in_bf16(Backend& backend, Tensor x) {
  if (x.dtype() != Dtype::f32) return x;
  return made_by(backend, Call{"cast", {{"x", shared(std::move(x))}}, {}});
}

}  // namespace mxo
