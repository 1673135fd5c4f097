// Checks of slots in aligned blocks.
#include "ops/aligned_blocks.h"

#include <vector>

#include "ops/slot_checks.h"

namespace mxo {
namespace {

void check_block(const Check& check, Index block) {
  if (block >= 1 && block <= kMostSlots) return;
  check.fail(Fault::argument, "block: found " + std::to_string(block) + ", needs 1 to 2147483647");
}

/// Rows that aligned blocks take.
Index aligned_rows(const MoeAlignBlockSize& op) {
  const auto expert = op.experts.as<const std::int32_t, 2>();
  std::vector<Index> slots(static_cast<std::size_t>(op.group_ends.extent[0]));
  for (Index t = 0; t < expert.extent[0]; ++t) {
    for (Index s = 0; s < expert.extent[1]; ++s) {
      if (expert(t, s) >= 0) ++slots[static_cast<std::size_t>(expert(t, s))];
    }
  }
  Index rows = 0;
  for (const Index n : slots) rows += round_up(n, op.block);
  return rows;
}

void check_blocks(const Check& check, const BlocksToExperts& op) {
  const auto ids = op.sorted_token_ids.as<const std::int32_t, 1>();
  const Index slots = op.experts.elements();
  const std::int32_t rows = op.num_tokens_post_pad.as<const std::int32_t, 1>()(0);
  const bool fits = rows >= 0 && rows <= ids.extent[0] && rows % op.block == 0;
  check.that(fits, "num_tokens_post_pad: found " + std::to_string(rows) + ", needs a multiple of " +
                       std::to_string(op.block) + " up to " + std::to_string(ids.extent[0]));
  std::vector<bool> named(static_cast<std::size_t>(slots));
  for (Index i = 0; i < rows; ++i) {
    if (ids(i) == slots) continue;
    const std::string found =
        "sorted_token_ids: entry " + std::to_string(i) + " is " + std::to_string(ids(i));
    check.that(ids(i) >= 0 && ids(i) < slots,
               found + ", needs a slot below " + std::to_string(slots) + ", or that for padding");
    check.that(!named[static_cast<std::size_t>(ids(i))],
               found + ", a slot named before; needs distinct slots");
    named[static_cast<std::size_t>(ids(i))] = true;
  }
}

}  // namespace

void moe_align_block_size(Backend& backend, const MoeAlignBlockSize& op) {
  const Check check("moe_align_block_size");
  check_block(check, op.block);
  if (op.unused != 0 && op.unused != -1) {
    check.fail(Fault::argument, "unused: found " + std::to_string(op.unused) + ", needs 0 or -1");
  }
  check_slots(check, "experts", op.experts);
  check.that(op.experts.elements() < kMostSlots, "experts: needs fewer than 2147483647 entries");
  check.rank("group_ends", op.group_ends, 1);
  const Index experts = op.group_ends.extent[0];
  check_vector(check, "group_ends", op.group_ends, experts);
  check.rank("sorted_token_ids", op.sorted_token_ids, 1);
  const Index length = op.sorted_token_ids.extent[0];
  check_vector(check, "sorted_token_ids", op.sorted_token_ids, length);
  check_vector(check, "expert_ids", op.expert_ids, ceil_div(length, op.block));
  check_vector(check, "num_tokens_post_pad", op.num_tokens_post_pad, 1);
  if (op.expert_map.given()) {
    check.dtype("expert_map", op.expert_map, {Dtype::i32});
    check.shape("expert_map", op.expert_map, {experts});
  }
  if (backend.reads_host_memory()) {
    check_experts(check, op.experts, experts);
    if (op.expert_map.given()) check_map(check, op.expert_map, kMostSlots);
    const Index rows = aligned_rows(op);
    check.that(rows <= length && rows <= kMostSlots, "length: found " + std::to_string(length) +
                                                         ", needs at least " +
                                                         std::to_string(rows) + ", in 32 bits");
  }
  check_apart(check,
              {{"sorted_token_ids", op.sorted_token_ids},
               {"expert_ids", op.expert_ids},
               {"num_tokens_post_pad", op.num_tokens_post_pad},
               {"group_ends", op.group_ends}},
              {{"experts", op.experts}, {"expert_map", op.expert_map}});
  Checked::run(backend, op);
}

void blocks_to_experts(Backend& backend, const BlocksToExperts& op) {
  const Check check("blocks_to_experts");
  check_block(check, op.block);
  check_slots(check, "experts", op.experts);
  check.that(op.experts.elements() < kMostSlots, "experts: needs fewer than 2147483647 entries");
  check.rank("sorted_token_ids", op.sorted_token_ids, 1);
  check.dtype("sorted_token_ids", op.sorted_token_ids, {Dtype::i32});
  check.dtype("expert_ids", op.expert_ids, {Dtype::i32});
  check.shape("expert_ids", op.expert_ids, {ceil_div(op.sorted_token_ids.extent[0], op.block)});
  check.dtype("num_tokens_post_pad", op.num_tokens_post_pad, {Dtype::i32});
  check.shape("num_tokens_post_pad", op.num_tokens_post_pad, {1});
  if (backend.reads_host_memory()) check_blocks(check, op);
  check_apart(check, {{"experts", op.experts}},
              {{"sorted_token_ids", op.sorted_token_ids},
               {"expert_ids", op.expert_ids},
               {"num_tokens_post_pad", op.num_tokens_post_pad}});
  Checked::run(backend, op);
}

}  // namespace mxo
