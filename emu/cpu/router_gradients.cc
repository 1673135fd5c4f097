// The router's gradients, tokens and experts over threads.
#include "emu/reference/router_gradients.h"

#include "emu/cpu/cpu_backend.h"

namespace mxo::cpu {

void CpuBackend::run(const RouteBackward& op) {
#pragma omp parallel num_threads(threads_)
  {
    std::vector<float> score;
#pragma omp for
    for (Index t = 0; t < op.logits.extent[0]; ++t) route_token_backward(op, t, score);
  }
}

void CpuBackend::run(const RouterGradients& op) {
  if (op.dx.given()) {
    visit_router_dx(op, [&](auto token) {
#pragma omp parallel for num_threads(threads_)
      for (Index t = 0; t < op.dx.extent[0]; ++t) token(t);
    });
  }
  if (op.drouter.given()) {
    visit_router_dw(op, [&](auto expert) {
#pragma omp parallel for num_threads(threads_)
      for (Index e = 0; e < op.drouter.extent[0]; ++e) expert(e);
    });
  }
}

}  // namespace mxo::cpu
