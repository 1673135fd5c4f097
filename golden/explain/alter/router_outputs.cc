// What a router makes of its slots: weights and counts that are written in another way.
#include <algorithm>
#include <span>

#include "golden/explain/alter/alterations.h"

namespace mxo {
namespace {

bool reverse_weights(const Call&, NamedTensors& out) {
  Tensor& weights = out.at("weights");
  const Index k = weights.extent(1);
  float* at = weights.as<float>();
  for (Index i = 0; i < weights.elements(); i += k) std::reverse(at + i, at + i + k);
  return k > 1;
}

bool weigh_by_logits(const Call& call, NamedTensors& out) {
  Tensor& weights = out.at("weights");
  const Tensor& logits = call.input("logits");
  weights = with_values(weights, [&, chosen = out.at("experts").as<std::int32_t>()](Index i) {
    return wide_value(logits, i / weights.extent(1) * logits.extent(1) + chosen[i]);
  });
  return true;
}

bool count_first(const Call&, NamedTensors& out) {
  const Tensor& chosen = out.at("experts");
  auto* counts = out.at("tokens_per_expert").as<std::int32_t>();
  std::fill_n(counts, out.at("tokens_per_expert").elements(), 0);
  for (Index i = 0; i < chosen.elements(); i += chosen.extent(1))
    ++counts[chosen.as<std::int32_t>()[i]];
  return chosen.extent(1) > 1;
}

void divide_by_column_sums(Tensor& weights, float scale) {
  const Index k = weights.extent(1);
  auto* w = weights.as<float>();
  for (Index s = 0; s < k; ++s) {
    float sum = 0.0f;
    for (Index i = s; i < weights.elements(); i += k) sum += w[i];
    for (Index i = s; i < weights.elements(); i += k) w[i] = w[i] / sum * scale;
  }
}

constexpr Row<bool (*)(const Call&, NamedTensors&)> kWritten[] = {
    {"weights=reversed", "weights stand in the reverse order of slots", reverse_weights},
    {"weights=logits", "weights are the logits themselves", weigh_by_logits},
    {"counts=first", "only the first choice of every token is counted", count_first},
};

void add_counts(List& list, const char* id, std::string phrase, auto of) {
  add_rewritten(
      list, id, std::move(phrase),
      [of](const Call&, NamedTensors& out) {
        Tensor& counts = out.at("tokens_per_expert");
        for (std::int32_t& n : std::span(counts.as<std::int32_t>(), counts.bytes() / 4))
          n = static_cast<std::int32_t>(of(n));
      },
      Stage::rule);
}

}  // namespace

void add_written_slots(const Call& call, List& list) {
  for (const auto& row : kWritten) {
    add_rewritten(list, row.name, row.phrase, row.of, Stage::rule);
  }
  add_altered(
      list, "normalize=over_tokens",
      "weights are divided by the sum over all tokens rather than over the slots of one",
      [](Call& c) {
        if (!c.set.flag("normalize", true)) return false;
        c.set.set("normalize", "false");
        c.set.set("scale", "1");
        return true;
      },
      Stage::rule)
      .rewrite = [scale = static_cast<float>(call.set.real("scale", 1.0))](const Call&,
                                                                           NamedTensors& out) {
    divide_by_column_sums(out.at("weights"), scale);
    return true;
  };
  add_counts(list, "counts=twice", "tokens are counted twice", [](Index n) { return 2 * n; });
  for (const Index to : {4, 8, 16, 32, 64, 128, 256}) {
    add_counts(list, "counts=padded",
               filled("tokens_per_expert is rounded up to multiples of {}", to),
               [to](Index n) { return round_up(n, to); });
  }
}

}  // namespace mxo
