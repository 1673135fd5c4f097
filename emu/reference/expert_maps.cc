// Maps of experts and masks, one slot at a time.
#include "ops/expert_maps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "emu/reference/reference_backend.h"

namespace mxo {
namespace {

/// A weight as it is; every NaN is the canonical one.
float canonical(float weight) { return std::isnan(weight) ? bit_cast<float>(0x7FC00000u) : weight; }

/// All slots, in the order in which they take their places.
std::vector<Index> slots_in_order(const MapExperts& op) {
  std::vector<Index> order(static_cast<std::size_t>(op.experts.elements()));
  std::iota(order.begin(), order.end(), Index{0});
  if (op.drop == CapacityDrop::position) return order;
  const auto weight = op.weights.as<const float, 2>();
  const Index k = weight.extent[1];
  std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) {
    const float a = weight(i / k, i % k);
    const float b = weight(j / k, j % k);
    return std::isnan(b) ? !std::isnan(a) : a > b;
  });
  return order;
}

}  // namespace

void ReferenceBackend::run(const MapExperts& op) {
  const auto experts = op.experts.as<const std::int32_t, 2>();
  const auto map = op.expert_map.as<const std::int32_t, 1>();
  const auto local = op.local.as<std::int32_t, 2>();
  const auto counts = op.tokens_per_expert.as<std::int32_t, 1>();
  for (Index e = 0; e < counts.extent[0]; ++e) counts(e) = 0;
  const Index k = experts.extent[1];
  for (const Index slot : slots_in_order(op)) {
    const std::int32_t given = experts(slot / k, slot % k);
    const std::int32_t e = given < 0 || !op.expert_map.given() ? given : map(given);
    const bool stays = e >= 0 && counts(e) < op.capacity;
    local(slot / k, slot % k) = stays ? e : -1;
    if (stays) ++counts(e);
  }
}

void ReferenceBackend::run(const MaskToExperts& op) {
  const auto mask = op.mask.as<const std::uint8_t, 2>();
  const auto probs = op.probs.as<const float, 2>();
  const auto experts = op.experts.as<std::int32_t, 2>();
  const auto weights = op.weights.as<float, 2>();
  for (Index t = 0; t < mask.extent[0]; ++t) {
    Index s = 0;
    for (Index e = 0; e < mask.extent[1]; ++e) {
      if (mask(t, e) == 0) continue;
      experts(t, s) = static_cast<std::int32_t>(e);
      if (op.probs.given()) weights(t, s) = canonical(probs(t, e));
      ++s;
    }
    for (; s < experts.extent[1]; ++s) {
      experts(t, s) = -1;
      if (op.probs.given()) weights(t, s) = 0.0f;
    }
  }
}

void ReferenceBackend::run(const ExpertsToMask& op) {
  const auto experts = op.experts.as<const std::int32_t, 2>();
  const auto weights = op.weights.as<const float, 2>();
  const auto mask = op.mask.as<std::uint8_t, 2>();
  const auto probs = op.probs.as<float, 2>();
  for (Index t = 0; t < mask.extent[0]; ++t) {
    for (Index e = 0; e < mask.extent[1]; ++e) {
      mask(t, e) = 0;
      if (op.probs.given()) probs(t, e) = 0.0f;
    }
    for (Index s = 0; s < experts.extent[1]; ++s) {
      if (experts(t, s) < 0) continue;
      mask(t, experts(t, s)) = 1;
      if (op.probs.given()) probs(t, experts(t, s)) = canonical(weights(t, s));
    }
  }
}

}  // namespace mxo
