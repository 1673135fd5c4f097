// Views and rounding that every implementation of the elementwise operators shares.
#pragma once

#include <cmath>
#include <type_traits>

#include "formats/any_view.h"
#include "ops/elementwise.h"

namespace mxo {

/// A float as an element of type T; NaN becomes the canonical one, whatever sign and payload the
/// processor gave it.
template <typename T>
T rounded(float x) {
  if constexpr (std::is_same_v<T, float>) {
    return std::isnan(x) ? bit_cast<float>(0x7FC00000u) : x;
  } else {
    return from_float<T>(x);
  }
}

/// Without ends all rows are one group.
inline Index groups_of(const Operand& group_ends) {
  return group_ends.given() ? group_ends.extent[0] : 1;
}
inline Index end_of(const Operand& group_ends, Index g, Index rows) {
  return group_ends.given() ? group_ends.as<const std::int32_t, 1>()(g) : rows;
}

/// [N] as [1, N] whose one row stands for any, [E, N] as it is.
template <typename T, typename Void>
Matrix<T> as_rows(const AnyView<Void>& view) {
  if (view.rank == 2) return view.template as<T, 2>();
  return {static_cast<T*>(view.data), {1, view.extent[0]}, {0, view.stride[0]}};
}

struct RowRange {
  Index first;
  Index past;
};

/// The rows that row `s` of a column sum adds up.
inline RowRange rows_of_sum(const ColumnSum& op, Index s) {
  const Index rows = op.x.extent[0];
  const Index groups = groups_of(op.group_ends);
  if (op.sum.rank == 1) return {0, groups > 0 ? end_of(op.group_ends, groups - 1, rows) : 0};
  return {s > 0 ? end_of(op.group_ends, s - 1, rows) : 0, end_of(op.group_ends, s, rows)};
}

/// Calls fn(TypeTag<float>) or fn(TypeTag<BF16>).
template <typename Fn>
void visit_f32_or_bf16(Dtype dtype, Fn&& fn) {
  dtype == Dtype::f32 ? fn(TypeTag<float>{}) : fn(TypeTag<BF16>{});
}

/// Calls fn(y, bias, out) with typed matrices.
template <typename Fn>
void visit_addition(const AddBias& op, Fn&& fn) {
  visit_f32_or_bf16(op.y.dtype, [&](auto y) {
    visit_f32_or_bf16(op.bias.dtype, [&](auto bias) {
      visit_f32_or_bf16(op.out.dtype, [&](auto out) {
        fn(op.y.as<const typename decltype(y)::type, 2>(),
           as_rows<const typename decltype(bias)::type>(op.bias),
           op.out.as<typename decltype(out)::type, 2>());
      });
    });
  });
}

/// Calls fn(x, sum) with typed matrices.
template <typename Fn>
void visit_sum(const ColumnSum& op, Fn&& fn) {
  visit_f32_or_bf16(op.x.dtype, [&](auto x) {
    visit_f32_or_bf16(op.sum.dtype, [&](auto sum) {
      fn(op.x.as<const typename decltype(x)::type, 2>(),
         as_rows<typename decltype(sum)::type>(op.sum));
    });
  });
}

}  // namespace mxo
