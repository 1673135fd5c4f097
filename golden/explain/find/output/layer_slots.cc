// What a layer makes of the rows that its slots bring: by another router, by experts with the
// weights of others, by some experts under another rule.
#include <cstring>
#include <map>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/output/expert_rows.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr Index kMostExperts = 64;
constexpr Index kMostCalls = 16;      ///< as many rows as a layer has, for rows of every expert
constexpr Index kMostTurns = 32;      ///< of operands among experts
constexpr Index kMostChoices = 4096;  ///< of experts for the slots of a token

/// A layer that sends every token to every expert.
Call dense(const Call& call) {
  Call all = forward_of(call);
  for (const char* key : {"groups", "limited_groups"}) drop(all, key);
  all.set.set("top_k", std::to_string(call.input("router").extent(0)));
  return all;
}

// ---- Other routers.

/// Calls of the routers of all ranks, by "rank0.".
std::map<std::string, Call> routers_of(Backend& backend, const Call& call,
                                       const NamedTensors& stages) {
  std::map<std::string, Call> routers;
  for (const std::string& rank : ranks_of(call))
    routers.emplace(rank, layer_steps(backend, call, stages, rank + "experts").front().call);
  return routers;
}

/// y by what another router chose and weighed.
void add_other_routers(const Call& call, Backend& backend, const SharedRows& rows, List& list) {
  const std::map<std::string, Call> routers = routers_of(backend, call, rows->stages());
  for (const Hypothesis& h : hypotheses_about(routers.begin()->second)) {
    add_made(list, h.name, h.phrase, [h, routers, rows](Backend& b, const Call& c) {
      return routed_by(
          *rows, c, [&](const std::string& rank) { return outputs_with(b, routers.at(rank), h); });
    });
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
       x = with_values(std::move(x), [&](Index i) { return by_e4m3(wide_value(given, i)); });
     }},
    {"router.x=next_token", "the router alone sees the row of x after each",
     [](Tensor& x) { x = rows_moved(x, 1); }},
    {"router.x=token_before", "the router alone sees the row of x before each",
     [](Tensor& x) { x = rows_moved(x, -1); }},
};

void add_router_inputs(const SharedRows& rows, List& list) {
  for (const RouterInput& input : kRouterInputs) {
    add_made(list, input.name, input.phrase, [&input, rows](Backend& b, const Call& given) {
      Call altered = forward_of(given);
      for (const std::string& name : names_ending(altered.inputs, ".x")) {
        Tensor x = altered.input(name);
        input.alter(x);
        altered.replace(name, std::move(x));
      }
      const NamedTensors stages = run_call(b, altered);
      return routed_by(*rows, given,
                       [&](const std::string& rank) { return routed_in(stages, rank); });
    });
  }
}

/// Rows of a rank that go to the expert of its number, whichever expert of a rank is chosen.
void add_experts_by_rank(const SharedRows& rows, List& list) {
  add_made(list, "experts=by_rank",
           "the number of the rank that rows come from is taken for that of their expert on its "
           "rank",
           [rows](Backend& b, const Call& given) {
             const Index local = rows->experts() / std::ssize(ranks_of(given));
             const NamedTensors stages = run_call(b, forward_of(given));
             return routed_by(*rows, given, [&](const std::string& rank) {
               std::optional<NamedTensors> by = routed_in(stages, rank);
               const Index p = std::stoll(rank.substr(4));
               Tensor& experts = by->at("experts");
               for (Index i = 0; i < experts.elements(); ++i) {
                 std::int32_t& e = experts.as<std::int32_t>()[i];
                 e = static_cast<std::int32_t>(e / local * local + p);
               }
               return p < local ? by : std::nullopt;
             });
           });
}

// ---- Experts.

/// Operands of experts that are those of others.
struct ExpertOperands {
  const char* name;
  const char* what;
  std::vector<const char*> operands;
};

Call taken_from(Call call, const ExpertOperands& of, const std::function<Index(Index)>& source) {
  for (const char* name : of.operands)
    if (call.has(name))
      call.replace(name, with_rows(call.input(name), [&](Index e, Index) { return source(e); }));
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
    const Tensor* shared = turned.front()->shared(rank);
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
          fits = ExpertRows::y(shared, t * o.columns + c, sum) ==
                 wide_value(*o.actual, t * o.columns + c);
        }
        for (Index s = 0, rest = choice; s < by.slots() && fits; ++s, rest /= experts)
          own[by.expert(t, s)].insert((by.expert(t, s) + rest) % experts);
      }
      if (own.empty()) return {};
      for (const auto& [e, sources] : own) {
        const auto [at, first] = left.emplace(e, sources);
        if (!first)
          std::erase_if(at->second,
                        [&own_sources = sources](Index f) { return !own_sources.contains(f); });
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
  const Index experts = call.op == "moe_layer" ? call.input("router").extent(0) : 0;
  if (call.set.text("scores", "combine") != "combine" || !rows_of(backend, call, outputs)) return;
  if (experts > kMostExperts || experts > kMostCalls * call.set.integer("top_k", 1)) return;
  const SharedRows rows = made_rows(backend, dense(call));
  if (!rows) return;
  add_other_routers(forward_of(call), backend, rows, list);
  add_router_inputs(rows, list);
  add_experts_by_rank(rows, list);
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
      turned.push_back(
          made_rows(backend, taken_from(given, of, [=](Index e) { return (e + n) % experts; })));
      if (!turned.back()) return;
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
  const auto columns = static_cast<std::size_t>(call.input("router").extent(1));
  for (const std::set<Index>& some : experts_of_failing(backend, call, outputs)) {
    const std::string who =
        ", for " + ranges_in_words("expert", {some.begin(), some.end()}) + " alone";
    for (const Hypothesis& h : hypotheses_about(call)) {
      if (h.run || h.rewrite) continue;
      add_made(list, h.name, h.phrase + who, [h, some, rows, columns](Backend& b, const Call& c) {
        Call altered = forward_of(c);
        if (!h.alter(altered)) return NamedTensors{};
        const ExpertRows others(b, altered);
        std::set<Index> told;  // whose rows are others
        NamedTensors y;
        for (const std::string& rank : ranks_of(c)) {
          const Routed by = rows->routed(rank);
          const auto row = [&](Index t, Index s) {
            const Index e = by.expert(t, s);
            const BF16* own = rows->row(rank, t, e);
            if (!some.contains(e)) return own;
            const BF16* other = others.row(rank, t, e);
            if (std::memcmp(own, other, columns * sizeof(BF16)) != 0) told.insert(e);
            return other;
          };
          if (!rows->routes_as(others, rank) || !rows->add_up(rank, by, row, y))
            return NamedTensors{};
        }
        return told == some ? y : NamedTensors{};
      });
    }
  }
}

}  // namespace mxo
