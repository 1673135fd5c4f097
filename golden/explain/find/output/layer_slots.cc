// What a layer makes of the rows that its slots bring: by another router, by experts with the
// weights of others, by some experts under another rule.
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/steps/steps.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr Index kMostExperts = 64;
constexpr Index kMostCalls = 16;      ///< as many rows as a layer has, for rows of every expert
constexpr Index kMostTurns = 32;      ///< of operands among experts
constexpr Index kMostChoices = 4096;  ///< of experts for the slots of a token

/// A layer without its gradients, with every step.
Call forward_of(Call call) {
  for (const std::string& name : names_ending(call.inputs, ".dy")) call.inputs.erase(name);
  call.set.set("keep_stages", "true");
  return call;
}

/// The same that sends every token to every expert.
Call dense(const Call& call) {
  Call all = forward_of(call);
  for (const char* key : {"groups", "limited_groups"}) drop(all, key);
  all.set.set("top_k", std::to_string(call.input("router").extent(0)));
  return all;
}

/// "rank0." and so on.
std::vector<std::string> ranks_of(const Call& call) {
  std::vector<std::string> ranks;
  for (const std::string& name : names_ending(call.inputs, ".x")) ranks.push_back(rank_of(name));
  return ranks;
}

/// Tensors of a rank's router.
struct Routed {
  const Tensor& experts;
  const Tensor& weights;
  Index slots() const { return experts.extent(1); }
  Index expert(Index token, Index s) const {
    return experts.as<std::int32_t>()[token * slots() + s];
  }
  float weight(Index token, Index s) const { return weights.as<float>()[token * slots() + s]; }
};

/// The rows that experts of a layer make of tokens, and what its shared expert adds.
class ExpertRows {
 public:
  ExpertRows(Backend& backend, const Call& call) : stages_(run_call(backend, call)) {
    const std::vector<StepCall> steps = layer_steps(backend, call, stages_, "rank0.combined");
    rows_ = rows_of_slots(backend, steps.front().call);
    experts_ = call.input("router").extent(0);
    for (const std::string& name : names_ending(stages_, ".experts")) {
      const Routed own = routed(rank_of(name));
      std::vector<Index>& slots = slots_[rank_of(name)];
      slots.assign(static_cast<std::size_t>(own.experts.extent(0) * experts_), -1);
      for (Index i = 0; i < own.experts.elements(); ++i) {
        const Index token = i / own.slots();
        nth(slots, token * experts_ + own.expert(token, i % own.slots())) = i % own.slots();
      }
    }
    if (!call.has("shared.w1")) return;
    Call alone = call;
    alone.inputs.erase("w2.bias");
    alone.replace("w2", Tensor(call.input("w2").dtype(), call.input("w2").shape()));
    shared_ = run_call(backend, alone);
  }

  const NamedTensors& stages() const { return stages_; }
  Index experts() const { return experts_; }
  Routed routed(const std::string& rank) const {
    return {stages_.at(rank + "experts"), stages_.at(rank + "weights")};
  }
  /// Element `i` of a token's row by an expert; null where it has none.
  const BF16* row(const std::string& rank, Index token, Index expert) const {
    if (expert < 0 || expert >= experts_) return nullptr;
    const Index slot = slots_.at(rank)[static_cast<std::size_t>(token * experts_ + expert)];
    if (slot < 0) return nullptr;
    const Tensor& rows = nth(rows_, slot).at(rank + "out");
    return rows.as<BF16>() + token * rows.extent(1);
  }
  /// Column `c` of y where a token's slots add up to `sum`.
  float y(const std::string& rank, Index token, Index c, float sum) const {
    if (shared_.empty()) return by_bf16(sum);
    const Tensor& shared = shared_.at(rank + "y");
    return by_bf16(by_bf16(sum) + wide_value(shared, token * shared.extent(1) + c));
  }
  /// y of a rank whose slot s of a token brings the row that row(token, s) says; false where one
  /// has none.
  template <typename Row>
  bool add_up(const std::string& rank, const Routed& by, const Row& row, NamedTensors& out) const {
    Tensor y = stages_.at(rank + "y");
    const Index columns = y.extent(1);
    std::vector<float> sum(static_cast<std::size_t>(columns));
    for (Index t = 0; t < y.extent(0); ++t) {
      std::ranges::fill(sum, 0.0f);
      for (Index s = 0; s < by.slots(); ++s) {
        const BF16* own = row(t, s);
        if (own == nullptr) return false;
        for (Index c = 0; c < columns; ++c) nth(sum, c) += decode(own[c]) * by.weight(t, s);
      }
      for (Index c = 0; c < columns; ++c) {
        store_wide(y, t * columns + c, this->y(rank, t, c, nth(sum, c)));
      }
    }
    out.emplace(rank + "y", std::move(y));
    return true;
  }

