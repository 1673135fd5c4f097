// cast, add_bias and column_sum, threaded over rows or columns.
#include <algorithm>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/reference/elementwise.h"

namespace mxo::cpu {
namespace {

/// Below it a second thread costs more than it saves.
constexpr Index kThreadElements = Index{32} << 10;
/// Columns whose sums stay in the first cache while rows stream by.
constexpr Index kSumColumns = 256;

int useful_threads(Index elements, int threads) {
  return static_cast<int>(std::clamp<Index>(elements / kThreadElements, 1, threads));
}

template <typename From, typename To>
void cast_all(const From* x, To* y, Index n, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < n; ++i) y[i] = rounded<To>(to_float(x[i]));
}

/// out = y + bias over the rows of one group.
template <typename Y, typename Bias, typename Out>
void add_row(const Matrix<const Y>& y, const Matrix<const Bias>& bias, Index b,
             const Matrix<Out>& out, RowRange rows, int threads) {
  const Index columns = y.extent[1];
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(ieee_thread)
  for (Index row = rows.first; row < rows.past; ++row) {
    for (Index n = 0; n < columns; ++n) {
      out(row, n) = rounded<Out>(to_float(y(row, n)) + to_float(bias(b, n)));
    }
  }
}

/// sum[s, columns] over `rows`; each column is its own chain, rows ascending.
template <typename X, typename Sum>
void sum_columns(const Matrix<const X>& x, RowRange rows, const Matrix<Sum>& sum, Index s,
                 Index first, Index past) {
  float total[kSumColumns] = {};
  const Index n = past - first;
  for (Index row = rows.first; row < rows.past; ++row) {
    const X* in = &x(row, first);
    if (x.stride[1] == 1) {
      for (Index i = 0; i < n; ++i) total[i] += to_float(in[i]);
    } else {
      for (Index i = 0; i < n; ++i) total[i] += to_float(in[i * x.stride[1]]);
    }
  }
  for (Index i = 0; i < n; ++i) sum(s, first + i) = rounded<Sum>(total[i]);
}

template <typename X, typename Sum>
void sum_all_columns(const ColumnSum& op, const X& x, const Sum& sum, int workers) {
  const Index tiles = ceil_div(x.extent[1], kSumColumns);
#pragma omp parallel for num_threads(workers) collapse(2) schedule(dynamic) \
    firstprivate(ieee_thread)
  for (Index s = 0; s < sum.extent[0]; ++s) {
    for (Index tile = 0; tile < tiles; ++tile) {
      sum_columns(x, rows_of_sum(op, s), sum, s, tile * kSumColumns,
                  std::min((tile + 1) * kSumColumns, x.extent[1]));
    }
  }
}

}  // namespace

void CpuBackend::run(const Cast& op) {
  if (!op.x.contiguous() || !op.y.contiguous()) {
    ReferenceBackend::run(op);
    return;
  }
  const Index n = op.x.elements();
  visit_wide_float(op.x.dtype, [&](auto from) {
    visit_wide_float(op.y.dtype, [&](auto to) {
      cast_all(static_cast<const typename decltype(from)::type*>(op.x.data),
               static_cast<typename decltype(to)::type*>(op.y.data), n,
               useful_threads(n, threads()));
    });
  });
}

void CpuBackend::run(const AddBias& op) {
  visit_addition(op, [&](const auto& y, const auto& bias, const auto& out) {
    RowRange rows{0, 0};
    for (Index g = 0; g < groups_of(op.group_ends); ++g) {
      rows = {rows.past, end_of(op.group_ends, g, y.extent[0])};
      add_row(y, bias, op.bias.rank == 1 ? 0 : g, out, rows,
              useful_threads((rows.past - rows.first) * y.extent[1], threads()));
    }
  });
}

void CpuBackend::run(const ColumnSum& op) {
  visit_sum(op, [&](const auto& x, const auto& sum) {
    sum_all_columns(op, x, sum, useful_threads(x.extent[0] * x.extent[1], threads()));
  });
}

}  // namespace mxo::cpu
