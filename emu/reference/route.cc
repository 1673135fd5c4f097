// route, one token after another.
#include "emu/reference/route.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "emu/reference/elementwise.h"
#include "emu/reference/reference_backend.h"
#include "formats/exp.h"
#include "formats/softplus.h"

namespace mxo {
namespace {

/// Larger first, the lower index first among equals, NaN last.
bool before(float a, float b, Index i, Index j) {
  const bool nan_a = std::isnan(a);
  const bool nan_b = std::isnan(b);
  if (nan_a || nan_b) return nan_a == nan_b ? i < j : nan_b;
  return a != b ? a > b : i < j;
}

/// The largest choice of a run, or the sum of its two largest; NaN counts as the smallest.
float group_score(const float* choice, Index count, GroupScore kind) {
  float first = -INFINITY;
  float second = -INFINITY;
  for (Index i = 0; i < count; ++i) {
    if (choice[i] > first) {
      second = first;
      first = choice[i];
    } else if (choice[i] > second) {
      second = choice[i];
    }
  }
  return count == 1 || kind == GroupScore::best ? first : first + second;
}

/// Puts the `count` best of `order` first, in order.
void take_best(std::vector<Index>& order, Index count, const std::vector<float>& value) {
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](Index i, Index j) {
    return before(value[static_cast<std::size_t>(i)], value[static_cast<std::size_t>(j)], i, j);
  });
}

/// The experts that may be chosen, ascending.
void admit(const Route& op, RouteScratch& s) {
  const auto experts = static_cast<Index>(s.choice.size());
  s.order.resize(static_cast<std::size_t>(experts));
  std::iota(s.order.begin(), s.order.end(), Index{0});
  if (op.limited_groups == op.groups) return;
  const Index run = experts / op.groups;
  s.group.resize(static_cast<std::size_t>(op.groups));
  for (Index g = 0; g < op.groups; ++g) {
    s.group[static_cast<std::size_t>(g)] =
        group_score(s.choice.data() + g * run, run, op.group_score);
  }
  std::vector<Index> runs(static_cast<std::size_t>(op.groups));
  std::iota(runs.begin(), runs.end(), Index{0});
  take_best(runs, op.limited_groups, s.group);
  if (op.other_groups == OtherGroups::zero) {
    for (Index g = op.limited_groups; g < op.groups; ++g) {
      std::fill_n(s.choice.begin() + runs[static_cast<std::size_t>(g)] * run, run, 0.0f);
    }
    return;
  }
  s.order.clear();
  for (Index g = 0; g < op.limited_groups; ++g) {
    for (Index i = 0; i < run; ++i) s.order.push_back(runs[static_cast<std::size_t>(g)] * run + i);
  }
}

}  // namespace

void softmax(std::vector<float>& values) {
  if (values.empty()) return;
  float top = values[0];
  for (const float value : values) top = value > top ? value : top;
  float sum = 0.0f;
  for (float& value : values) {
    value = exp_rn(value - top);
    sum += value;
  }
  for (float& value : values) value /= sum;
}

void score_token(const Operand& logits, RouterScore kind, Index t, std::vector<float>& score) {
  visit_wide_float(logits.dtype, [&](auto tag) {
    const auto logit = logits.as<const typename decltype(tag)::type, 2>();
    for (std::size_t e = 0; e < score.size(); ++e) {
      score[e] = to_float(logit(t, static_cast<Index>(e)));
    }
  });
  if (kind == RouterScore::sigmoid) {
    for (float& value : score) value = sigmoid_rn(value);
  } else if (kind == RouterScore::sqrtsoftplus) {
    for (float& value : score) value = std::sqrt(softplus_f32(value));
  } else if (kind == RouterScore::softmax) {
    softmax(score);
  }
}

void route_token(const Route& op, Index t, RouteScratch& s) {
  const Index experts = op.logits.extent[1];
  const Index k = op.experts.extent[1];
  s.score.resize(static_cast<std::size_t>(experts));
  score_token(op.logits, op.score, t, s.score);
  s.choice = s.score;
  if (op.bias.given()) {
    const auto bias = op.bias.as<const float, 1>();
    for (Index e = 0; e < experts; ++e) s.choice[static_cast<std::size_t>(e)] += bias(e);
  }
  admit(op, s);
  take_best(s.order, k, s.choice);

  const auto chosen = op.experts.as<std::int32_t, 2>();
  const auto weights = op.weights.as<float, 2>();
  s.slots.resize(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < s.slots.size(); ++i) {
    s.slots[i] = s.score[static_cast<std::size_t>(s.order[i])];
  }
  if (op.score == RouterScore::softmax_of_chosen) {
    softmax(s.slots);
  } else if (op.normalize) {
    float sum = 0.0f;
    for (const float value : s.slots) sum += value;
    for (float& value : s.slots) value /= sum + 1e-20f;
  }
  for (Index i = 0; i < k; ++i) {
    const auto slot = static_cast<std::size_t>(i);
    chosen(t, i) = static_cast<std::int32_t>(s.order[slot]);
    weights(t, i) = rounded<float>(s.slots[slot] * op.scale);
  }
}

void count_tokens(const Route& op) {
  const auto chosen = op.experts.as<std::int32_t, 2>();
  const auto counts = op.tokens_per_expert.as<std::int32_t, 1>();
  for (Index e = 0; e < counts.extent[0]; ++e) counts(e) = 0;
  for (Index t = 0; t < chosen.extent[0]; ++t) {
    for (Index i = 0; i < chosen.extent[1]; ++i) ++counts(chosen(t, i));
  }
}

void ReferenceBackend::run(const Route& op) {
  RouteScratch scratch;
  for (Index t = 0; t < op.logits.extent[0]; ++t) route_token(op, t, scratch);
  count_tokens(op);
}

}  // namespace mxo
