// The router's gradients, tokens and experts over threads, rows through the kernels.
#include "emu/reference/router_gradients.h"

#include <algorithm>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/ieee_thread.h"

namespace mxo::cpu {
namespace {

constexpr Index kStrip = 1024;  // sums that stay in L1

const std::byte* element(const Operand& matrix, Index r, Index k) {
  return static_cast<const std::byte*>(matrix.data) +
         (r * matrix.stride[0] + k) * static_cast<Index>(size_of(matrix.dtype));
}

/// out[first .. past) += sum over i ascending of fl(rows[i, :] * factor(r, i)), +0 at the start;
/// every NaN the canonical one.  Strips go outside, so that `rows` is read while it is cached.
template <typename Factor>
void sum_rows(const FloatKernels& kernels, const Operand& rows, const Result& out, Index first,
              Index past, Factor factor) {
  const auto add = kernels.add_scaled[float_index(rows.dtype)];
  const auto sums = out.as<float, 2>();
  for (Index k = 0; k < sums.extent[1]; k += kStrip) {
    const Index n = std::min(kStrip, sums.extent[1] - k);
    for (Index r = first; r < past; ++r) std::fill_n(&sums(r, k), n, 0.0f);
    for (Index i = 0; i < rows.extent[0]; ++i) {
      for (Index r = first; r < past; ++r) add(element(rows, i, k), n, factor(r, i), &sums(r, k));
    }
    for (Index r = first; r < past; ++r) kernels.scale[0][0](&sums(r, k), n, 1.0f, &sums(r, k));
  }
}

}  // namespace

void CpuBackend::run(const RouteBackward& op) {
#pragma omp parallel num_threads(threads_) firstprivate(ieee_thread)
  {
    std::vector<float> score;
#pragma omp for
    for (Index t = 0; t < op.logits.extent[0]; ++t) route_token_backward(op, t, score);
  }
}

void CpuBackend::run(const RouterGradients& op) {
  const FloatKernels& kernels = float_kernels(isa());
  const auto dlogits = op.dlogits.as<const float, 2>();
  constexpr Index kRows = 8;  // whose sums stay cached together
  const auto by_kernels = [](const Operand& rows, const Result& out) {
    return out.stride[1] == 1 && rows.stride[1] == 1 && rows.dtype != Dtype::f16;
  };
  if (op.dx.given() && by_kernels(op.router, op.dx)) {
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
    for (Index t = 0; t < op.dx.extent[0]; t += kRows) {
      sum_rows(kernels, op.router, op.dx, t, std::min(t + kRows, op.dx.extent[0]),
               [&](Index r, Index e) { return dlogits(r, e); });
    }
  } else if (op.dx.given()) {
    visit_router_dx(op, [&](auto token) { share_steps(op.dx.extent[0], threads_, token); });
  }
  if (op.drouter.given() && by_kernels(op.x, op.drouter)) {
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
    for (Index e = 0; e < op.drouter.extent[0]; e += kRows) {
      sum_rows(kernels, op.x, op.drouter, e, std::min(e + kRows, op.drouter.extent[0]),
               [&](Index r, Index t) { return dlogits(t, r); });
    }
  } else if (op.drouter.given()) {
    visit_router_dw(op, [&](auto expert) { share_steps(op.drouter.extent[0], threads_, expert); });
  }
}

}  // namespace mxo::cpu
