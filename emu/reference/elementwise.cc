// cast, add_bias and column_sum, one element at a time.
#include "emu/reference/elementwise.h"

#include "emu/reference/elements.h"
#include "emu/reference/reference_backend.h"
#include "ops/elementwise.h"

namespace mxo {

void ReferenceBackend::run(const Cast& op) {
  visit_wide_float(op.x.dtype, [&](auto from) {
    using From = typename decltype(from)::type;
    visit_wide_float(op.y.dtype, [&](auto to) {
      using To = typename decltype(to)::type;
      const auto* x = static_cast<const From*>(op.x.data);
      auto* y = static_cast<To*>(op.y.data);
      const Index n = op.x.elements();
      for (Index i = 0; i < n; ++i) {
        y[offset_of(op.y, i)] = rounded<To>(to_float(x[offset_of(op.x, i)]));
      }
    });
  });
}

void ReferenceBackend::run(const AddBias& op) {
  visit_addition(op, [&](const auto& y, const auto& bias, const auto& out) {
    using Out = std::remove_reference_t<decltype(out(0, 0))>;
    Index row = 0;
    for (Index g = 0; g < groups_of(op.group_ends); ++g) {
      const Index end = end_of(op.group_ends, g, y.extent[0]);
      for (; row < end; ++row) {
        for (Index n = 0; n < y.extent[1]; ++n) {
          out(row, n) = rounded<Out>(to_float(y(row, n)) + to_float(bias(g, n)));
        }
      }
    }
  });
}

void ReferenceBackend::run(const ColumnSum& op) {
  visit_sum(op, [&](const auto& x, const auto& sum) {
    using Sum = std::remove_reference_t<decltype(sum(0, 0))>;
    for (Index s = 0; s < sum.extent[0]; ++s) {
      const RowRange rows = rows_of_sum(op, s);
      for (Index n = 0; n < x.extent[1]; ++n) {
        float total = 0.0f;
        for (Index row = rows.first; row < rows.past; ++row) total += to_float(x(row, n));
        sum(s, n) = rounded<Sum>(total);
      }
    }
  });
}

}  // namespace mxo
