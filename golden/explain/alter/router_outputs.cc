// What a router makes of its slots: weights and counts that are written in another way.
#include <limits>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"

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

bool weigh_by_slot(const Call& call, NamedTensors& out) {
  const Index experts = call.input("logits").extent(1);
  out.at("weights") = read_by_expert(out.at("weights"), out.at("experts"), experts, experts);
  return true;
}

/// A list of each expert, or of each token and expert, with zeros for experts up to `padded`.
Tensor with_zeros(const Tensor& given, Index padded) {
  std::vector<Index> shape = given.shape();
  const Index experts = std::exchange(shape.back(), padded);
  std::vector<Index> sources = range_of(given.elements() / experts * padded);
  for (Index& i : sources) i = i % padded < experts ? i / padded * experts + i % padded : -1;
  return elements_from(given, sources, std::move(shape));
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
    {"weights=by_slot",
     "slot s holds the weight of expert s, and 0 where its token did not choose that",
     weigh_by_slot},
    {"counts=first", "only the first choice of every token is counted", count_first},
};

/// Softmax of the logits of the chosen groups alone.
NamedTensors mask_first(Backend& backend, const Call& call) {
  const Tensor& given = call.input("logits");
  const Index experts = given.extent(1);
  const Index groups = call.set.integer("groups", 1);
  const Index kept = experts / groups * call.set.integer("limited_groups", groups);
  Call all = call;
  all.set.set("top_k", std::to_string(kept));
  const NamedTensors out = run_call(backend, all);
  Tensor logits = with_values(Tensor(Dtype::f32, given.shape()),
                              [](Index) { return -std::numeric_limits<float>::infinity(); });
  for (Index i = 0; i < given.extent(0) * kept; ++i) {
    const Index at = i / kept * experts + out.at("experts").as<std::int32_t>()[i];
    logits.as<float>()[at] = wide_value(given, at);
  }
  Call masked = call;
  masked.replace("logits", std::move(logits));
  return run_call(backend, masked);
}

void add_counts(List& list, const char* id, std::string phrase, auto of) {
  add_rewritten(list, id, std::move(phrase), [of](const Call&, NamedTensors& out) {
    Tensor& counts = out.at("tokens_per_expert");
    counts = with_integers(counts, [&](Index n, Index) { return of(n); });
  }).stage = Stage::rule;
}

}  // namespace

Tensor read_by_expert(const Tensor& weights, const Tensor& experts, Index n, Index stride) {
  const Index slots = experts.extent(1);
  const std::span chosen(experts.as<std::int32_t>(), static_cast<std::size_t>(experts.elements()));
  return with_values(weights, [&](Index i) {
    const Index at = stride * (i / slots) + i % slots;
    const Index expert = nth(chosen, i) / n * n + at % n;
    for (Index own = at / n * slots; own < at / n * slots + slots && own < std::ssize(chosen);
         ++own)
      if (nth(chosen, own) == expert) return weights.as<float>()[own];
    return 0.0f;
  });
}

void add_written_slots(const Call& call, List& list) {
  for (const auto& row : kWritten) add_rewritten(list, row.name, row.phrase, row.of, Stage::rule);
  const Index experts = call.input("logits").extent(1);
  for (const Index to : {8, 16, 32, 64, 128}) {
    const Index padded = round_up(experts, to);
    if (padded >= experts + to / 2 || padded == experts || call.set.integer("groups", 1) > 1)
      continue;
    add_altered(
        list, "logits=padded",
        filled("logits are padded with 0 to {} experts, and those beyond {} are chosen, too",
               padded, experts - 1),
        [=](Call& c) {
          for (const char* name : {"logits", "bias"})
            if (c.has(name)) c.replace(name, with_zeros(c.input(name), padded));
        },
        Stage::rule)
        .rewrite = [experts](const Call&, NamedTensors& out) {
      Tensor& counts = out.at("tokens_per_expert");
      counts = gathered(counts, 0, range_of(experts));
      return true;
    };
  }
  // A bias would be all that the choices of other groups have.
  if (call.set.has("groups") && !call.has("bias") &&
      call.set.text("score", "softmax") == "softmax" &&
      call.set.text("other_groups", "excluded") == "excluded")
    add_run(list, "groups=masked_first",
            "softmax is taken over the chosen groups alone, masked before it", mask_first);
  const auto scale = static_cast<float>(call.set.real("scale", 1.0));
  const auto as_scores = [](Call& c) {
    if (!c.set.flag("normalize", true)) return false;
    c.set.set("normalize", "false");
    c.set.set("scale", "1");
    return true;
  };
  add_altered(list, "normalize=over_tokens",
              "weights are divided by the sum over all tokens rather than over the slots of one",
              as_scores, Stage::rule)
      .rewrite = [scale](const Call&, NamedTensors& out) {
    divide_by_column_sums(out.at("weights"), scale);
    return true;
  };
  // Either alone may be farther from it than what is expected: no pair begins with one.
  if (scale != 1.0f && call.set.text("score", "softmax") != "softmax_of_chosen")
    add_altered(
        list, "weights=raw",
        filled("weights are scores as they are, neither divided by their sum nor multiplied by {}",
               call.set.text("scale", "")),
        as_scores, Stage::rule);
  add_counts(list, "counts=twice", "tokens are counted twice", [](Index n) { return 2 * n; });
  add_counts(list, "counts=bf16", "tokens_per_expert is rounded to bf16",
             [](Index n) { return by_bf16(static_cast<float>(n)); });
  for (const Index to : {4, 8, 16, 32, 64, 128, 256})
    add_counts(list, "counts=padded",
               filled("tokens_per_expert is rounded up to multiples of {}", to),
               [to](Index n) { return round_up(n, to); });
}

}  // namespace mxo
