// What an expert's gate computes, as data: what each stack does between its two products.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <cmath>
#include <limits>

#include "formats/host_device.h"
#include "formats/tensor_view.h"

namespace mxo {

class Check;

/// act(a), the left factor, and its derivative.  Every step is one f32 rounding; sigma, erf, tanh
/// and exp are correctly rounded; c = 0.044715, as a float.
enum class Activation : std::uint8_t {
  /// a * sigma(alpha * a);  s * (1 + (alpha * a) * (1 - s)), s that sigma
  silu,
  /// (a * 0.5) * (1 + erf(a * sqrt(1/2)));
  /// (1 + erf(a * sqrt(1/2))) * 0.5 + a * (exp((-0.5 * a) * a) * (1 / sqrt(2 pi)))
  gelu,
  /// (a * 0.5) * (1 + t), t = tanh(sqrt(2/pi) * (a + c * ((a * a) * a)));
  /// 0.5 * (1 + t) + ((0.5 * a) * (1 - t * t)) * (sqrt(2/pi) * (1 + (3 * c) * (a * a)))
  gelu_tanh,
  relu_squared,  ///< r * r;  2 * r, r = 0 where a < 0, else a, also -0
};

/// Where a and b lie in a row of x.
enum class Halves : std::uint8_t {
  gate_first,   ///< a[f] = x[f], b[f] = x[F + f]
  up_first,     ///< b[f] = x[f], a[f] = x[F + f]
  interleaved,  ///< a[f] = x[2 f], b[f] = x[2 f + 1]
  gate_only,    ///< a[f] = x[f], and no b: nothing is multiplied
};

/// Which steps before the result are rounded to bf16, as eager bf16 code rounds them; of an f16 x
/// to f16, as the same code in f16 does.
enum class Bf16Steps : std::uint8_t {
  none,
  activation,  ///< act(a)
  every,       ///< alpha * a and sigma where alpha is not 1, act(a), b + up_offset, their product
};

/// Where silu's exponential and its division come from.
enum class GateArithmetic : std::uint8_t {
  rounded,               ///< sigma correctly rounded
  triton_sm90,           ///< a * tl.sigmoid(alpha * a) as Triton compiles it for an H100 or H200
  triton_sm90_quotient,  ///< a / (1 + tl.exp(-(alpha * a))), likewise
};

/// silu of a half by the other half, unless a stack says otherwise.
struct GateRule {
  Activation activation = Activation::silu;
  Halves halves = Halves::gate_first;
  Bf16Steps bf16_steps = Bf16Steps::none;
  float alpha = 1.0f;                                    ///< of silu only
  float limit = std::numeric_limits<float>::infinity();  ///< a <= limit, -limit <= b <= limit
  float up_offset = 0.0f;                                ///< is added to b
  GateArithmetic arithmetic = GateArithmetic::rounded;   ///< of silu, forward

  friend bool operator==(const GateRule&, const GateRule&) = default;
  /// True where only the halves differ from silu(a) * b of two halves.
  MXO_HD bool plain() const {
    return activation == Activation::silu && halves != Halves::gate_only &&
           bf16_steps == Bf16Steps::none && alpha == 1.0f && std::isinf(limit) &&
           up_offset == 0.0f && arithmetic == GateArithmetic::rounded;
  }
};

/// Columns of x for every column of y.
inline Index halves_of(const GateRule& gate) { return gate.halves == Halves::gate_only ? 1 : 2; }

/// Throws Error(argument): alpha, limit or up_offset is no number, alpha or a machine's arithmetic
/// without silu, an offset without b, a limit that is not positive.
void check_gate(const Check& check, const GateRule& gate);
/// Throws Error(argument): a machine's arithmetic, which is known of forward only.
void check_gradients_gate(const Check& check, const GateRule& gate);

}  // namespace mxo
