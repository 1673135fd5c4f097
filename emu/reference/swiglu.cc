// swiglu and swiglu_backward, one row after another.
#include "emu/reference/swiglu.h"

#include "emu/reference/reference_backend.h"

namespace mxo {

void ReferenceBackend::run(const Swiglu& op) {
  visit_swiglu(op, [&](auto row) {
    for (Index r = 0; r < op.x.extent[0]; ++r) row(r);
  });
}

void ReferenceBackend::run(const SwigluBackward& op) {
  visit_swiglu_backward(op, [&](auto row) {
    for (Index r = 0; r < op.x.extent[0]; ++r) row(r);
  });
}

}  // namespace mxo
