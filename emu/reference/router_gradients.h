// One token, or one row of the gate's gradient, shared by the backends that run on a CPU.
#pragma once

#include <vector>

#include "emu/reference/elementwise.h"
#include "ops/router_gradients.h"

namespace mxo {

/// Writes dlogits[t, :]; `score` is room for the scores of one token.
void route_token_backward(const RouteBackward& op, Index t, std::vector<float>& score);

/// Calls run(token) with a function that writes dx[t, :].  Experts are the outer loop: the columns
/// are independent, so that the order of each sum stays.
template <typename Fn>
void visit_router_dx(const RouterGradients& op, Fn&& run) {
  visit_wide_float(op.router.dtype, [&](auto type) {
    const auto router = op.router.as<const typename decltype(type)::type, 2>();
    const auto dlogits = op.dlogits.as<const float, 2>();
    const auto dx = op.dx.as<float, 2>();
    run([=](Index t) {
      for (Index d = 0; d < dx.extent[1]; ++d) dx(t, d) = 0.0f;
      for (Index e = 0; e < dlogits.extent[1]; ++e) {
        for (Index d = 0; d < dx.extent[1]; ++d) dx(t, d) += dlogits(t, e) * to_float(router(e, d));
      }
      for (Index d = 0; d < dx.extent[1]; ++d) dx(t, d) = rounded<float>(dx(t, d));
    });
  });
}

/// Calls run(expert) with a function that writes drouter[e, :].
template <typename Fn>
void visit_router_dw(const RouterGradients& op, Fn&& run) {
  visit_wide_float(op.x.dtype, [&](auto type) {
    const auto x = op.x.as<const typename decltype(type)::type, 2>();
    const auto dlogits = op.dlogits.as<const float, 2>();
    const auto dw = op.drouter.as<float, 2>();
    run([=](Index e) {
      for (Index d = 0; d < dw.extent[1]; ++d) dw(e, d) = 0.0f;
      for (Index t = 0; t < dlogits.extent[0]; ++t) {
        for (Index d = 0; d < dw.extent[1]; ++d) dw(e, d) += dlogits(t, e) * to_float(x(t, d));
      }
      for (Index d = 0; d < dw.extent[1]; ++d) dw(e, d) = rounded<float>(dw(e, d));
    });
  });
}

}  // namespace mxo
