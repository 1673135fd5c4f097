// Maps between rows, slots, masks and groups: a few integers a token, made on the host.
#include "emu/cuda/host_copies.cuh"
#include "ops/aligned_blocks.h"
#include "ops/expert_maps.h"
#include "ops/row_maps.h"

namespace mxo::cuda {

void DeviceBackend::run(const RowsToGroups& op) {
  HostCopies host(*this);
  rows_to_groups(host.reference(), {host.of(op.m_indices), host.of(op.group_ends)});
  host.put_back();
}

void DeviceBackend::run(const GroupsToRows& op) {
  HostCopies host(*this);
  groups_to_rows(host.reference(),
                 {host.of(op.group_ends), host.of(op.counts), host.of(op.m_indices)});
  host.put_back();
}

void DeviceBackend::run(const MapExperts& op) {
  HostCopies host(*this);
  MapExperts copy = op;
  copy.experts = host.of(op.experts);
  copy.expert_map = host.of(op.expert_map);
  copy.weights = host.of(op.weights);
  copy.local = host.of(op.local);
  copy.tokens_per_expert = host.of(op.tokens_per_expert);
  map_experts(host.reference(), copy);
  host.put_back();
}

void DeviceBackend::run(const MaskToExperts& op) {
  HostCopies host(*this);
  mask_to_experts(host.reference(),
                  {host.of(op.mask), host.of(op.probs), host.of(op.experts), host.of(op.weights)});
  host.put_back();
}

void DeviceBackend::run(const ExpertsToMask& op) {
  HostCopies host(*this);
  experts_to_mask(host.reference(),
                  {host.of(op.experts), host.of(op.weights), host.of(op.mask), host.of(op.probs)});
  host.put_back();
}

void DeviceBackend::run(const MoeAlignBlockSize& op) {
  HostCopies host(*this);
  MoeAlignBlockSize copy = op;
  copy.experts = host.of(op.experts);
  copy.expert_map = host.of(op.expert_map);
  copy.sorted_token_ids = host.of(op.sorted_token_ids);
  copy.expert_ids = host.of(op.expert_ids);
  copy.num_tokens_post_pad = host.of(op.num_tokens_post_pad);
  copy.group_ends = host.of(op.group_ends);
  moe_align_block_size(host.reference(), copy);
  host.put_back();
}

void DeviceBackend::run(const BlocksToExperts& op) {
  HostCopies host(*this);
  BlocksToExperts copy = op;
  copy.sorted_token_ids = host.of(op.sorted_token_ids);
  copy.expert_ids = host.of(op.expert_ids);
  copy.num_tokens_post_pad = host.of(op.num_tokens_post_pad);
  copy.experts = host.of(op.experts);
  blocks_to_experts(host.reference(), copy);
  host.put_back();
}

}  // namespace mxo::cuda
