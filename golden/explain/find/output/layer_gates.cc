// A layer whose y alone is known: other activations, of all experts or of some, and other sums.
#include <cstring>
#include <map>
#include <memory>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/find/output/expert_rows.h"

namespace mxo {
namespace {

std::optional<NamedTensors> outputs_of(Backend& backend, Call call, const Hypothesis& h) {
  return h.alter(call) ? outputs_under(backend, call, {&h}) : std::nullopt;
}

/// Experts of a layer whose activations may be others: "rank0." has its activation and the product
/// that follows.
struct Gated {
  std::map<std::string, Call> gates;
  std::map<std::string, Call> products;
  Call sum;  ///< of the slots of tokens

  NamedTensors added_up(Backend& b, const Hypothesis& h) const {
    Call all = sum;
    for (const auto& [rank, gate] : gates) {
      auto act = outputs_of(b, gate, h);
      if (!act) return {};
      Call product = products.at(rank);
      product.replace("x", std::move(act->at("y")));
      all.replace(rank + "y", made_by(b, product));
    }
    return run_call(b, all);
  }
};

/// None where these steps are not known, or are others.
std::optional<Gated> gated(Backend& backend, const Call& call, const SharedRows& rows) {
  if (!rows || !rows->stages().contains("rank0.act")) return std::nullopt;
  const auto step = [&](const std::string& name) {
    return layer_steps(backend, call, rows->stages(), name);
  };
  Gated made;
  for (const std::string& rank : ranks_of(call)) {
    std::vector<StepCall> gate = step(rank + "act");
    std::vector<StepCall> product = step(rank + "expert_out");
    if (gate.empty() || product.empty() || !product.front().call.has("x")) return std::nullopt;
    made.gates.emplace(rank, std::move(gate.front().call));
    made.products.emplace(rank, std::move(product.front().call));
  }
  std::vector<StepCall> sum = step("rank0.combined");
  if (sum.empty()) return std::nullopt;
  made.sum = std::move(sum.front().call);
  return made;
}

/// The shared expert as the one expert that every token chooses, with weight 1.
Call shared_as_routed(const Call& call) {
  Call alone = forward_of(call);
  const Index ranks = std::ssize(ranks_of(call));
  for (const char* name : {"w1", "w2"}) {
    const Tensor& own = call.input(std::string("shared.") + name);
    Tensor all(own.dtype(), {ranks, own.extent(0), own.extent(1)});
    for (Index p = 0; p < ranks; ++p)
      std::memcpy(all.data() + static_cast<std::size_t>(p) * own.bytes(), own.data(), own.bytes());
    alone.replace(name, std::move(all));
  }
  const Tensor& router = call.input("router");
  alone.replace("router", Tensor(router.dtype(), {ranks, router.extent(1)}));
  for (const char* key : {"router.bias", "w1.bias", "w2.bias", "shared.w1", "shared.w2", "groups",
                          "limited_groups", "score", "scores", "normalize", "scale"})
    drop(alone, key);
  alone.set.set("top_k", "1");
  return alone;
}

/// y of what slots add up to, and of what the shared expert adds, where there is one.
NamedTensors in_all(const NamedTensors& slots, const NamedTensors& shared) {
  NamedTensors y;
  for (const auto& [name, sums] : slots) {
    y.emplace(rank_of(name) + "y", with_values(sums, [&, &name = name, &sums = sums](Index i) {
                const float v = wide_value(sums, i);
                return shared.empty() ? v : v + wide_value(shared.at(name), i);
              }));
  }
  return y;
}

/// What all hypotheses of a layer are made of.
struct Known {
  Gated routed;
  std::optional<Gated> shared;
  NamedTensors sums;  ///< of slots, as expected
  NamedTensors more;  ///< of the shared expert; empty where there is none
};

std::shared_ptr<const Known> known_of(Backend& backend, const Call& call,
                                      const std::vector<Output>& outputs) {
  const Call forward = forward_of(call);
  std::optional<Gated> routed = gated(backend, forward, rows_of(backend, call, outputs));
  if (!routed) return nullptr;
  Known known{std::move(*routed), std::nullopt, {}, {}};
  known.sums = run_call(backend, known.routed.sum);
  if (call.has("shared.w1")) {
    const Call alone = shared_as_routed(call);
    known.shared = gated(backend, alone, made_rows(backend, alone));
    if (!known.shared) return nullptr;
    known.more = run_call(backend, known.shared->sum);
  }
  const NamedTensors given = in_all(known.sums, known.more);
  const bool same = std::ranges::all_of(outputs, [&](const Output& o) {
    const auto at = given.find(o.name);
    return at != given.end() && at->second.bytes() == o.expected->bytes() &&
           std::memcmp(at->second.data(), o.expected->data(), o.expected->bytes()) == 0;
  });
  return same ? std::make_shared<const Known>(std::move(known)) : nullptr;
}

/// Whose activations are others.
struct GatesOf {
  const char* words;
  bool routed;
  bool shared;
};

constexpr GatesOf kGatesOf[] = {{"", true, true},
                                {", in routed experts alone", true, false},
                                {", in the shared expert alone", false, true}};

}  // namespace

void add_layer_gates(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                     List& list) {
  const std::shared_ptr<const Known> known = known_of(backend, call, outputs);
  if (!known) return;
  const bool has_shared = known->shared.has_value();
  for (const Hypothesis& h : hypotheses_about(known->routed.gates.begin()->second)) {
    if (h.stage == Stage::input || h.stage == Stage::output) continue;
    for (const GatesOf& of : kGatesOf) {
      if (!has_shared && !(of.routed && of.shared)) continue;
      add_made(list, h.name, h.phrase + of.words, [known, h, of](Backend& b, const Call&) {
        const bool both = of.shared && known->shared;
        const NamedTensors own = of.routed ? known->routed.added_up(b, h) : NamedTensors{};
        const NamedTensors its = both ? known->shared->added_up(b, h) : NamedTensors{};
        if (own.empty() == of.routed || its.empty() == both) return NamedTensors{};
        return in_all(of.routed ? own : known->sums, both ? its : known->more);
      });
    }
  }
  for (const Hypothesis& h : hypotheses_about(known->routed.sum)) {
    if (h.stage != Stage::sum) continue;
    add_made(list, h.name, h.phrase, [known, h](Backend& b, const Call&) {
      const auto own = outputs_of(b, known->routed.sum, h);
      return own ? in_all(*own, known->more) : NamedTensors{};
    });
  }
}

}  // namespace mxo
