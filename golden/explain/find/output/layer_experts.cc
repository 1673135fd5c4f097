// What experts add to a layer whose y alone is known: slots of some that are missing, factors of
// the two sums, the routed experts' and the shared one's, other activations and other sums.
#include "golden/explain/find/output/expert_rows.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastFailing = 3;
constexpr Index kSampledOfY = 2048;    ///< elements of y that tell two factors
constexpr double kFitOfParts = 0.005;  ///< of an output that may be left: a unit of bf16

/// Experts of a layer whose activations may be others: "rank0." has its activation and the product
/// that follows.
struct Gated {
  std::map<std::string, Call> gates;
  std::map<std::string, Call> products;
  Call sum;  ///< of the slots of tokens

  NamedTensors added_up(Backend& b, const Hypothesis& h) const {
    Call all = sum;
    for (const auto& [rank, gate] : gates) {
      auto act = outputs_with(b, gate, h);
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
    const Tensor one = resized(own, {1, own.extent(0), own.extent(1)});
    alone.replace(name, rows_from(one, std::vector<Index>(static_cast<std::size_t>(ranks))));
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
  for (const auto& [name, sums] : slots)
    y.emplace(rank_of(name) + "y", with_values(sums, [&, &name = name, &sums = sums](Index i) {
                const float v = wide_value(sums, i);
                return shared.empty() ? v : v + wide_value(shared.at(name), i);
              }));
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
  return gives_expected(in_all(known.sums, known.more), outputs)
             ? std::make_shared<const Known>(std::move(known))
             : nullptr;
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

Call without_shared(Call call) {
  for (const char* name : {"shared.w1", "shared.w2"}) call.inputs.erase(name);
  return call;
}

Call of_shared(Call call) {
  call.inputs.erase("w2.bias");
  call.replace("w2", Tensor(call.input("w2").dtype(), call.input("w2").shape()));
  return call;
}

std::vector<std::set<Index>> experts_of_failing(Backend& backend, const Call& call,
                                                const std::vector<Output>& outputs) {
  const NamedTensors kept = run_call(backend, forward_of(call));
  struct Tokens {
    Index all = 0;
    Index failing = 0;
  };
  std::map<Index, Tokens> of_experts;
  std::vector<std::set<Index>> failing;
  for (const Output& o : outputs) {
    const auto chosen = kept.find(rank_of(o.name) + "experts");
    if (!o.name.ends_with(".y") || chosen == kept.end()) return {};
    const Index slots = chosen->second.extent(1);
    for (Index r = 0; r < o.compared_rows; ++r) {
      const auto* e = chosen->second.as<std::int32_t>() + r * slots;
      const bool fails = o.differs_in(r * o.columns, o.columns);
      if (fails) failing.emplace_back(e, e + slots);
      for (Index s = 0; s < slots; ++s) {
        ++of_experts[e[s]].all;
        of_experts[e[s]].failing += fails;
      }
    }
  }
  if (failing.size() < kLeastFailing) return {};
  std::set<Index> common = failing.front();
  std::erase_if(common, [&](Index e) {
    return std::ranges::any_of(failing, [e](const auto& own) { return !own.contains(e); });
  });
  std::set<Index> most;
  for (const auto& [e, tokens] : of_experts)
    if (tokens.failing * 4 >= tokens.all * 3) most.insert(e);
  const bool all = std::ranges::all_of(failing, [&](const auto& experts) {
    return std::ranges::any_of(experts, [&](Index e) { return most.contains(e); });
  });
  std::vector<std::set<Index>> sets;
  if (common.size() == 1) sets.push_back(std::move(common));
  if (all && most.size() < of_experts.size() && (sets.empty() || sets.front() != most))
    sets.push_back(std::move(most));
  return sets;
}

void add_lost_experts(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                      List& list) {
  if (call.op != "moe_layer" || outputs.empty() || !outputs.front().name.ends_with(".y")) return;
  std::vector<std::set<Index>> sets = experts_of_failing(backend, call, outputs);
  for (const std::set<Index>& several : std::vector(sets))
    for (const Index e : several)
      if (several.size() > 1) sets.push_back({e});
  for (const std::set<Index>& lost : sets) {
    Hypothesis& h = add_altered(
        list, "experts=left_out",
        "slots of " + ranges_in_words("expert", {lost.begin(), lost.end()}) + " are left out",
        [lost](Call& c) {
          for (const char* name : {"w2", "w2.bias"}) {
            if (!c.has(name)) continue;
            const Index each = c.input(name).elements() / c.input(name).extent(0);
            map_values(c, name,
                       [&](float v, Index i) { return lost.contains(i / each) ? 0.0f : v; });
          }
        });
    // A part of the tokens may say nothing of some of them.
    if (lost.size() > 1) h.target = Target::format;
  }
}

void add_factors_of_parts(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                          List& list) {
  if (call.op != "moe_layer" || !call.has("shared.w2") || outputs.empty()) return;
  const auto shares = [](Backend& b, const Call& given) {
    return std::pair(run_call(b, without_shared(given)), run_call(b, of_shared(given)));
  };
  const auto parts = shares(backend, call);
  LeastSquares equations(2);
  for (const Output& o : outputs) {
    if (!o.name.ends_with(".y")) return;
    const std::vector<Index> sample =
        evenly_spread(Index{0}, o.compared_rows * o.columns, kSampledOfY);
    const ActualNumbers got = actual_numbers(o, sample);
    if (!got.tell()) return;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const std::array<double, 2> of = {
          static_cast<double>(wide_value(parts.first.at(o.name), sample[i])),
          static_cast<double>(wide_value(parts.second.at(o.name), sample[i]))};
      equations.add(of, got.values[i], got.weight(i));
    }
  }
  const auto fit = equations.solved();
  if (!fit || !(fit->misfit <= kFitOfParts)) return;
  const ShortFactor experts = short_factor(fit->x[0]);
  ShortFactor shared = short_factor(fit->x[1]);
  const double scale = call.set.real("scale", 1.0);
  if (shared.words.empty() && std::abs(fit->x[1] * scale - 1.0) <= kFitOfParts)
    shared = {1.0 / scale, filled("1 / {}", call.set.text("scale", "1"))};
  // Experts alone have factors that are listed.
  if (experts.words.empty() || shared.words.empty() || shared.times == 1.0) return;
  const bool of_shared_alone = experts.times == 1.0;
  const std::string words =
      of_shared_alone
          ? filled("the shared expert is multiplied by {}", shared.words)
          : filled("what the experts add is multiplied by {} and what the shared expert adds by {}",
                   experts.words, shared.words);
  for (const bool rounded : {true, false}) {
    const auto times = [=](const ShortFactor& by, float v) {
      return rounded ? by_bf16(static_cast<float>(by.times) * v) : static_cast<float>(by.times) * v;
    };
    add_run(list, of_shared_alone ? "shared.w2=times" : "parts=times", words,
            [=](Backend& b, const Call& given) {
              auto [y, alone] = shares(b, given);
              for (auto& [name, tensor] : y) {
                if (!name.ends_with(".y")) continue;
                for (Index i = 0; i < tensor.elements(); ++i)
                  store_wide(tensor, i,
                             times(experts, wide_value(tensor, i)) +
                                 times(shared, wide_value(alone.at(name), i)));
              }
              return y;
            });
  }
}

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
      const auto own = outputs_with(b, known->routed.sum, h);
      return own ? in_all(*own, known->more) : NamedTensors{};
    });
  }
}

}  // namespace mxo
