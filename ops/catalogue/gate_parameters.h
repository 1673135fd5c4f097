// The `--set` keys of a gate.
#pragma once

#include <span>

#include "ops/gate_rule.h"
#include "ops/parameters.h"

namespace mxo {

/// Reads activation, halves, bf16_steps, alpha, limit, up_offset and arithmetic.  Throws
/// Error(argument).
GateRule gate_of(const Parameters& set);

inline constexpr ParameterSpec kActivationParameter{
    "activation", "silu|gelu|gelu_tanh|relu_squared", "of the gate"};
inline constexpr ParameterSpec kHalvesParameter{
    "halves", "gate_first|up_first|interleaved|gate_only", "order of gate and up in a row of x"};
inline constexpr ParameterSpec kStepsParameter{
    "bf16_steps", "none|activation|every",
    "steps that are rounded to bf16 (to f16 if x is f16) before the result"};
inline constexpr ParameterSpec kAlphaParameter{"alpha", "1", "of silu: a * sigma(alpha * a)"};
inline constexpr ParameterSpec kLimitParameter{
    "limit", "", "bound of gate, and of up on both sides; default: none"};
inline constexpr ParameterSpec kOffsetParameter{"up_offset", "0", "added to up"};
inline constexpr ParameterSpec kArithmeticParameter{
    "arithmetic", "rounded|triton_sm90|triton_sm90_quotient",
    "silu with a correctly rounded sigma, or Triton's a * sigmoid(a) or a / (1 + exp(-a)) on "
    "Hopper"};

/// The parameters of gradients: those of forward without the last, which is kArithmeticParameter.
template <std::size_t N>
constexpr std::span<const ParameterSpec> without_arithmetic(const ParameterSpec (&set)[N]) {
  return std::span(set).first(N - 1);
}

}  // namespace mxo
