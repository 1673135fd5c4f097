// Checks of combine_rows and its gradients.
#include "ops/combine_rows.h"

#include <vector>

#include "ops/checked.h"

namespace mxo {
namespace {

void check_slots(const Check& check, const Backend& backend, const Operand& slots, Index rows,
                 bool distinct) {
  check.rank("slots", slots, 2);
  check.dtype("slots", slots, {Dtype::i32});
  if (!backend.reads_host_memory()) return;
  const auto slot = slots.as<const std::int32_t, 2>();
  std::vector<bool> named(distinct ? static_cast<std::size_t>(rows) : 0);
  for (Index t = 0; t < slots.extent[0]; ++t) {
    for (Index s = 0; s < slots.extent[1]; ++s) {
      const std::int32_t row = slot(t, s);
      if (row == -1) continue;
      const auto where = [&] {
        return "slots: entry (" + std::to_string(t) + ", " + std::to_string(s) + ") is " +
               std::to_string(row);
      };
      if (row < 0 || row >= rows) {
        check.that(false, where() + ", needs -1 or a row below " + std::to_string(rows));
      }
      if (!distinct) continue;
      const auto at = static_cast<std::size_t>(row);
      if (named[at]) check.that(false, where() + ", a row named before; needs distinct rows");
      named[at] = true;
    }
  }
}

void check_weights(const Check& check, const Operand& weights, const Operand& slots) {
  if (!weights.given()) return;
  check.dtype("weights", weights, {Dtype::f32});
  check.shape("weights", weights, {slots.extent[0], slots.extent[1]});
}

}  // namespace

CombineSteps combine_steps_named(std::string_view name) {
  if (name == "fused") return CombineSteps::fused;
  return name == "bf16" ? CombineSteps::bf16 : CombineSteps::f32;
}

void combine_rows(Backend& backend, const CombineRows& op) {
  const Check check("combine_rows");
  check.rank("rows", op.rows, 2);
  check.dtype("rows", op.rows, {Dtype::bf16, Dtype::f32, Dtype::f16});
  check_slots(check, backend, op.slots, op.rows.extent[0], false);
  check_weights(check, op.weights, op.slots);
  check.dtype("out", op.out, {Dtype::bf16, Dtype::f32, Dtype::f16});
  check.shape("out", op.out, {op.slots.extent[0], op.rows.extent[1]});
  check.apart("out", op.out, "rows", op.rows);
  check.apart("out", op.out, "slots", op.slots);
  if (op.weights.given()) check.apart("out", op.out, "weights", op.weights);
  Checked::run(backend, op);
}

void combine_rows_backward(Backend& backend, const CombineRowsBackward& op) {
  const Check check("combine_rows_backward");
  check.rank("drows", op.drows, 2);
  check.dtype("drows", op.drows, {Dtype::bf16, Dtype::f32, Dtype::f16});
  check_slots(check, backend, op.slots, op.drows.extent[0], true);
  check_weights(check, op.weights, op.slots);
  check.dtype("dout", op.dout, {Dtype::bf16, Dtype::f32, Dtype::f16});
  check.shape("dout", op.dout, {op.slots.extent[0], op.drows.extent[1]});
  check.apart("drows", op.drows, "dout", op.dout);
  check.apart("drows", op.drows, "slots", op.slots);
  check.that(op.weights.given() || !op.dweights.given(), "dweights: found without weights");
  if (op.weights.given()) check.apart("drows", op.drows, "weights", op.weights);
  if (op.dweights.given()) {
    check.dtype("rows", op.rows, {Dtype::bf16, Dtype::f32, Dtype::f16});
    check.shape("rows", op.rows, {op.drows.extent[0], op.drows.extent[1]});
    check.dtype("dweights", op.dweights, {Dtype::f32});
    check.shape("dweights", op.dweights, {op.slots.extent[0], op.slots.extent[1]});
    check.apart("drows", op.drows, "rows", op.rows);
    check.apart("dweights", op.dweights, "rows", op.rows);
    check.apart("dweights", op.dweights, "slots", op.slots);
    check.apart("dweights", op.dweights, "dout", op.dout);
    check.apart("dweights", op.dweights, "weights", op.weights);
    check.apart("dweights", op.dweights, "drows", op.drows);
  }
  Checked::run(backend, op);
}

}  // namespace mxo
