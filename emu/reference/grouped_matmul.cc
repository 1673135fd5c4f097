// The grouped products, one output at a time.
#include "ops/grouped_matmul.h"

#include "emu/reference/dot.h"
#include "emu/reference/machine_product.h"
#include "emu/reference/reference_backend.h"

namespace mxo {
namespace {

void multiply(const std::vector<ContractionView>& products) {
  for (const ContractionView& product : products) {
    if (is_machine(product.sum)) {
      run_each({&product, 1});
      continue;
    }
    for (Index i = 0; i < product.a.rows; ++i) {
      for (Index j = 0; j < product.b.rows; ++j) write_dot(product, i, j);
    }
  }
}

}  // namespace

void ReferenceBackend::run(const GroupedMatmul& op) { multiply(products_of(op)); }

void ReferenceBackend::run(const GroupedMatmulWgrad& op) { multiply(products_of(op)); }

}  // namespace mxo
