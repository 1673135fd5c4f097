// Slots of tokens whose rows come back from experts: what each holds, and their sums.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "golden/explain/case/output.h"
#include "golden/explain/hypotheses.h"

namespace mxo {

inline constexpr double kFit = 0.0025;  ///< of an output that may be left: half a unit of bf16

/// Operands or outputs of ranks whose names end so.
template <typename Tensors>
std::vector<std::string> names_ending(const Tensors& tensors, std::string_view end) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with("rank") && name.ends_with(end)) names.push_back(name);
  return names;
}

/// Slots of a token in a call that brings rows back; 0 in any other.
Index slots_of(const Call& call);
/// Rows [T, D] of one slot of every token, "rank0.out" and so on: a sum in which every other slot
/// weighs nothing.
NamedTensors rows_of_slot(Backend& backend, const Call& call, Index slot);
inline std::vector<NamedTensors> rows_of_slots(Backend& backend, const Call& call) {
  std::vector<NamedTensors> rows;
  for (Index s = 0; s < slots_of(call); ++s) rows.push_back(rows_of_slot(backend, call, s));
  return rows;
}
/// The outputs of `call` with its weights, where a dispatch_backward without rows has none.
NamedTensors combined(Backend& backend, Call call);
/// "rank0." of "rank0.out".
inline std::string rank_of(const std::string& name) { return name.substr(0, name.find('.') + 1); }
/// "tokens 3 to 5 of rank0 and token 1 of rank1", by "rank0.".
std::string tokens_in_words(const std::map<std::string, std::vector<Index>>& of_ranks);
/// The weight that a slot was given; 1 where there are none.
inline double given_weight(const Call& call, const std::string& rank, Index token, Index slot) {
  if (!call.has(rank + "weights")) return 1.0;
  const Tensor& weights = call.input(rank + "weights");
  return static_cast<double>(weights.as<float>()[token * weights.extent(1) + slot]);
}

/// A layer without its shared expert, and one whose other experts add nothing.
Call without_shared(Call call);
Call of_shared(Call call);

/// Hypotheses that follow from what every slot of the tokens that fail weighed.
void add_measured_slots(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                        List& list);
/// The hypothesis that in every token that fails one slot brought the row of another, where there
/// is one row for each that gives its sum.
void add_measured_slot_rows(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                            List& list);
/// Rows, or weights, of tokens that begin again with the first where the first token fails.
void add_wrapped_tokens(Backend&, const Call& call, const std::vector<Output>& outputs, List& list);

/// Experts of a layer whose slots are missing: every token that fails chose one, and no other did.
void add_lost_experts(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                      List& list);
/// Factors of what the experts of a layer add, and of what its shared expert adds.
void add_factors_of_parts(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                          List& list);

/// Experts that may have made a layer's y fail: the one that all such tokens chose, and those of
/// which most tokens fail; a token that weighs its expert little may be as it should.
std::vector<std::set<Index>> experts_of_failing(Backend& backend, const Call& call,
                                                const std::vector<Output>& outputs);
/// Of a layer whose y alone is known: routers that score, choose or weigh in another way.
void add_layer_routers(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                       List& list);
/// The same: other activations, of all experts or of the routed or the shared ones, and sums.
void add_layer_gates(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                     List& list);
/// The same: experts that take operands of others, in any order, and rules of some experts alone.
void add_experts_of_others(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                           List& list);
void add_rules_of_some_experts(Backend& backend, const Call& call,
                               const std::vector<Output>& outputs, List& list);

}  // namespace mxo
