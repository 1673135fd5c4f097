// What no operator is, but a step of a layer: a product, rounded, whose rows then get the bias [N],
// or that of their group [E, N], and are rounded again.
#pragma once

#include "golden/explain/case/call.h"

namespace mxo {

inline bool is_biased_product(const Call& call) {
  return call.op == "grouped_matmul" && call.has("bias");
}

/// Adds the bias of such a call to what its product gave.
void add_bias(const Call& call, Tensor& y);

}  // namespace mxo
