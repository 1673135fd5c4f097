// What the experts of a layer add: slots of some that are missing, found by the tokens that chose
// them, and factors of the two sums, the routed experts' and the shared one's.
#include <array>
#include <map>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastFailing = 3;
constexpr Index kSampledOfY = 2048;    ///< elements of y that tell two factors
constexpr double kFitOfParts = 0.005;  ///< of an output that may be left: a unit of bf16

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
  if (failing.size() < kLeastFailing) return {};
  std::set<Index> common = failing.front();
  std::erase_if(common, [&](Index e) {
    return std::ranges::any_of(failing, [e](const auto& own) { return !own.contains(e); });
  });
  std::set<Index> most;
  for (const auto& [e, tokens] : of_experts) {
    if (tokens.failing * 4 >= tokens.all * 3) most.insert(e);
  }
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
                      std::vector<Hypothesis>& list) {
  if (call.op != "moe_layer" || outputs.empty() || !outputs.front().name.ends_with(".y")) return;
  std::vector<std::set<Index>> sets = experts_of_failing(backend, call, outputs);
  for (const std::set<Index>& several : std::vector(sets)) {
    for (const Index e : several) {
      if (several.size() > 1) sets.push_back({e});
    }
  }
  for (const std::set<Index>& lost : sets) {
    Hypothesis& h = add_altered(
        list, "experts=left_out",
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
    // A part of the tokens may say nothing of some of them.
    if (lost.size() > 1) h.target = Target::format;
  }
}

void add_factors_of_parts(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                          std::vector<Hypothesis>& list) {
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

}  // namespace mxo
