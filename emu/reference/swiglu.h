// One row of swiglu, shared by the backends that run on a CPU.
#pragma once

#include "emu/reference/elementwise.h"
#include "emu/reference/swiglu_elements.h"
#include "ops/swiglu.h"

namespace mxo {

/// Calls run(row) with a function that does row r of the operator.
template <typename Fn>
void visit_swiglu(const Swiglu& op, Fn&& run) {
  visit_wide_float(op.x.dtype, [&](auto from) {
    visit_wide_float(op.y.dtype, [&](auto to) {
      using Y = typename decltype(to)::type;
      const auto x = op.x.as<const typename decltype(from)::type, 2>();
      const auto y = op.y.as<Y, 2>();
      const auto probs = op.probs.as<const float, 1>();
      const bool weighted = op.probs.given();
      run([=](Index r) {
        for (Index f = 0; f < y.extent[1]; ++f) {
          const float gated = swiglu_gated(to_float(x(r, f)), to_float(x(r, y.extent[1] + f)));
          y(r, f) = rounded<Y>(weighted ? gated * probs(r) : gated);
        }
      });
    });
  });
}

template <typename Fn>
void visit_swiglu_backward(const SwigluBackward& op, Fn&& run) {
  visit_wide_float(op.x.dtype, [&](auto from) {
    visit_wide_float(op.dy.dtype, [&](auto gradient) {
      visit_wide_float(op.dx.dtype, [&](auto to) {
        using D = typename decltype(to)::type;
        const auto x = op.x.as<const typename decltype(from)::type, 2>();
        const auto dy = op.dy.as<const typename decltype(gradient)::type, 2>();
        const auto dx = op.dx.as<D, 2>();
        const auto probs = op.probs.as<const float, 1>();
        const auto dprobs = op.dprobs.as<float, 1>();
        const bool weighted = op.probs.given();
        run([=](Index r) {
          const Index width = dy.extent[1];
          float total = 0.0f;
          for (Index f = 0; f < width; ++f) {
            const float a = to_float(x(r, f));
            const float b = to_float(x(r, width + f));
            const float d = to_float(dy(r, f));
            const SwigluGradient g = swiglu_gradient(a, b, weighted ? d * probs(r) : d);
            dx(r, f) = rounded<D>(g.da);
            dx(r, width + f) = rounded<D>(g.db);
            if (weighted) total += swiglu_gated(a, b) * d;
          }
          if (weighted) dprobs(r) = rounded<float>(total);
        });
      });
    });
  });
}

}  // namespace mxo
