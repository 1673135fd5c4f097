// One element of swiglu and of its gradients, shared by host and device.
#pragma once

#include "formats/exp.h"

namespace mxo {

/// One element of Swiglu before the probability.
MXO_HD inline float swiglu_gated(float a, float b) { return (a * sigmoid_rn(a)) * b; }

/// One element of SwigluBackward: the gradients of a and of b.
struct SwigluGradient {
  float da;
  float db;
};
MXO_HD inline SwigluGradient swiglu_gradient(float a, float b, float g) {
  const float s = sigmoid_rn(a);
  const float dsilu = s * (1.0f + a * (1.0f - s));
  return {(g * dsilu) * b, g * (a * s)};
}

}  // namespace mxo
