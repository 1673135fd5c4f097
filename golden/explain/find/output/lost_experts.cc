// Experts of a layer whose slots are missing, found by the tokens that chose them.
#include <map>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastTokens = 3;

/// The experts of which most tokens fail, if every token that fails chose one of them; a token
/// that weighs its expert little may be as it should.
std::set<Index> experts_of_failing(Backend& backend, const Call& call,
                                   const std::vector<Output>& outputs) {
  Call stages = call;
  stages.set.set("keep_stages", "true");
  const NamedTensors kept = run_call(backend, stages);
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
  std::set<Index> lost;
  for (const auto& [e, tokens] : of_experts) {
    if (tokens.failing * 4 >= tokens.all * 3) lost.insert(e);
  }
  const bool all = std::all_of(failing.begin(), failing.end(), [&](const auto& experts) {
    return std::any_of(experts.begin(), experts.end(), [&](Index e) { return lost.contains(e); });
  });
  const bool some = failing.size() >= kLeastTokens && lost.size() < of_experts.size();
  return all && some ? lost : std::set<Index>{};
}

}  // namespace

void add_lost_experts(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                      std::vector<Hypothesis>& list) {
  if (call.op != "moe_layer" || outputs.empty() || !outputs.front().name.ends_with(".y")) return;
  const std::set<Index> lost = experts_of_failing(backend, call, outputs);
  if (lost.empty()) return;
  add_altered(list, "experts=left_out",
              "slots of " + ranges_in_words("expert", {lost.begin(), lost.end()}) + " are left out",
              [lost](Call& c) {
                for (const char* name : {"w2", "w2.bias"}) {
                  if (!c.has(name)) continue;
                  const Tensor& given = c.input(name);
                  const Index each = given.elements() / given.extent(0);
                  c.replace(name, with_values(given, [&](Index i) {
                              return lost.contains(i / each) ? 0.0f : wide_value(given, i);
                            }));
                }
                return true;
              });
}

}  // namespace mxo
