// Slots by expert in blocks, as vLLM and SGLang have them, and back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// Slots sorted by expert, every expert's padded to blocks.  With n[e] slots that name e and
/// group_ends[e] = sum over f <= e of n[f] rounded up to B:
///   sorted_token_ids[group_ends[e-1] + i] = t k + s of the i-th slot of e, by t and then s;
///   T k in the rest
///   expert_ids[b] = the expert of rows b B .., of those past the last group `unused`; both through
///   expert_map, which keeps -1
///   num_tokens_post_pad[0] = group_ends[E-1]
/// Slots of -1 are in no block.
///
///   experts              i32 [T, k]  -1, or an expert below E
///   expert_map           i32 [E], optional: -1 or more
///   sorted_token_ids     i32 [L], L at least group_ends[E-1]
///   expert_ids           i32 [ceil(L / B)]
///   num_tokens_post_pad  i32 [1]
///   group_ends           i32 [E]
///
/// Errors, before any byte is written: Error(shape), also on an expert out of range or a short L;
/// Error(dtype); Error(argument) if `block` is not positive or `unused` is neither 0 nor -1.
/// Source: vLLM 00e6fb6d and SGLang, moe_align_block_size (their order inside an expert is free).
struct MoeAlignBlockSize {
  Operand experts;
  Operand expert_map;
  Result sorted_token_ids;
  Result expert_ids;
  Result num_tokens_post_pad;
  Result group_ends;
  Index block = 1;
  Index unused = 0;
};

/// The experts of aligned blocks: experts[t, s] = expert_ids[i / B] where
/// sorted_token_ids[i] = t k + s and i < num_tokens_post_pad[0]; -1 for slots in no block.
///
///   sorted_token_ids, expert_ids, num_tokens_post_pad as MoeAlignBlockSize;  experts  i32 [T, k]
///
/// Errors, before any byte is written: Error(shape), also on a slot out of range or named twice and
/// a number of tokens that is no multiple of B or past L; Error(dtype); Error(argument).
struct BlocksToExperts {
  Operand sorted_token_ids;
  Operand expert_ids;
  Operand num_tokens_post_pad;
  Result experts;
  Index block = 1;
};

void moe_align_block_size(Backend& backend, const MoeAlignBlockSize& op);
void blocks_to_experts(Backend& backend, const BlocksToExperts& op);

}  // namespace mxo
