// Slots in aligned blocks, one at a time.
#include "ops/aligned_blocks.h"

#include "emu/reference/reference_backend.h"

namespace mxo {

void ReferenceBackend::run(const MoeAlignBlockSize& op) {
  const auto experts = op.experts.as<const std::int32_t, 2>();
  const auto map = op.expert_map.as<const std::int32_t, 1>();
  const auto ids = op.sorted_token_ids.as<std::int32_t, 1>();
  const auto blocks = op.expert_ids.as<std::int32_t, 1>();
  const auto ends = op.group_ends.as<std::int32_t, 1>();
  const Index k = experts.extent[1];
  const auto named = [&](std::int32_t e) { return e >= 0 && op.expert_map.given() ? map(e) : e; };
  for (Index i = 0; i < ids.extent[0]; ++i) {
    ids(i) = static_cast<std::int32_t>(experts.extent[0] * k);
  }
  Index row = 0;
  for (Index e = 0; e < ends.extent[0]; ++e) {
    const Index first = row;
    for (Index slot = 0; slot < experts.extent[0] * k; ++slot) {
      if (experts(slot / k, slot % k) == e) ids(row++) = static_cast<std::int32_t>(slot);
    }
    row = first + round_up(row - first, op.block);
    for (Index b = first / op.block; b < row / op.block; ++b) {
      blocks(b) = named(static_cast<std::int32_t>(e));
    }
    ends(e) = static_cast<std::int32_t>(row);
  }
  const bool any = ends.extent[0] > 0;  // there may be no experts
  for (Index b = row / op.block; b < blocks.extent[0]; ++b) {
    const auto unused = static_cast<std::int32_t>(op.unused);
    blocks(b) = any ? named(unused) : unused;
  }
  op.num_tokens_post_pad.as<std::int32_t, 1>()(0) = static_cast<std::int32_t>(row);
}

void ReferenceBackend::run(const BlocksToExperts& op) {
  const auto ids = op.sorted_token_ids.as<const std::int32_t, 1>();
  const auto blocks = op.expert_ids.as<const std::int32_t, 1>();
  const auto experts = op.experts.as<std::int32_t, 2>();
  const Index k = experts.extent[1];
  for (Index t = 0; t < experts.extent[0]; ++t) {
    for (Index s = 0; s < k; ++s) experts(t, s) = -1;
  }
  const std::int32_t rows = op.num_tokens_post_pad.as<const std::int32_t, 1>()(0);
  for (Index i = 0; i < rows; ++i) {
    if (ids(i) < op.experts.elements()) experts(ids(i) / k, ids(i) % k) = blocks(i / op.block);
  }
}

}  // namespace mxo
