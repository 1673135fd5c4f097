// Checks of delayed_scale.
#include "ops/delayed_scale.h"

#include "ops/checked.h"

namespace mxo {

void delayed_scale(Backend& backend, const DelayedScale& op) {
  const Check check("delayed_scale");
  if (op.x.given()) check.dtype("x", op.x, {Dtype::f32, Dtype::bf16, Dtype::f16});
  Operand format;
  format.dtype = op.format;
  check.dtype("format", format, {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz});
  check.dtype("history", op.history, {Dtype::f32});
  check.rank("history", op.history, 1);
  const Index length = op.history.extent[0];
  check.that(length > 0, "history: found no element, needs one");
  check.dtype("scale", op.scale, {Dtype::f32});
  check.shape("scale", op.scale, {1});
  check.dtype("next_history", op.next_history, {Dtype::f32});
  check.shape("next_history", op.next_history, {length});
  check.dtype("next_scale", op.next_scale, {Dtype::f32});
  check.shape("next_scale", op.next_scale, {1});
  for (const auto& [name, result] :
       {std::pair{"next_history", &op.next_history}, std::pair{"next_scale", &op.next_scale}}) {
    if (op.x.given()) check.apart(name, *result, "x", op.x);
    check.apart(name, *result, "history", op.history);
    check.apart(name, *result, "scale", op.scale);
  }
  check.apart("next_scale", op.next_scale, "next_history", op.next_history);
  Checked::run(backend, op);
}

}  // namespace mxo