 private:
  NamedTensors stages_;
  std::vector<NamedTensors> rows_;
  Index experts_ = 0;
  std::map<std::string, std::vector<Index>> slots_;  ///< of a token and an expert; -1: none
  NamedTensors shared_;
};

using SharedRows = std::shared_ptr<const ExpertRows>;

/// Every rank's y of these rows by the experts and weights that of(rank) has; none where it has
/// none, or a row is not there.
template <typename Of>
NamedTensors routed_by(const ExpertRows& rows, const Call& call, const Of& of) {
  NamedTensors y;
  for (const std::string& rank : ranks_of(call)) {
    const std::optional<NamedTensors> out = of(rank);
    if (!out) return {};
    const Routed by{out->at("experts"), out->at("weights")};
    const auto row = [&](Index t, Index s) { return rows.row(rank, t, by.expert(t, s)); };
    if (!rows.add_up(rank, by, row, y)) return {};
  }
  return y;
}

/// What a router made, of a layer's stages.
std::optional<NamedTensors> routed_in(const NamedTensors& stages, const std::string& rank) {
  NamedTensors routed;
  for (const char* part : {"experts", "weights"}) routed.emplace(part, stages.at(rank + part));
  return routed;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::equal(a.data(), a.data() + a.bytes(), b.data());
}

/// A layer whose y is what its combine adds up in f32, bit for bit: what experts make of tokens.
SharedRows rows_of(Backend& backend, const Call& call, const std::vector<Output>& outputs) {
  if (call.op != "moe_layer" || outputs.empty() || !outputs.front().name.ends_with(".y") ||
      call.set.text("scores", "combine") != "combine")
    return nullptr;
  auto rows = std::make_shared<const ExpertRows>(backend, forward_of(call));
  const NamedTensors y = routed_by(
      *rows, call, [&](const std::string& rank) { return routed_in(rows->stages(), rank); });
  const bool same = std::ranges::all_of(outputs, [&](const Output& o) {
    const auto at = y.find(o.name);
    return at != y.end() && same_bytes(at->second, *o.expected);
  });
  return same ? rows : nullptr;
}

// ---- Other routers.

/// Calls of the routers of all ranks, by "rank0.".
std::map<std::string, Call> routers_of(Backend& backend, const Call& call,
                                       const NamedTensors& stages) {
  std::map<std::string, Call> routers;
  for (const std::string& rank : ranks_of(call)) {
    routers.emplace(rank, layer_steps(backend, call, stages, rank + "experts").front().call);
  }
  return routers;
}

/// y by what another router chose and weighed.
void add_other_routers(const Call& call, Backend& backend, const SharedRows& rows, List& list) {
  const std::map<std::string, Call> routers = routers_of(backend, call, rows->stages());
  for (const Hypothesis& h : hypotheses_about(routers.begin()->second)) {
    add_run(
        list, h.name, h.phrase,
        [h, routers, rows](Backend& b, const Call& c) {
          return routed_by(*rows, c, [&](const std::string& rank) {
            Call altered = routers.at(rank);
            return h.alter(altered) ? outputs_under(b, altered, {&h}) : std::nullopt;
          });
        },
        h.stage);
  }
}

