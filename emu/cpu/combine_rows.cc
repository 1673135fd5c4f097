// combine_rows and its gradients, tokens over threads.
#include "emu/reference/combine_rows.h"

#include "emu/cpu/cpu_backend.h"

namespace mxo::cpu {

void CpuBackend::run(const CombineRows& op) {
  visit_combine(op, [&](auto token) {
#pragma omp parallel for num_threads(threads_)
    for (Index t = 0; t < op.out.extent[0]; ++t) token(t);
  });
}

void CpuBackend::run(const CombineRowsBackward& op) {
  clear_unnamed(op);
  visit_combine_backward(op, [&](auto token) {
#pragma omp parallel for num_threads(threads_)
    for (Index t = 0; t < op.dout.extent[0]; ++t) token(t);
  });
}

}  // namespace mxo::cpu
