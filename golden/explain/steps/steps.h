// Operators of many steps as the calls that they are made of.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "golden/explain/case/call.h"
#include "ops/linear_factor.h"

namespace mxo {

/// A call whose outputs are outputs of another call.
struct StepCall {
  Call call;
  struct Same {
    std::string own;    ///< in the other call
    std::string inner;  ///< in this one
  };
  std::vector<Same> outputs;
};

/// Whether an operator is made of calls of others.
inline bool has_steps(const Call& call) {
  return call.op == "grouped_linear" || call.op == "moe_layer" ||
         call.op.starts_with("swiglu_quantize");
}

/// The call that makes output `name` of `call` from its operands and from `expected`, the outputs
/// that are expected; none where the operator has one step, or the step is not known as a call.
/// That it gives what is expected is for the caller to check.
std::vector<StepCall> step_calls(Backend& backend, const Call& call, const NamedTensors& expected,
                                 const std::string& name);

/// The same of calls that differ from it in how their operands are cast.
struct StepAlternative {
  std::string id;
  std::string phrase;  ///< "operands are cast as recipe bf16"
  StepCall step;
};
std::vector<StepAlternative> step_alternatives(Backend& backend, const Call& call,
                                               const std::string& name);

/// The same with one operand not quantised, along the other axis or twice.  Takes what the casts
/// themselves throw.
std::vector<StepAlternative> cast_alternatives(Backend& backend, const Call& call,
                                               const std::string& name);

/// The same of a layer with router and exchange.
std::vector<StepCall> layer_steps(Backend& backend, const Call& call, const NamedTensors& expected,
                                  const std::string& name);

/// A row of a layer's experts: the slot that it is of.
struct LayerRow {
  Index rank = 0;
  Index token = 0;
  Index slot = -1;  ///< -1: padding
  float weight = 0.0f;
};
/// Of the rows of all ranks one behind the other.
std::vector<LayerRow> layer_rows(Backend& backend, const Call& call, const NamedTensors& expected);

/// An activation with its quantisation: what it makes, quantised.
std::vector<StepCall> fused_quantiser_steps(Backend& backend, const Call& call);

/// The cast of one operand of a recipe, without the operand; `down` along its rows.
Call cast_call(const LinearRecipe& recipe, LinearSide side, bool down);

/// Settings of how products are summed.
void copy_sums(const Call& from, Call& to);

/// The last two axes exchanged.
Tensor transposed(const Tensor& tensor);
/// Rows of matrices one behind the other.
Tensor stacked(const std::vector<Tensor>& parts);

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
