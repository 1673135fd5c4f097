// approximate over threads, where operands lie without gaps.
#include "emu/reference/approximate.h"

#include <algorithm>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"

namespace mxo::cpu {
namespace {

constexpr Index kThreadElements = 2048;  // below this a second thread costs more than it saves

template <typename Function>
void compute(Function function, const Approximate& op, Index n, int threads) {
  const auto* x = static_cast<const float*>(op.x.data);
  const auto* b = static_cast<const float*>(op.b.data);
  auto* y = static_cast<float*>(op.y.data);
#pragma omp parallel for num_threads(threads) schedule(static) firstprivate(ieee_thread)
  for (Index i = 0; i < n; ++i) {
    if constexpr (Function::kDivides) {
      y[i] = function(x[i], b[i]);
    } else {
      y[i] = function(x[i]);
    }
  }
}

}  // namespace

void CpuBackend::run(const Approximate& op) {
  const bool divides = op.function == ChipFunction::div_full;
  if (!op.x.contiguous() || !op.y.contiguous() || (divides && !op.b.contiguous())) {
    ReferenceBackend::run(op);
    return;
  }
  const Index n = op.x.elements();
  const auto team = static_cast<int>(std::clamp<Index>(n / kThreadElements, 1, threads()));
  visit_on_chip(op, [&](auto function) { compute(function, op, n, team); });
}

}  // namespace mxo::cpu
