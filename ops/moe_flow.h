// The casting-free pipeline: activations are cast to FP8 twice a pass and move as codes between.
// Thread safety: each rank calls from its own thread (ops/communicator.h).
#pragma once

#include "ops/moe_layer.h"

namespace mxo {

/// h = u w1^T and act = Q(swiglu(h) [* weight]) in one pass, Q in 1x128 blocks.
void flow_activate(Backend& backend, const SavedMoeLayer& saved, BackendTensor& h,
                   OwnedScaledTensor& act);

/// out = act w2^T.
void flow_second(Backend& backend, const SavedMoeLayer& saved, const OwnedScaledTensor& act,
                 const Result& out);

/// The gradients of both, from the gradient of out as it came, codes and f32 scales:
///   dact = dy w2,  dh = Q(the gradient of swiglu),  du = dh w1
///   dw2 = T(dy)^T T(act),  dw1 = T(dh)^T T(u),  T = ScalingAwareTranspose
struct FlowBackward {
  const OwnedScaledTensor& dy;
  const BackendTensor& h;
  const OwnedScaledTensor& act;
  Result du;            ///< zeroed before
  Result drow_weights;  ///< f32 [rows], given exactly where rows have weights
  Result dw1;
  Result dw2;
};
void flow_backward(Backend& backend, const SavedMoeLayer& saved, const FlowBackward& op);

}  // namespace mxo
