// route, tokens over threads.
#include "emu/reference/route.h"

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"

namespace mxo::cpu {

void CpuBackend::run(const Route& op) {
#pragma omp parallel num_threads(threads_) firstprivate(ieee_thread)
  {
    RouteScratch scratch;
#pragma omp for
    for (Index t = 0; t < op.logits.extent[0]; ++t) route_token(op, t, scratch);
  }
  count_tokens(op);
}

}  // namespace mxo::cpu
