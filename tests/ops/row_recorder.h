// What routing and moving rows ask of a backend, step by step, with the stages between.
#pragma once

#include <iterator>
#include <string>

#include "ops/combine_rows.h"
#include "ops/moe_layer.h"
#include "ops/permute.h"
#include "ops/router_gradients.h"
#include "tests/ops/recorder.h"

namespace mxo {

/// Places and ends are told by their values; memory by its name and, behind its begin, the bytes.
class RowRecorder : public Recorder {
 public:
  std::byte* allocate(std::size_t bytes) override {
    std::byte* memory = Recorder::allocate(bytes);
    sizes_[memory] = bytes;
    return memory;
  }
  void fill_zero(std::byte* memory, std::size_t bytes) override {
    const auto& [base, name] = *std::prev(names.upper_bound(memory));
    const std::ptrdiff_t at = memory - static_cast<const std::byte*>(base);
    steps.push_back("zero " + std::to_string(bytes) + " of " + name +
                    (at > 0 ? "+" + std::to_string(at) : ""));
    Backend::fill_zero(memory, bytes);
  }
  void know(const Operand& view, const std::string& name) {
    names[view.data] = name;
    sizes_[view.data] = static_cast<std::size_t>(view.elements()) * size_of(view.dtype);
  }
  /// Told of the stages in their place among the steps, which name them from there on.
  StageObserver observer() {
    return [this](std::string_view stage, const Operand& tensor) {
      const auto known = names.find(tensor.data);
      const bool own = known != names.end() && known->second.starts_with("#");
      if (own) known->second = stage;
      steps.push_back((own ? "= " : "= " + std::string(stage) + ": ") + told(tensor));
    };
  }

 protected:
  using Recorder::run;
  template <typename Void>
  std::string told(const AnyView<Void>& view) const {
    if (!view.given()) return "none";
    auto after = names.upper_bound(view.data);
    if (after == names.begin()) return "? " + describe(view);
    const auto& [base, name] = *std::prev(after);
    const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(view.data) -
                                             static_cast<const std::byte*>(base));
    if (at > 0 && at >= sizes_.at(base)) return "? " + describe(view);
    return name + (at > 0 ? "+" + std::to_string(at) : "") + " " + describe(view) +
           (view.contiguous() ? "" : " by steps");
  }
  template <typename Void>
  std::string told(const ScaledView<Void>& view) const {
    if (!view.scaled()) return told(view.codes);
    return told(view.codes) + " * " + told(view.scales) + " of " + name_of(view.block);
  }
  /// Of i32 on the host, "-1 x 29" where a value is repeated and "0..95" where it is counted up.
  static std::string values(const Operand& view) {
    std::string text;
    const auto* value = static_cast<const std::int32_t*>(view.data);
    const Index count = view.elements();
    for (Index i = 0; i < count;) {
      const auto run = [&](std::int32_t step) {
        Index end = i + 1;
        while (end < count && value[end] == value[end - 1] + step) ++end;
        return end - i;
      };
      const Index repeated = run(0);
      const Index counted = run(1);
      text += (i > 0 ? " " : "") + std::to_string(value[i]);
      if (repeated > 3) text += " x " + std::to_string(repeated);
      if (counted > 3) text += ".." + std::to_string(value[i + counted - 1]);
      i += repeated > 3 ? repeated : counted > 3 ? counted : 1;
    }
    return "[" + text + "]" + (view.contiguous() ? "" : " by steps");
  }
  static std::string gate(const GateRule& rule) {
    return rule == GateRule{} ? "" : ", of another gate";
  }

  void run(const Route& op) override {
    steps.push_back("route " + told(op.logits) + ", " + told(op.bias) + ", score " +
                    std::to_string(static_cast<int>(op.score)) + ", " + std::to_string(op.groups) +
                    "/" + std::to_string(op.limited_groups) + (op.normalize ? "" : ", as it is") +
                    ", times " + std::to_string(op.scale) + ", groups " +
                    std::to_string(static_cast<int>(op.group_score)) + ", others " +
                    std::to_string(static_cast<int>(op.other_groups)) + " -> " + told(op.experts) +
                    ", " + told(op.weights) + ", " + told(op.tokens_per_expert));
    const Index experts = op.logits.extent[1];
    const Index top_k = op.experts.extent[1];
    for (Index i = 0; i < op.experts.elements(); ++i) {  // token t has experts t, t + 1, ...
      static_cast<std::int32_t*>(op.experts.data)[i] =
          static_cast<std::int32_t>((i / top_k + i % top_k) % experts);
    }
  }
  /// Each expert's rows of one rank, then padding.
  void run(const PermuteIndices& op) override {
    std::int32_t row = 0;
    Index at = 0;
    auto* indices = static_cast<std::int32_t*>(op.indices.data);
    std::fill_n(indices, op.indices.elements(), -1);
    for (Index e = 0; e < op.experts; ++e) {
      const auto count = static_cast<const std::int32_t*>(op.tokens_per_expert.data)[e];
      for (std::int32_t i = 0; i < count; ++i) indices[at + i] = row++;
      at += (count + op.alignment - 1) / op.alignment * op.alignment;
      static_cast<std::int32_t*>(op.ends.data)[e] = static_cast<std::int32_t>(at);
    }
    steps.push_back("permute_indices to " + std::to_string(op.alignment));
  }
  void run(const Permute& op) override {
    steps.push_back("permute " + told(op.x) + " by " + values(op.indices) + " -> " + told(op.y));
  }
  void run(const Unpermute& op) override {
    steps.push_back("unpermute " + told(op.y) + " by " + values(op.indices) + " -> " + told(op.x));
  }
  void run(const PadGroups& op) override {
    steps.push_back("pad_groups " + told(op.x) + " to " + std::to_string(op.alignment) + " -> " +
                    told(op.y));
  }
  void run(const CombineRows& op) override {
    steps.push_back("combine_rows " + told(op.rows) + " by " + values(op.slots) + ", " +
                    told(op.weights) + ", steps " + std::to_string(static_cast<int>(op.steps)) +
                    " -> " + told(op.out));
  }
  void run(const CombineRowsBackward& op) override {
    steps.push_back("combine_rows_backward " + told(op.rows) + " by " + values(op.slots) + ", " +
                    told(op.weights) + ", " + told(op.dout) + " -> " + told(op.drows) + ", " +
                    told(op.dweights));
  }
  void run(const RouteBackward& op) override {
    steps.push_back("route_backward " + told(op.logits) + ", " + values(op.experts) + ", " +
                    told(op.dweights) + ", score " + std::to_string(static_cast<int>(op.score)) +
                    (op.normalize ? "" : ", as it is") + ", times " + std::to_string(op.scale) +
                    " -> " + told(op.dlogits));
  }
  void run(const RouterGradients& op) override {
    steps.push_back("router_gradients " + told(op.dlogits) + ", " + told(op.router) + ", " +
                    told(op.x) + " -> " + told(op.dx) + ", " + told(op.drouter));
  }

 private:
  std::map<const void*, std::size_t> sizes_;
};

}  // namespace mxo
