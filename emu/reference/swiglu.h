// One row of swiglu, shared by the backends that run on a CPU.
#pragma once

#include "emu/reference/elementwise.h"
#include "emu/reference/gate_elements.h"
#include "ops/swiglu.h"

namespace mxo {

/// Element (r, at) of x.
template <typename T>
GateElement gate_element(const GateRule& gate, const Matrix<T>& x, Index r,
                         const HalvesColumns& at) {
  constexpr bool kF16Steps = std::is_same_v<std::remove_const_t<T>, F16>;
  return {gate, kF16Steps, to_float(x(r, at.a)), at.b < 0 ? 1.0f : to_float(x(r, at.b))};
}

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
      run([=, &gate = op.gate](Index r) {
        for (Index f = 0; f < y.extent[1]; ++f) {
          const HalvesColumns at = columns_of_halves(gate.halves, f, y.extent[1]);
          const float gated = gate_element(gate, x, r, at).gated();
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
        run([=, &gate = op.gate](Index r) {
          const Index width = dy.extent[1];
          float total = 0.0f;
          for (Index f = 0; f < width; ++f) {
            const HalvesColumns at = columns_of_halves(gate.halves, f, width);
            const GateElement element = gate_element(gate, x, r, at);
            const float d = to_float(dy(r, f));
            const SwigluGradient g = element.gradient(weighted ? d * probs(r) : d);
            dx(r, at.a) = rounded<D>(g.da);
            if (at.b >= 0) dx(r, at.b) = rounded<D>(g.db);
            if (weighted) total += element.gated() * d;
          }
          if (weighted) dprobs(r) = rounded<float>(total);
        });
      });
    });
  });
}

}  // namespace mxo
