// Checks of swiglu_quantize and swiglu_quantize_backward.
#include "ops/swiglu_quantize.h"

#include "ops/checked.h"

namespace mxo {
namespace {

/// Returns F.
Index check_input(const Check& check, const Operand& x, const Operand& probs, Dtype rounding,
                  const GateRule& gate) {
  check_gate(check, gate);
  check.rank("x", x, 2);
  check.dtype("x", x, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.multiple("x", "the number of columns, 2F,", x.extent[1], halves_of(gate));
  if (probs.given()) {
    check.dtype("probs", probs, {Dtype::f32});
    check.shape("probs", probs, {x.extent[0]});
  }
  Operand rounded;
  rounded.dtype = rounding;
  check.dtype("rounding", rounded, {Dtype::f32, Dtype::bf16, Dtype::f16});
  return x.extent[1] / halves_of(gate);
}

/// What Quantize asks, of a matrix that is not there yet.
template <typename Op>
void check_second_step(const Check& check, const Backend& backend, const Op& op, Index columns) {
  check.that(op.to.storage == ScaleStorage::row_major, "scales: found blocked, needs row-major");
  check_quantize(
      check, backend,
      {placeholder_matrix(op.rounding, op.x.extent[0], columns), op.group_ends, op.to, op.rule});
}

/// No result shares bytes with what is read.
void check_apart(const Check& check, const ScaledResult& to, const Result& dprobs,
                 std::initializer_list<std::pair<std::string_view, Operand>> reads) {
  for (const auto& [name, read] : reads) {
    if (!read.given()) continue;
    check.apart("codes", to.codes, name, read);
    check.apart("scales", to.scales, name, read);
    if (dprobs.given()) check.apart("dprobs", dprobs, name, read);
  }
  if (!dprobs.given()) return;
  check.apart("dprobs", dprobs, "codes", to.codes);
  check.apart("dprobs", dprobs, "scales", to.scales);
}

}  // namespace

void swiglu_quantize(Backend& backend, const SwigluQuantize& op) {
  const Check check("swiglu_quantize");
  const Index f = check_input(check, op.x, op.probs, op.rounding, op.gate);
  check_second_step(check, backend, op, f);
  check_apart(check, op.to, {}, {{"x", op.x}, {"probs", op.probs}});
  SwigluQuantize asked = op;
  asked.rule = rule_for(op.rule, op.rounding, op.to.codes.dtype);
  Checked::run(backend, asked);
}

void swiglu_quantize_backward(Backend& backend, const SwigluQuantizeBackward& op) {
  const Check check("swiglu_quantize_backward");
  const Index f = check_input(check, op.x, op.probs, op.rounding, op.gate);
  check_gradients_gate(check, op.gate);
  check.dtype("dy", op.dy, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.shape("dy", op.dy, {op.x.extent[0], f});
  check_second_step(check, backend, op, op.x.extent[1]);
  check.that(op.probs.given() == op.dprobs.given(),
             "dprobs: needs to be given exactly when probs is");
  if (op.dprobs.given()) {
    check.dtype("dprobs", op.dprobs, {Dtype::f32});
    check.shape("dprobs", op.dprobs, {op.x.extent[0]});
  }
  check_apart(check, op.to, op.dprobs, {{"x", op.x}, {"probs", op.probs}, {"dy", op.dy}});
  SwigluQuantizeBackward asked = op;
  asked.rule = rule_for(op.rule, op.rounding, op.to.codes.dtype);
  Checked::run(backend, asked);
}

}  // namespace mxo
