// Experts of tokens as other stacks name them: maps, capacities, masks.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <limits>

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// Which slots are kept where more of them name an expert than its capacity.
enum class CapacityDrop : std::uint8_t {
  position,  ///< the first, by token and then by slot
  weight,    ///< those of the largest weights, ties to the earlier, NaN last
};

/// local[t, s] = expert_map[experts[t, s]], without a map experts[t, s]; -1 stays -1.  Of an expert
/// that more than `capacity` slots name the others become -1.
///   tokens_per_expert[e] = how many slots of `local` name e
///
///   experts            i32 [T, k]  -1, or an expert
///   expert_map         i32 [G], optional: -1 (of another rank), or an expert below E
///   weights            f32 [T, k], given exactly where drop is weight
///   local              i32 [T, k]
///   tokens_per_expert  i32 [E]
///
/// T may be 0.  Errors, before any byte is written: Error(shape), also on an expert out of range;
/// Error(dtype); Error(argument) on a negative capacity.
/// Source: vLLM 00e6fb6d, expert_map; Megatron-Core, moe_expert_capacity_factor with drop policies
/// position and probs (the order of ties is ours).
struct MapExperts {
  Operand experts;
  Operand expert_map;
  Operand weights;
  Result local;
  Result tokens_per_expert;
  Index capacity = std::numeric_limits<Index>::max();
  CapacityDrop drop = CapacityDrop::position;
};

/// The experts of a routing mask, ascending; -1 and weight +0 in slots that are left.  A weight of
/// NaN is the canonical one.
///   mask     u8 [T, E]   0 or 1; at most k ones in a row
///   probs    f32 [T, E], optional
///   experts  i32 [T, k]
///   weights  f32 [T, k], given exactly when probs is
///
/// Errors, before any byte is written: Error(shape), also on a value of mask or a row of more than
/// k; Error(dtype).
/// Source: TransformerEngine and Megatron-Core, routing_map [tokens, experts].
struct MaskToExperts {
  Operand mask;
  Operand probs;
  Result experts;
  Result weights;
};

/// The inverse: mask[t, e] = 1 where a slot of t names e, probs[t, e] its weight, +0 elsewhere.
/// Operands and errors as MaskToExperts, Error(shape) also where a token names an expert twice.
struct ExpertsToMask {
  Operand experts;
  Operand weights;
  Result mask;
  Result probs;
};

void map_experts(Backend& backend, const MapExperts& op);
void mask_to_experts(Backend& backend, const MaskToExperts& op);
void experts_to_mask(Backend& backend, const ExpertsToMask& op);

}  // namespace mxo
