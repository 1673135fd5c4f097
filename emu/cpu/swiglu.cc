// swiglu and swiglu_backward, rows over threads.
#include "emu/reference/swiglu.h"

#include "emu/cpu/cpu_backend.h"

namespace mxo::cpu {

void CpuBackend::run(const Swiglu& op) {
  visit_swiglu(op, [&](auto row) {
#pragma omp parallel for num_threads(threads_)
    for (Index r = 0; r < op.x.extent[0]; ++r) row(r);
  });
}

void CpuBackend::run(const SwigluBackward& op) {
  visit_swiglu_backward(op, [&](auto row) {
#pragma omp parallel for num_threads(threads_)
    for (Index r = 0; r < op.x.extent[0]; ++r) row(r);
  });
}

}  // namespace mxo::cpu
