// What a layer of experts and its gradients refuse, before any step.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include "ops/moe_layer.h"

namespace mxo {

/// Throws as MoeLayer says, but for what its steps find of their own: routes, sums and counts.
void check_call(const MoeLayer& op, int ranks);

/// Throws as MoeLayerBackward says.
void check_gradients(const MoeLayer& call, const MoeLayerBackward& op);

}  // namespace mxo
