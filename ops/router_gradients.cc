// Checks of the router's gradients.
#include "ops/router_gradients.h"

#include "ops/checked.h"

namespace mxo {

void route_backward(Backend& backend, const RouteBackward& op) {
  const Check check("route_backward");
  check.rank("logits", op.logits, 2);
  check.dtype("logits", op.logits, {Dtype::f32, Dtype::bf16, Dtype::f16});
  check.rank("experts", op.experts, 2);
  check.dtype("experts", op.experts, {Dtype::i32});
  check.shape("experts", op.experts, {op.logits.extent[0], op.experts.extent[1]});
  check.dtype("dweights", op.dweights, {Dtype::f32});
  check.shape("dweights", op.dweights, {op.experts.extent[0], op.experts.extent[1]});
  check.dtype("dlogits", op.dlogits, {Dtype::f32});
  check.shape("dlogits", op.dlogits, {op.logits.extent[0], op.logits.extent[1]});
  if (backend.reads_host_memory()) {
    const auto experts = op.experts.as<const std::int32_t, 2>();
    for (Index t = 0; t < experts.extent[0]; ++t) {
      for (Index s = 0; s < experts.extent[1]; ++s) {
        check.that(experts(t, s) >= 0 && experts(t, s) < op.logits.extent[1],
                   "experts: entry (" + std::to_string(t) + ", " + std::to_string(s) + ") is " +
                       std::to_string(experts(t, s)) + ", needs one of " +
                       std::to_string(op.logits.extent[1]) + " experts");
      }
    }
  }
  check.apart("dlogits", op.dlogits, "logits", op.logits);
  check.apart("dlogits", op.dlogits, "experts", op.experts);
  check.apart("dlogits", op.dlogits, "dweights", op.dweights);
  Checked::run(backend, op);
}

void router_gradients(Backend& backend, const RouterGradients& op) {
  const Check check("router_gradients");
  check.rank("dlogits", op.dlogits, 2);
  check.dtype("dlogits", op.dlogits, {Dtype::f32});
  if (op.dx.given()) {
    check.dtype("router", op.router, {Dtype::bf16, Dtype::f32, Dtype::f16});
    check.rank("dx", op.dx, 2);
    check.dtype("dx", op.dx, {Dtype::f32});
    check.shape("router", op.router, {op.dlogits.extent[1], op.dx.extent[1]});
    check.shape("dx", op.dx, {op.dlogits.extent[0], op.dx.extent[1]});
    check.apart("dx", op.dx, "dlogits", op.dlogits);
    check.apart("dx", op.dx, "router", op.router);
  }
  if (op.drouter.given()) {
    check.dtype("x", op.x, {Dtype::bf16, Dtype::f32, Dtype::f16});
    check.rank("drouter", op.drouter, 2);
    check.dtype("drouter", op.drouter, {Dtype::f32});
    check.shape("x", op.x, {op.dlogits.extent[0], op.drouter.extent[1]});
    check.shape("drouter", op.drouter, {op.dlogits.extent[1], op.drouter.extent[1]});
    check.apart("drouter", op.drouter, "dlogits", op.dlogits);
    check.apart("drouter", op.drouter, "x", op.x);
  }
  if (op.dx.given() && op.drouter.given()) {
    check.apart("dx", op.dx, "x", op.x);
    check.apart("drouter", op.drouter, "router", op.router);
    check.apart("dx", op.dx, "drouter", op.drouter);
  }
  Checked::run(backend, op);
}

}  // namespace mxo
