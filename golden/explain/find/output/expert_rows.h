// The rows that a layer's experts make of tokens, and y made of them again.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "formats/error.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/steps/steps.h"

namespace mxo {

/// A layer without its gradients, with every step.
inline Call forward_of(Call call) {
  for (const std::string& name : names_ending(call.inputs, ".dy")) call.inputs.erase(name);
  call.set.set("keep_stages", "true");
  return call;
}

/// "rank0." and so on.
inline std::vector<std::string> ranks_of(const Call& call) {
  std::vector<std::string> ranks;
  for (const std::string& name : names_ending(call.inputs, ".x")) ranks.push_back(rank_of(name));
  return ranks;
}

/// The outputs of a call as one hypothesis alters it.
inline std::optional<NamedTensors> outputs_with(Backend& backend, Call call, const Hypothesis& h) {
  return h.alter(call) ? outputs_under(backend, call, {&h}) : std::nullopt;
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
    // Rows that are weighed before they come back are added up as they are.
    for (const std::string& name : names_ending(stages_, ".weights")) {
      const bool weighs = call.set.text("scores", "combine") == "combine";
      weights_[rank_of(name)] = with_values(stages_.at(name), [&, &name = name](Index i) {
        return weighs ? stages_.at(name).as<float>()[i] : 1.0f;
      });
    }
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
    shared_ = run_call(backend, of_shared(call));
  }

  const NamedTensors& stages() const { return stages_; }
  Index experts() const { return experts_; }
  Routed routed(const std::string& rank) const {
    return {stages_.at(rank + "experts"), weights_.at(rank)};
  }
  /// Whether another layer sends the tokens of a rank to the same experts with the same weights.
  bool routes_as(const ExpertRows& other, const std::string& rank) const {
    return std::ranges::all_of(std::array{"experts", "weights"}, [&](const char* part) {
      const Tensor& own = stages_.at(rank + part);
      const Tensor& its = other.stages_.at(rank + part);
      return own.bytes() == its.bytes() &&
             std::equal(own.data(), own.data() + own.bytes(), its.data());
    });
  }
  /// Element `i` of a token's row by an expert; null where it has none.
  const BF16* row(const std::string& rank, Index token, Index expert) const {
    if (expert < 0 || expert >= experts_) return nullptr;
    const Index slot = slots_.at(rank)[static_cast<std::size_t>(token * experts_ + expert)];
    if (slot < 0) return nullptr;
    const Tensor& rows = nth(rows_, slot).at(rank + "out");
    return rows.as<BF16>() + token * rows.extent(1);
  }
  /// What the shared expert adds to y of a rank; null: nothing.
  const Tensor* shared(const std::string& rank) const {
    return shared_.empty() ? nullptr : &shared_.at(rank + "y");
  }
  /// Element `i` of y where slots add up to `sum`.
  static float y(const Tensor* shared, Index i, float sum) {
    return shared == nullptr ? by_bf16(sum) : by_bf16(by_bf16(sum) + wide_value(*shared, i));
  }
  /// y of a rank whose slot s of a token brings the row that row(token, s) says; false where one
  /// has none.
  template <typename Row>
  bool add_up(const std::string& rank, const Routed& by, const Row& row, NamedTensors& out) const {
    Tensor y = stages_.at(rank + "y");
    const Index columns = y.extent(1);
    const Tensor* added = shared(rank);
    std::vector<float> sum(static_cast<std::size_t>(columns));
    for (Index t = 0; t < y.extent(0); ++t) {
      std::ranges::fill(sum, 0.0f);
      for (Index s = 0; s < by.slots(); ++s) {
        const BF16* own = row(t, s);
        if (own == nullptr) return false;
        for (Index c = 0; c < columns; ++c) nth(sum, c) += decode(own[c]) * by.weight(t, s);
      }
      for (Index c = 0; c < columns; ++c)
        store_wide(y, t * columns + c, this->y(added, t * columns + c, nth(sum, c)));
    }
    out.emplace(rank + "y", std::move(y));
    return true;
  }

 private:
  NamedTensors stages_;
  std::vector<NamedTensors> rows_;
  Index experts_ = 0;
  std::map<std::string, std::vector<Index>> slots_;  ///< of a token and an expert; -1: none
  std::map<std::string, Tensor> weights_;            ///< of slots as y adds them up, by rank
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
inline std::optional<NamedTensors> routed_in(const NamedTensors& stages, const std::string& rank) {
  NamedTensors routed;
  for (const char* part : {"experts", "weights"}) routed.emplace(part, stages.at(rank + part));
  return routed;
}

/// Null where the steps of a layer are not known, or it cannot be called so.
inline SharedRows made_rows(Backend& backend, const Call& call) {
  try {
    return std::make_shared<const ExpertRows>(backend, call);
  } catch (const Error&) {
    return nullptr;
  }
}

/// Whether outputs are expected to be these, bit for bit.
inline bool gives_expected(const NamedTensors& made, const std::vector<Output>& outputs) {
  return std::ranges::all_of(outputs, [&](const Output& o) {
    const auto at = made.find(o.name);
    return at != made.end() && at->second.bytes() == o.expected->bytes() &&
           std::memcmp(at->second.data(), o.expected->data(), o.expected->bytes()) == 0;
  });
}

/// A layer whose y is what its combine adds up in f32, bit for bit: what experts make of tokens.
inline SharedRows rows_of(Backend& backend, const Call& call, const std::vector<Output>& outputs) {
  if (call.op != "moe_layer" || outputs.empty() || !outputs.front().name.ends_with(".y"))
    return nullptr;
  const SharedRows rows = made_rows(backend, forward_of(call));
  if (!rows) return nullptr;
  const NamedTensors y = routed_by(*rows, call, [&](const std::string& rank) {
    const Routed by = rows->routed(rank);
    return NamedTensors{{"experts", by.experts}, {"weights", by.weights}};
  });
  return gives_expected(y, outputs) ? rows : nullptr;
}

/// What gives y of rows that were made before: never one of a pair.
inline void add_made(List& list, std::string name, std::string phrase, Make make) {
  add_run(list, std::move(name), std::move(phrase), std::move(make), Stage::input).subject =
      "layer";
}

}  // namespace mxo