/// Another x, for the router alone.
struct RouterInput {
  const char* name;
  const char* phrase;
  void (*alter)(Tensor& x);
};

void divide_by_rms(Tensor& x) {
  const Index columns = x.extent(1);
  for (Index r = 0; r < x.extent(0); ++r) {
    double squares = 0.0;
    for (Index c = 0; c < columns; ++c) {
      const auto v = static_cast<double>(wide_value(x, r * columns + c));
      squares += v * v;
    }
    const auto rms = static_cast<float>(std::sqrt(squares / static_cast<double>(columns) + 1e-6));
    for (Index i = r * columns; i < (r + 1) * columns; ++i)
      store_wide(x, i, wide_value(x, i) / rms);
  }
}

constexpr RouterInput kRouterInputs[] = {
    {"router.x=normalised", "the router alone sees rows of x divided by their root mean square",
     divide_by_rms},
    {"router.x=e4m3", "the router alone sees x rounded to e4m3",
     [](Tensor& x) {
       const Tensor given = x;
       x = with_values(std::move(x), [&](Index i) {
         return decode(encode<kE4M3>(wide_value(given, i), Overflow::saturate));
       });
     }},
    {"router.x=next_token", "the router alone sees the row of x after each",
     [](Tensor& x) { x = rows_moved(x, 1); }},
    {"router.x=token_before", "the router alone sees the row of x before each",
     [](Tensor& x) { x = rows_moved(x, -1); }},
};

void add_router_inputs(const SharedRows& rows, List& list) {
  for (const RouterInput& input : kRouterInputs) {
    add_run(
        list, input.name, input.phrase,
        [&input, rows](Backend& b, const Call& given) {
          Call altered = forward_of(given);
          for (const std::string& name : names_ending(altered.inputs, ".x")) {
            Tensor x = altered.input(name);
            input.alter(x);
            altered.replace(name, std::move(x));
          }
          const NamedTensors stages = run_call(b, altered);
          return routed_by(*rows, given,
                           [&](const std::string& rank) { return routed_in(stages, rank); });
        },
        Stage::input);
  }
}

// ---- Experts.

/// Operands of experts that are those of others.
struct ExpertOperands {
  const char* name;
  const char* what;
  std::vector<const char*> operands;
};

Call taken_from(Call call, const ExpertOperands& of, const std::function<Index(Index)>& source) {
  for (const char* name : of.operands) {
    if (call.has(name))
      call.replace(name, with_rows(call.input(name), [&](Index e, Index) { return source(e); }));
  }
  return call;
}

/// Which expert's operands each expert takes, as every token that fails has it; none where a token
/// has none, or an expert may have several. `turned`: layers whose experts take those of the n-th
/// after them.
std::map<Index, Index> map_of_experts(const std::vector<SharedRows>& turned,
                                      const std::vector<Output>& outputs) {
  const Index experts = std::ssize(turned);
  std::map<Index, std::set<Index>> left;  // that an expert may have taken
  for (const Output& o : outputs) {
    const std::string rank = rank_of(o.name);
    const Routed by = turned.front()->routed(rank);
    Index choices = 1;
    for (Index s = 0; s < by.slots(); ++s) choices *= experts;
    if (choices > kMostChoices) return {};
    std::vector<const BF16*> rows(static_cast<std::size_t>(by.slots()));
    for (const Index t : Lines{o}.failing()) {
      std::map<Index, std::set<Index>> own;
      for (Index choice = 0; choice < choices; ++choice) {
        for (Index s = 0, rest = choice; s < by.slots(); ++s, rest /= experts)
          nth(rows, s) = nth(turned, rest % experts)->row(rank, t, by.expert(t, s));
        bool fits = true;
        for (Index c = 0; c < o.columns && fits; ++c) {
          float sum = 0.0f;
          for (Index s = 0; s < by.slots(); ++s) sum += decode(nth(rows, s)[c]) * by.weight(t, s);
          fits = turned.front()->y(rank, t, c, sum) == wide_value(*o.actual, t * o.columns + c);
        }
        for (Index s = 0, rest = choice; s < by.slots() && fits; ++s, rest /= experts)
          own[by.expert(t, s)].insert((by.expert(t, s) + rest) % experts);
      }
      if (own.empty()) return {};
      for (const auto& [e, sources] : own) {
        const auto [at, first] = left.emplace(e, sources);
        if (!first) std::erase_if(at->second, [&](Index f) { return !sources.contains(f); });
      }
    }
  }
  std::map<Index, Index> map;
  for (const auto& [e, sources] : left) {
    if (sources.contains(e)) continue;
    if (sources.size() != 1) return {};
    map.emplace(e, *sources.begin());
  }
  return map;
}

}  // namespace

