// One token of combine_rows, shared by the backends that run on a CPU.
#pragma once

#include <cmath>
#include <vector>

#include "emu/reference/elementwise.h"
#include "ops/combine_rows.h"

namespace mxo {

/// Calls run(token) with a function that does token t of the operator.  Slots are the outer loop:
/// columns are independent, so that the order of each sum stays and rows are read in one go.
template <typename Fn>
void visit_combine(const CombineRows& op, Fn&& run) {
  visit_wide_float(op.rows.dtype, [&](auto from) {
    visit_wide_float(op.out.dtype, [&](auto to) {
      using R = typename decltype(from)::type;
      using Y = typename decltype(to)::type;
      const auto rows = op.rows.as<const R, 2>();
      const auto slots = op.slots.as<const std::int32_t, 2>();
      const auto weights = op.weights.as<const float, 2>();
      const auto out = op.out.as<Y, 2>();
      const bool weighted = op.weights.given();
      const bool fused = op.steps == CombineSteps::fused;
      const bool narrow = op.steps == CombineSteps::bf16;
      using Narrow = std::conditional_t<std::is_same_v<R, F16>, F16, BF16>;
      const auto step = [narrow](float x) { return narrow ? to_float(from_float<Narrow>(x)) : x; };
      const auto add = [=](float acc, float x, float weight) {
        return fused ? std::fma(x, weight, acc) : step(acc + step(x * weight));
      };
      run([=](Index t) {
        constexpr Index kStrip = 256;
        for (Index first = 0; first < out.extent[1]; first += kStrip) {
          const Index past = first + kStrip < out.extent[1] ? first + kStrip : out.extent[1];
          float acc[kStrip] = {};
          for (Index s = 0; s < slots.extent[1]; ++s) {
            const Index row = slots(t, s);
            if (row < 0) continue;
            const float weight = weighted ? weights(t, s) : 1.0f;  // a product by 1 is exact
            for (Index d = first; d < past; ++d) {
              acc[d - first] = add(acc[d - first], to_float(rows(row, d)), weight);
            }
          }
          for (Index d = first; d < past; ++d) out(t, d) = rounded<Y>(acc[d - first]);
        }
      });
    });
  });
}

template <typename Fn>
void visit_combine_backward(const CombineRowsBackward& op, Fn&& run) {
  visit_wide_float(op.dweights.given() ? op.rows.dtype : Dtype::bf16, [&](auto from) {
    visit_wide_float(op.dout.dtype, [&](auto gradient) {
      visit_wide_float(op.drows.dtype, [&](auto to) {
        using D = typename decltype(to)::type;
        const auto rows = op.rows.as<const typename decltype(from)::type, 2>();
        const auto slots = op.slots.as<const std::int32_t, 2>();
        const auto weights = op.weights.as<const float, 2>();
        const auto dout = op.dout.as<const typename decltype(gradient)::type, 2>();
        const auto drows = op.drows.as<D, 2>();
        const auto dweights = op.dweights.as<float, 2>();
        const bool weighted = op.weights.given();
        const bool asked = op.dweights.given();
        run([=](Index t) {
          for (Index s = 0; s < slots.extent[1]; ++s) {
            const Index row = slots(t, s);
            float sum = 0.0f;
            for (Index d = 0; row >= 0 && d < dout.extent[1]; ++d) {
              const float g = to_float(dout(t, d));
              drows(row, d) = rounded<D>(weighted ? g * weights(t, s) : g);
              if (asked) sum += g * to_float(rows(row, d));
            }
            if (asked) dweights(t, s) = rounded<float>(sum);
          }
        });
      });
    });
  });
}

/// Zeros in the rows of drows that no slot names.
inline void clear_unnamed(const CombineRowsBackward& op) {
  const auto slots = op.slots.as<const std::int32_t, 2>();
  std::vector<bool> named(static_cast<std::size_t>(op.drows.extent[0]));
  for (Index t = 0; t < slots.extent[0]; ++t) {
    for (Index s = 0; s < slots.extent[1]; ++s) {
      if (slots(t, s) >= 0) named[static_cast<std::size_t>(slots(t, s))] = true;
    }
  }
  visit_wide_float(op.drows.dtype, [&](auto to) {
    using D = typename decltype(to)::type;
    const auto drows = op.drows.as<D, 2>();
    for (Index r = 0; r < drows.extent[0]; ++r) {
      if (named[static_cast<std::size_t>(r)]) continue;
      for (Index d = 0; d < drows.extent[1]; ++d) drows(r, d) = rounded<D>(0.0f);
    }
  });
}

}  // namespace mxo
