// The grouped products: sums of machines go to their models, the others to the definition.
#include "ops/grouped_matmul.h"

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/models/machine_product.h"

namespace mxo::cpu {

void CpuBackend::run(const GroupedMatmul& op) {
  if (is_machine(op.sum)) return run_machine_products(products_of(op), isa_, threads_);
  ReferenceBackend::run(op);
}

void CpuBackend::run(const GroupedMatmulWgrad& op) {
  if (is_machine(op.sum)) return run_machine_products(products_of(op), isa_, threads_);
  ReferenceBackend::run(op);
}

}  // namespace mxo::cpu
