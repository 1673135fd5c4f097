// One element of a gate and of its gradients, whatever the gate, shared by host and device.
#pragma once

#include <cmath>

#include "emu/reference/swiglu_elements.h"
#include "formats/approximate.h"
#include "formats/erf.h"
#include "formats/minifloat.h"
#include "ops/gate_rule.h"

namespace mxo {

/// The columns of x that hold a and b of column f of y; b is -1 where there is none.
struct HalvesColumns {
  Index a;
  Index b;
};
MXO_HD inline HalvesColumns columns_of_halves(Halves halves, Index f, Index width) {
  switch (halves) {
    case Halves::gate_first: return {f, width + f};
    case Halves::up_first: return {width + f, f};
    case Halves::interleaved: return {2 * f, 2 * f + 1};
    case Halves::gate_only: break;
  }
  return {f, -1};
}

/// One element of Swiglu and SwigluBackward under any gate; a and b as they lie in x.
class GateElement {
 public:
  MXO_HD GateElement(const GateRule& gate, bool of_f16, float a, float b)
      : gate_(gate),
        half_(of_f16),
        a_(a > gate.limit ? gate.limit : a),
        b_(b > gate.limit    ? gate.limit
           : b < -gate.limit ? -gate.limit
                             : b),
        a_moves_(std::isinf(gate.limit) || a <= gate.limit),
        b_moves_(std::isinf(gate.limit) || (b >= -gate.limit && b <= gate.limit)) {
    if (gate.up_offset != 0.0f) b_ = every(b_ + gate.up_offset);  // -0 stays -0 without one
    act_ = either(activation());
  }

  /// y before the probability.
  MXO_HD float gated() const { return single() ? act_ : every(act_ * b_); }

  /// The gradients of x for `g`, the gradient of what gated() is.
  MXO_HD SwigluGradient gradient(float g) const {
    const float da = single() ? of_activation(g) : of_product(g);
    return {a_moves_ ? da : 0.0f, b_moves_ ? g * act_ : 0.0f};
  }

 private:
  /// A step in 16 bits.
  MXO_HD float narrow(float x) const {
    return half_ ? decode(encode<kF16>(x)) : decode(encode<kBF16>(x));
  }
  MXO_HD float every(float x) const { return gate_.bf16_steps == Bf16Steps::every ? narrow(x) : x; }
  MXO_HD float either(float x) const { return gate_.bf16_steps == Bf16Steps::none ? x : narrow(x); }
  MXO_HD bool single() const { return gate_.halves == Halves::gate_only; }
  /// sigma is a step of its own: x * sigmoid(alpha * x), where silu(x) is one.
  MXO_HD bool scaled() const { return gate_.alpha != 1.0f; }
  MXO_HD float angle() const { return scaled() ? every(gate_.alpha * a_) : a_; }
  MXO_HD float sigma() const {
    const bool rounded = gate_.arithmetic == GateArithmetic::rounded;
    const float s = rounded ? sigmoid_rn(angle()) : div_full(1.0f, divisor());
    return scaled() ? every(s) : s;
  }

  /// 1 + exp(-angle) by Triton 3.6 for sm_90: tl.exp(x) is ex2.approx of x log2(e), a / b div.full.
  MXO_HD float divisor() const { return 1.0f + ex2_approx(-angle() * kLog2E); }

  static constexpr float kLog2E = 0x1.715476p+0f;
  static constexpr float kRootHalf = 0.70710678118654752440f;       // sqrt(1/2)
  static constexpr float kRootTwoOverPi = 0.79788456080286535588f;  // sqrt(2/pi)
  static constexpr float kDensity = 0.39894228040143267794f;        // 1 / sqrt(2 pi)
  static constexpr float kCube = 0.044715f;

  MXO_HD float tanh_inner() const {
    const float cube = (a_ * a_) * a_;
    const float inner = kRootTwoOverPi * (a_ + kCube * cube);
    return tanh_rn(inner);
  }

  MXO_HD float activation() const {
    switch (gate_.activation) {
      case Activation::silu:
        if (gate_.arithmetic == GateArithmetic::triton_sm90_quotient) {
          return div_full(a_, divisor());
        }
        return a_ * sigma();
      case Activation::gelu: return (a_ * 0.5f) * (1.0f + erf_rn(a_ * kRootHalf));
      case Activation::gelu_tanh: return (0.5f * a_) * (1.0f + tanh_inner());
      case Activation::relu_squared: break;
    }
    const float r = a_ < 0.0f ? 0.0f : a_;
    return r * r;
  }

  /// d act / d a.
  MXO_HD float slope() const {
    switch (gate_.activation) {
      case Activation::silu: {
        const float s = sigma();
        return s * (1.0f + angle() * (1.0f - s));
      }
      case Activation::gelu: {
        const float half = 0.5f * (1.0f + erf_rn(a_ * kRootHalf));
        const float density = exp_rn((-0.5f * a_) * a_) * kDensity;
        return half + a_ * density;
      }
      case Activation::gelu_tanh: {
        const float t = tanh_inner();
        const float inner = kRootTwoOverPi * (1.0f + (3.0f * kCube) * (a_ * a_));
        const float right = ((0.5f * a_) * (1.0f - t * t)) * inner;
        return 0.5f * (1.0f + t) + right;
      }
      case Activation::relu_squared: break;
    }
    return 2.0f * (a_ < 0.0f ? 0.0f : a_);
  }

  MXO_HD float of_product(float g) const {
    if (gate_.bf16_steps == Bf16Steps::none) return (g * slope()) * b_;
    return of_activation(narrow(g * b_));
  }
  /// The gradient of a for h, that of act(a).
  MXO_HD float of_activation(float h) const {
    if (gate_.bf16_steps == Bf16Steps::none || gate_.activation != Activation::silu) {
      return h * slope();
    }
    const float s = sigma();
    if (gate_.bf16_steps != Bf16Steps::every || !scaled()) {
      return (h * s) * (1.0f + angle() * (1.0f - s));
    }
    const float direct = narrow(h * s);
    const float of_sigma = narrow((narrow(h * a_) * (1.0f - s)) * s);
    return direct + narrow(of_sigma * gate_.alpha);
  }

  const GateRule& gate_;
  bool half_;  ///< steps are rounded to f16
  float a_;
  float b_;
  float act_ = 0.0f;
  bool a_moves_;  ///< false where the limit clamps a: its gradient is +0
  bool b_moves_;
};

}  // namespace mxo