void add_layer_routers(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                       List& list) {
  if (!rows_of(backend, call, outputs)) return;
  const Index experts = call.input("router").extent(0);
  if (experts > kMostExperts || experts > kMostCalls * call.set.integer("top_k", 1)) return;
  const auto rows = std::make_shared<const ExpertRows>(backend, dense(call));
  add_other_routers(forward_of(call), backend, rows, list);
  add_router_inputs(rows, list);
}

void add_experts_of_others(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                           List& list) {
  const Call given = forward_of(call);
  if (!rows_of(backend, given, outputs)) return;
  const Index experts = call.input("router").extent(0);
  if (experts > kMostTurns) return;
  for (const ExpertOperands& of :
       {ExpertOperands{"weights", "all weights", {"w1", "w2", "w1.bias", "w2.bias"}},
        {"w1", "w1", {"w1"}},
        {"w2", "w2", {"w2"}}}) {
    std::vector<SharedRows> turned;
    for (Index n = 0; n < experts; ++n) {
      turned.push_back(std::make_shared<const ExpertRows>(
          backend, taken_from(given, of, [=](Index e) { return (e + n) % experts; })));
    }
    const std::map<Index, Index> map = map_of_experts(turned, outputs);
    if (map.empty()) continue;
    std::string own;
    std::string others;
    for (const auto& [e, source] : map) {
      list_words(own, std::to_string(e));
      list_words(others, std::to_string(source));
    }
    const char* words =
        map.size() == 1 ? "expert {} takes {} of expert {}" : "experts {} take {} of experts {}";
    add_altered(list, std::string(of.name) + "=of_others", filled(words, own, of.what, others),
                [of, map](Call& c) {
                  c = taken_from(std::move(c), of, [&](Index e) {
                    const auto at = map.find(e);
                    return at == map.end() ? e : at->second;
                  });
                });
    return;
  }
}

void add_rules_of_some_experts(Backend& backend, const Call& call,
                               const std::vector<Output>& outputs, List& list) {
  const SharedRows rows = rows_of(backend, call, outputs);
  if (!rows) return;
  for (const std::set<Index>& some : experts_of_failing(backend, call, outputs)) {
    const std::string who =
        ", for " + ranges_in_words("expert", {some.begin(), some.end()}) + " alone";
    for (const Hypothesis& h : hypotheses_about(call)) {
      if (h.run || h.rewrite) continue;
      add_run(
          list, h.name, h.phrase + who,
          [h, some, rows](Backend& b, const Call& c) {
            Call altered = forward_of(c);
            if (!h.alter(altered)) return NamedTensors{};
            const ExpertRows others(b, altered);
            NamedTensors y;
            for (const std::string& rank : ranks_of(c)) {
              const Routed by = rows->routed(rank);
              const Routed other = others.routed(rank);
              const auto row = [&](Index t, Index s) {
                const Index e = by.expert(t, s);
                return (some.contains(e) ? others : *rows).row(rank, t, e);
              };
              if (!same_bytes(by.experts, other.experts) ||
                  !same_bytes(by.weights, other.weights) || !rows->add_up(rank, by, row, y))
                return NamedTensors{};
            }
            return y;
          },
          Stage::input);
    }
  }
}

}  // namespace mxo
