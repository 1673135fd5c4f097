// The grouped products: sums of machines go to their models, the others to the fast products.
#include "ops/grouped_matmul.h"

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/gemm/multiply.h"
#include "emu/cpu/models/machine_product.h"

namespace mxo::cpu {

void CpuBackend::run(const GroupedMatmul& op) {
  if (is_machine(op.sum)) return run_machine_products(products_of(op), isa_, threads_);
  multiply(op, kernels_of(isa_), threads_);
}

void CpuBackend::run(const GroupedMatmulWgrad& op) {
  if (is_machine(op.sum)) return run_machine_products(products_of(op), isa_, threads_);
  multiply(op, kernels_of(isa_), threads_);
}

}  // namespace mxo::cpu
