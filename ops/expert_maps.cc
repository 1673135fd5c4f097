// Checks of maps of experts and of masks.
#include "ops/expert_maps.h"

#include <vector>

#include "ops/slot_checks.h"

namespace mxo {
namespace {

/// Weights beside what they weigh, both or neither.
template <typename A, typename B>
void check_weights(const Check& check, std::string_view in, const AnyView<A>& read,
                   std::initializer_list<Index> read_shape, std::string_view out,
                   const AnyView<B>& written, std::initializer_list<Index> written_shape) {
  check.that(read.given() == written.given(),
             std::string(out) + ": needs to be given exactly when " + std::string(in) + " is");
  if (!read.given()) return;
  check.dtype(in, read, {Dtype::f32});
  check.shape(in, read, read_shape);
  check.dtype(out, written, {Dtype::f32});
  check.shape(out, written, written_shape);
}

void check_mask(const Check& check, const MaskToExperts& op) {
  const auto mask = op.mask.as<const std::uint8_t, 2>();
  for (Index t = 0; t < mask.extent[0]; ++t) {
    Index ones = 0;
    for (Index e = 0; e < mask.extent[1]; ++e) {
      if (mask(t, e) > 1) check.that(false, entry("mask", t, e, mask(t, e)) + ", needs 0 or 1");
      ones += mask(t, e);
    }
    if (ones <= op.experts.extent[1]) continue;
    check.that(false, "mask: row " + std::to_string(t) + " has " + std::to_string(ones) +
                          " ones, needs at most " + std::to_string(op.experts.extent[1]));
  }
}

void check_distinct(const Check& check, const Operand& operand, Index experts) {
  const auto expert = operand.as<const std::int32_t, 2>();
  std::vector<Index> seen(static_cast<std::size_t>(experts), -1);  // the last token that named it
  for (Index t = 0; t < expert.extent[0]; ++t) {
    for (Index s = 0; s < expert.extent[1]; ++s) {
      if (expert(t, s) < 0) continue;
      Index& last = seen[static_cast<std::size_t>(expert(t, s))];
      if (last == t) {
        check.that(false, entry("experts", t, s, expert(t, s)) +
                              ", named before; needs distinct experts of a token");
      }
      last = t;
    }
  }
}

}  // namespace

void map_experts(Backend& backend, const MapExperts& op) {
  const Check check("map_experts");
  check_slots(check, "experts", op.experts);
  check_slots(check, "local", op.local);
  check.shape("local", op.local, {op.experts.extent[0], op.experts.extent[1]});
  check.rank("tokens_per_expert", op.tokens_per_expert, 1);
  const Index experts = op.tokens_per_expert.extent[0];
  check_vector(check, "tokens_per_expert", op.tokens_per_expert, experts);
  check.that(op.experts.elements() <= kMostSlots, "experts: needs at most 2147483647 entries");
  if (op.capacity < 0) {
    check.fail(Fault::argument,
               "capacity: found " + std::to_string(op.capacity) + ", needs no negative number");
  }
  const bool weighed = op.drop == CapacityDrop::weight;
  check.that(weighed == op.weights.given(),
             "weights: needs to be given exactly when drop is weight");
  if (weighed) {
    check.dtype("weights", op.weights, {Dtype::f32});
    check.shape("weights", op.weights, {op.experts.extent[0], op.experts.extent[1]});
  }
  if (op.expert_map.given()) {
    check.rank("expert_map", op.expert_map, 1);
    check.dtype("expert_map", op.expert_map, {Dtype::i32});
  }
  if (backend.reads_host_memory()) {
    if (op.expert_map.given()) check_map(check, op.expert_map, experts);
    check_experts(check, op.experts, op.expert_map.given() ? op.expert_map.extent[0] : experts);
  }
  check_apart(check, {{"local", op.local}, {"tokens_per_expert", op.tokens_per_expert}},
              {{"experts", op.experts}, {"expert_map", op.expert_map}, {"weights", op.weights}});
  Checked::run(backend, op);
}

void mask_to_experts(Backend& backend, const MaskToExperts& op) {
  const Check check("mask_to_experts");
  check.rank("mask", op.mask, 2);
  check.dtype("mask", op.mask, {Dtype::u8});
  const Index tokens = op.mask.extent[0];
  check_slots(check, "experts", op.experts);
  const Index k = op.experts.extent[1];
  check.shape("experts", op.experts, {tokens, k});
  check_weights(check, "probs", op.probs, {tokens, op.mask.extent[1]}, "weights", op.weights,
                {tokens, k});
  if (backend.reads_host_memory()) check_mask(check, op);
  check_apart(check, {{"experts", op.experts}, {"weights", op.weights}},
              {{"mask", op.mask}, {"probs", op.probs}});
  Checked::run(backend, op);
}

void experts_to_mask(Backend& backend, const ExpertsToMask& op) {
  const Check check("experts_to_mask");
  check_slots(check, "experts", op.experts);
  const Index tokens = op.experts.extent[0];
  check.rank("mask", op.mask, 2);
  check.dtype("mask", op.mask, {Dtype::u8});
  const Index experts = op.mask.extent[1];
  check.shape("mask", op.mask, {tokens, experts});
  check_weights(check, "weights", op.weights, {tokens, op.experts.extent[1]}, "probs", op.probs,
                {tokens, experts});
  if (backend.reads_host_memory()) {
    check_experts(check, op.experts, experts);
    check_distinct(check, op.experts, experts);
  }
  check_apart(check, {{"mask", op.mask}, {"probs", op.probs}},
              {{"experts", op.experts}, {"weights", op.weights}});
  Checked::run(backend, op);
}

}  // namespace mxo
