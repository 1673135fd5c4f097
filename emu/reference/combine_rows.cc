// combine_rows and its gradients, one token after another.
#include "emu/reference/combine_rows.h"

#include "emu/reference/reference_backend.h"

namespace mxo {

void ReferenceBackend::run(const CombineRows& op) {
  visit_combine(op, [&](auto token) {
    for (Index t = 0; t < op.out.extent[0]; ++t) token(t);
  });
}

void ReferenceBackend::run(const CombineRowsBackward& op) {
  clear_unnamed(op);
  visit_combine_backward(op, [&](auto token) {
    for (Index t = 0; t < op.dout.extent[0]; ++t) token(t);
  });
}

}  // namespace mxo
