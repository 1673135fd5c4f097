// Rows to the experts that were chosen for them, across ranks, and back; and the gradients.
//
// Every function is collective: all ranks of the communicator call it, each for its own tokens.
// Thread safety: each rank calls from its own thread (ops/communicator.h).
#pragma once

#include "ops/combine_rows.h"
#include "ops/expert_plan.h"
#include "ops/owned_scaled_tensor.h"
#include "ops/quantize.h"

namespace mxo {

/// What rows travel as.
enum class WirePrecision : std::uint8_t {
  bf16,
  mxfp8,          ///< codes and e8m0 scales of blocks of 32 along D, quantised before they leave
  fp8_blockwise,  ///< codes and f32 scales of blocks of 128 along D, as well
};

/// How rows reach their place: the same bytes either way.  Memory that is not the host's takes the
/// unfused way.
enum class Placement : std::uint8_t {
  fused,    ///< each row straight from where it lies to where it belongs
  unfused,  ///< permute, all_to_all, permute and pad: the definition
};

/// How rows are moved, forward or backward.
struct Wire {
  WirePrecision precision = WirePrecision::mxfp8;
  Dtype format = Dtype::e4m3;  ///< of codes
  ScaleRule rule{ScaleMode::rceil, kTorchao, kFlowBlockwise};
  Placement placement = Placement::fused;
};

/// Row plan.place[i] of the result is the i-th row received: x[t] of some token t of some rank.
///
///   x  without scales bf16, f16 or f32 [T, D], which bf16 rounds and the others quantise along D;
///   or codes
///      [T, D] with the scales of that precision, which travel as they are
///
///   weights  f32 [T, k], optional, with x only: what travels for slot s is bf16(fl(x[t] *
///            weights[t, s])), scores at the experts' input
///
/// The result has plan.rows rows [rows, D] in the precision of the wire, whichever of them hold
/// tokens; the others are zeros, bytes 00 of codes and scales.
/// Errors: Error(shape), Error(dtype); Error(argument) for codes on a bf16 wire or with weights.
/// Source: pytorch/ao 36027d8, a2a_dispatch_mxfp8_fwd_hp_bwd and permute_mxfp8_fwd_hp_bwd;
/// FP8-Flow-MoE, Megatron-LM fork e68853f1, for fp8_blockwise; torchtitan, score_before_experts,
/// and vLLM, apply_router_weight_on_input, whose weights are rounded to bf16 before, for weights.
OwnedScaledTensor dispatch(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                           const ScaledTensor& x, const Wire& wire, const Operand& weights = {});

/// What dispatch weighed rows with, for its gradient.
struct InputWeights {
  Operand x;        ///< bf16, f16 or f32 [T, D], needed for dweights only
  Operand weights;  ///< f32 [T, k]; absent, rows travelled as they are
  Result dweights;  ///< f32 [T, k], if asked for
};

/// dx[t] = sum over slots ascending of the gradients of the rows that x[t] became, f32, rounded to
/// the type of dx at the end.  High precision, whatever the forward pass sent.
///
/// Where rows were weighed: of fl(gradient * weights[t, s]); and dweights[t, s] = sum over d
/// ascending of fl(x[t, d] * gradient).
///
///   dy  bf16, f16 or f32 [plan.rows, D];  dx  bf16, f16 or f32 [T, D]
void dispatch_backward(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                       const Operand& dy, const Result& dx, const InputWeights& input = {});

/// The rows that dispatch quantises and sends, x[t] times the weights of its slots: bf16 [S, D]
/// in the order plan.slots names.
BackendTensor weighed_rows(Backend& backend, const ExpertPlan& plan, const Operand& x,
                           const Operand& weights);

/// out[t] = round(sum over slots s ascending of fl(row(t, s) * weights[t, s])): CombineRows of
/// what the experts made of the rows.  High precision.
///
///   y        bf16, f16 or f32 [plan.rows, D], rows where dispatch put them
///   weights  f32 [T, k]; absent, rows are added as they are
///   out      bf16, f16 or f32 [T, D];  steps as CombineRows
/// Returns the rows as they came back, [S, D] in the order plan.slots names: what the backward
/// pass needs for the gradients of the weights.
/// Source: pytorch/ao 36027d8, unpermute_hp_fwd_mxfp8_bwd and a2a_combine_hp_fwd_mxfp8_bwd;
/// Megatron-LM d98e8a64, unpermute, which adds f32 rows up where weights are f32.
BackendTensor combine(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                      const Operand& y, const Operand& weights, const Result& out,
                      CombineSteps steps = CombineSteps::f32);

/// Gradients of combine: drow = bf16(fl(dout[t] * weights[t, s])), sent as `wire` says, to where
/// the experts left their rows; dweights[t, s] = sum over d ascending of fl(dout * row).
///
///   returned  what combine returned; dout  bf16, f16 or f32 [T, D]
///   dweights  f32 [T, k], given exactly when weights is
OwnedScaledTensor combine_backward(Backend& backend, Communicator& communicator,
                                   const ExpertPlan& plan, const Operand& returned,
                                   const Operand& weights, const Operand& dout,
                                   const Result& dweights, const Wire& wire);

/// Row i of `sent` [S, W], any type, is the i-th row to travel (plan.slots says of which
/// selection) and becomes row plan.place of the result [plan.rows, W]; padding is zero.
BackendTensor dispatch_sent(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                            const Operand& sent, Placement placement);

/// Codes with their scales, or rows without, likewise.
OwnedScaledTensor dispatch_sent(Backend& backend, Communicator& communicator,
                                const ExpertPlan& plan, const ScaledTensor& sent,
                                Placement placement);

/// The way back: rows [plan.rows, W] to the ranks that sent them, [S, W].
BackendTensor return_sent(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
                          const Operand& rows);

/// Bytes that this rank sends to others for rows of width D on such a wire.
Index wire_bytes(const ExpertPlan& plan, int rank, Index width, const Wire& wire);

}  // namespace mxo
