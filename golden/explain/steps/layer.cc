// A mixture-of-experts layer as router, exchange, layers of experts and gates.
#include "formats/error.h"
#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"
#include "golden/explain/steps/steps.h"

namespace mxo {
namespace {

std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }

/// A layer across ranks with every step that it expects.
class Layer {
 public:
  Layer(Backend& backend, const Call& call, const NamedTensors& expected)
      : backend_(backend), call_(call), expected_(expected) {
    while (call.has(rank(ranks_) + "x")) ++ranks_;
    experts_ = call.input("router").extent(0);
  }

  std::vector<StepCall> steps(const std::string& name) const {
    if (name == "dw1" || name == "dw2") return gradient(name);
    const std::size_t dot = name.find('.');
    if (!name.starts_with("rank") || dot == std::string::npos) return {};
    const Index p = std::stoll(name.substr(4, dot - 4));
    std::string step = name.substr(dot + 1);
    const bool coded = step.ends_with(".codes") || step.ends_with(".scales");
    if (coded) step.resize(step.rfind('.'));
    if (step == "logits") return {logits(p)};
    if (step == "experts" || step == "weights") return {router(p)};
    if (step == "quantized")
      return {cast(weighs_input() ? weighed_rows(p) : call_.input(rank(p) + "x"), rank(p) + step)};
    if (step == "permuted") return {dispatched("expert_major_padded", step)};
    if (step == "dispatched") return {dispatched("rank_major", step)};
    if (step == "combined" || step == "y") return {combined(step)};
    if (pipeline() == "flow") return {};  // its products and gates make codes by rules of their own
    const bool sums_in_f32 = scores().ends_with("product");
    if (sums_in_f32 && (step == "h" || step == "expert_out")) return {};  // one operator has both
    if (step == "h") return {linear(p, "permuted", "w1", "h", false)};
    if (step == "expert_out") return {weighs_bias() ? biased(p) : second_product(p)};
    if (step == "dact") return {linear(p, "dexpert_out", "w2", "dact", true)};
    if (step == "dpermuted") return {linear(p, "dh", "w1", "dpermuted", true)};
    if (coded && step == "act") {
      if (!has(rank(p) + "act")) return {};
      return {cast(expected_output(rank(p) + "act"), rank(p) + "act")};
    }
    if (step == "act") return {gate(p, "swiglu", "act", "y")};
    if (step == "dh") return {gate(p, "swiglu_backward", "dh", "dx")};
    return {};
  }

  std::vector<LayerRow> rows() const {
    std::vector<LayerRow> all;
    for (Index p = 0; p < ranks_; ++p) {
      const Index begin = std::ssize(all);
      all.resize(all.size() + static_cast<std::size_t>(expected_output(rank(p) + "h").extent(0)));
      each_row(p, [&](Index row, Index, const LayerRow& of) { nth(all, begin + row) = of; });
    }
    return all;
  }

 private:
  const Tensor& expected_output(const std::string& name) const {
    const auto at = expected_.find(name);
    if (at != expected_.end()) return at->second;
    const auto stage = stages().find(name);
    if (stage == stages_.end())
      throw Error(Fault::shape, name + ": not among the expected outputs");
    return stage->second;
  }
  bool has(const std::string& name) const {
    return expected_.contains(name) || stages().contains(name);
  }
  /// Every stage of a call that does not keep them.
  const NamedTensors& stages() const {
    if (stages_.empty() && !call_.set.flag("keep_stages", false)) {
      Call kept = call_;
      kept.set.set("keep_stages", "true");
      stages_ = run_call(backend_, kept);
    }
    return stages_;
  }

  std::string text(const char* key, const char* fallback) const {
    return std::string(call_.set.text(key, fallback));
  }
  std::string pipeline() const { return text("pipeline", "mxfp8"); }
  std::string scores() const { return text("scores", "combine"); }
  bool weighs_input() const { return scores().starts_with("input"); }

  /// Those of these settings that the layer has.
  Parameters settings(std::initializer_list<const char*> keys) const {
    Parameters set;
    for (const char* key : keys)
      if (call_.set.has(key)) set.set(key, text(key, ""));
    return set;
  }
  const LinearRecipe& recipe() const {
    if (pipeline() == "bf16") return linear_recipe_named("bf16");
    if (pipeline() == "flow") return linear_recipe_named("fp8_blockwise");
    return linear_recipe_named(call_.set.text("recipe", "mxfp8_rceil"));
  }

  StepCall router(Index p) const {
    Call route{"route",
               {{"logits", shared(expected_output(rank(p) + "logits"))}},
               settings({"top_k", "score", "groups", "limited_groups", "group_score",
                         "other_groups", "normalize", "scale"})};
    if (call_.has("router.bias")) route.replace("bias", call_.input("router.bias"));
    return {std::move(route), {{rank(p) + "experts", "experts"}, {rank(p) + "weights", "weights"}}};
  }
  NamedTensors routed(Index p) const { return run_call(backend_, router(p).call); }

  /// Codes and scales of rows, as the recipe casts tokens.
  StepCall cast(const Tensor& rows, const std::string& stage) const {
    Call made = cast_call(recipe(), LinearSide::tokens, false);
    if (call_.set.has("format")) made.set.set("format", text("format", ""));
    made.replace("x", rows);
    return {std::move(made), {{stage + ".codes", "codes"}, {stage + ".scales", "scales"}}};
  }

  /// dispatch or combine without their rows.
  Call exchange(const char* op, const char* layout) const {
    Call made{op, {}, settings({"placement", "format"}), call_.world};
    const Index alignment = std::max<Index>(call_.set.integer("alignment", 32), recipe().alignment);
    const bool blockwise = pipeline() == "flow" || pipeline() == "fp8_blockwise";
    made.set.set("layout", layout);
    made.set.set("alignment", std::to_string(alignment));
    made.set.set("experts", std::to_string(experts_));
    made.set.set("precision", pipeline() == "mxfp8" ? "mxfp8"
                              : blockwise           ? "fp8_blockwise"
                                                    : "bf16");
    if (text("recipe", "mxfp8_rceil").find("floor") != std::string::npos)
      made.set.set("scale_mode", "floor");
    for (Index p = 0; p < ranks_; ++p)
      made.replace(rank(p) + "experts", std::move(routed(p).at("experts")));
    return made;
  }

  StepCall logits(Index p) const {
    const Tensor& x = call_.input(rank(p) + "x");
    const Tensor& router = call_.input("router");
    const std::string out = text("router_logits", "f32");
    const bool biased = call_.has("logits.bias");
    Call product{"grouped_matmul",
                 {{"x", shared(x)},
                  {"w", shared(resized(router, {1, router.extent(0), router.extent(1)}))},
                  {"group_ends", shared(ends_at({x.extent(0)}))}},
                 Parameters({{"out", biased ? "f32" : out}})};
    if (!biased) return {std::move(product), {{rank(p) + "logits", "y"}}};
    Call sum{
        "add_bias",
        {{"y", shared(made_by(backend_, product))}, {"bias", shared(call_.input("logits.bias"))}},
        Parameters({{"out", out}})};
    return {std::move(sum), {{rank(p) + "logits", "out"}}};
  }

  static Tensor ends_at(const std::vector<Index>& ends) {
    Tensor t(Dtype::i32, {static_cast<Index>(ends.size())});
    std::transform(ends.begin(), ends.end(), t.as<std::int32_t>(),
                   [](Index end) { return static_cast<std::int32_t>(end); });
    return t;
  }

  /// The weights of rank `p` as they multiply x.
  Shared input_weights(Index p) const {
    Shared weights = shared(std::move(routed(p).at("weights")));
    return scores() == "input" ? weights : in_bf16(backend_, weights);
  }

  /// What rank `p` quantises where weights multiply x: its selections by expert.
  Tensor weighed_rows(Index p) const {
    const Call made{"dispatch",
                    {{"rank0.x", shared(call_.input(rank(p) + "x"))},
                     {"rank0.experts", shared(std::move(routed(p).at("experts")))},
                     {"rank0.weights", input_weights(p)}},
                    Parameters({{"experts", std::to_string(experts_)}, {"precision", "bf16"}}),
                    call_.world};
    return std::move(run_call(backend_, made).at("rank0.x"));
  }

  /// The expert of each of these rows.
  Tensor sent_experts(Index p) const {
    Tensor experts = std::move(routed(p).at("experts"));
    std::sort(experts.as<std::int32_t>(), experts.as<std::int32_t>() + experts.elements());
    return resized(experts, {experts.elements(), 1});
  }

  StepCall dispatched(const char* layout, const std::string& step) const {
    StepCall result{exchange("dispatch", layout), {}};
    Call& made = result.call;
    for (Index p = 0; p < ranks_; ++p) {
      if (has(rank(p) + "quantized.codes")) {
        // Weighed rows lie in the order of sending: tokens of one expert each.
        if (weighs_input()) made.replace(rank(p) + "experts", sent_experts(p));
        made.replace(rank(p) + "codes", expected_output(rank(p) + "quantized.codes"));
        made.replace(rank(p) + "scales", expected_output(rank(p) + "quantized.scales"));
      } else {
        made.replace(rank(p) + "x", call_.input(rank(p) + "x"));
        if (weighs_input()) made.inputs[rank(p) + "weights"] = input_weights(p);
      }
      for (const char* part : {"", ".codes", ".scales"}) {
        const std::string own = rank(p) + step + part;
        if (has(own)) result.outputs.push_back({own, rank(p) + (*part ? part + 1 : "x")});
      }
    }
    return result;
  }

  /// Ends of the padded rows of this rank's experts.
  Tensor ends_of(Index p) const {
    Call made = exchange("dispatch", "expert_major_padded");
    for (Index q = 0; q < ranks_; ++q) made.replace(rank(q) + "x", call_.input(rank(q) + "x"));
    return std::move(run_call(backend_, made).at(rank(p) + "group_ends"));
  }

  /// Calls fn(row, expert of this rank, slot) for every row of rank `p` that is no padding: experts
  /// ascending, then ranks and their tokens.
  template <typename Fn>
  void each_row(Index p, Fn fn) const {
    const Tensor ends = ends_of(p);
    const Index local = experts_ / ranks_;
    std::vector<Index> next{0};
    next.insert(next.end(), ends.as<std::int32_t>(), ends.as<std::int32_t>() + local);
    for (Index q = 0; q < ranks_; ++q) {
      const NamedTensors chosen = routed(q);
      const Tensor& experts = chosen.at("experts");
      for (Index i = 0; i < experts.elements(); ++i) {
        const Index e = experts.as<std::int32_t>()[i] - p * local;
        if (e < 0 || e >= local) continue;
        const Index slots = experts.extent(1);
        fn(nth(next, e)++, e,
           LayerRow{q, i / slots, i % slots, chosen.at("weights").as<float>()[i]});
      }
    }
  }

  Tensor row_weights(Index p) const {
    Tensor rows(Dtype::f32, {expected_output(rank(p) + "h").extent(0)});
    each_row(p, [&](Index row, Index, const LayerRow& of) { rows.as<float>()[row] = of.weight; });
    return rows;
  }

  /// This rank's experts of w [E, ...].
  Tensor experts_of(const Tensor& w, Index p) const {
    std::vector<Index> own = range_of(experts_ / ranks_);
    for (Index& e : own) e += p * static_cast<Index>(own.size());
    return gathered(w, 0, own);
  }

  StepCall linear(Index p, const char* from, const char* weights, const char* to,
                  bool backward) const {
    Tensor w = experts_of(call_.input(weights), p);
    Call made{"grouped_linear",
              {{"w", shared(backward ? transposed(w) : std::move(w))},
               {"group_ends", shared(ends_of(p))}},
              settings({"format"})};
    made.set.set("recipe", std::string(recipe().name));
    copy_sums(call_, made);
    const bool coded = !has(rank(p) + from);
    for (const std::string part : coded ? std::vector{".codes", ".scales"} : std::vector{""})
      made.replace("x" + part, expected_output(rank(p) + from + part));
    const std::string bias = std::string(weights) + ".bias";
    if (!backward && call_.has(bias)) made.replace("bias", experts_of(call_.input(bias), p));
    return {std::move(made), {{rank(p) + to, "y"}}};
  }

  bool weighs_bias() const {
    return call_.has("w2.bias") && scores() == "swiglu" &&
           text("second_bias", "weighted") == "weighted";
  }

  StepCall second_product(Index p) const { return linear(p, "act", "w2", "expert_out", false); }

  /// Each row of the second product plus its expert's bias by its weight: a group of one row each.
  StepCall biased(Index p) const {
    Call product = second_product(p).call;
    product.inputs.erase("bias");
    Tensor y = std::move(run_call(backend_, product).at("y"));
    const Tensor bias = experts_of(call_.input("w2.bias"), p);
    Tensor terms(Dtype::f32, y.shape());
    each_row(p, [&](Index row, Index e, const LayerRow& of) {
      for (Index c = 0, n = y.extent(1); c < n; ++c) {  // a sum from +0 has no -0
        terms.as<float>()[row * n + c] = 0.0f + wide_value(bias, e * n + c) * of.weight;
      }
    });
    std::vector<Index> ends = range_of(y.extent(0));
    for (Index& end : ends) ++end;
    Call sum{"add_bias",
             {{"y", shared(std::move(y))},
              {"bias", shared(std::move(terms))},
              {"group_ends", shared(ends_at(ends))}},
             {}};
    return {std::move(sum), {{rank(p) + "expert_out", "out"}}};
  }

  StepCall gate(Index p, const std::string& op, const char* to, const char* inner) const {
    Call made{op,
              {{"x", shared(expected_output(rank(p) + "h"))}},
              settings({"activation", "halves", "bf16_steps", "alpha", "limit", "up_offset"})};
    made.set.set("rounding", "bf16");
    if (op == "swiglu" && call_.set.has("arithmetic"))
      made.set.set("arithmetic", text("arithmetic", ""));
    if (scores() == "swiglu") made.replace("probs", row_weights(p));
    if (op == "swiglu_backward") made.replace("dy", expected_output(rank(p) + "dact"));
    return {std::move(made), {{rank(p) + to, inner}}};
  }

  /// What the layer returns, too, where it has no shared expert.
  StepCall combined(const std::string& step) const {
    StepCall result{exchange("combine", "expert_major_padded"), {}};
    Call& made = result.call;
    if (call_.set.has("combine_steps")) made.set.set("steps", text("combine_steps", "f32"));
    for (Index p = 0; p < ranks_; ++p) {
      made.replace(rank(p) + "y", expected_output(rank(p) + "expert_out"));
      if (scores() == "combine")
        made.replace(rank(p) + "weights", std::move(routed(p).at("weights")));
      result.outputs.push_back({rank(p) + step, rank(p) + "out"});
    }
    return result;
  }

  /// bf16 values of rows that are codes, or the rows.
  Tensor values(const std::string& name) const {
    if (has(name)) return expected_output(name);
    const Tensor& scales = expected_output(name + ".scales");
    Call made{"dequantize",
              {{"codes", shared(expected_output(name + ".codes"))}, {"scales", shared(scales)}},
              settings({"format"})};
    if (scales.dtype() == Dtype::f32) made.set.set("block", "1x128");
    return made_by(backend_, made);
  }

  /// Rows of all ranks one behind the other.
  Tensor of_ranks(const std::string& step) const {
    std::vector<Tensor> parts;
    for (Index p = 0; p < ranks_; ++p) parts.push_back(values(rank(p) + step));
    return stacked(parts);
  }

  /// dw1 and dw2 over the rows of all ranks, in high precision unless the recipe casts rows there.
  std::vector<StepCall> gradient(const std::string& name) const {
    if (pipeline() == "flow") return {};  // of codes that no stage keeps
    const bool second = name == "dw2";
    std::vector<Index> ends;
    Index begin = 0;
    for (Index p = 0; p < ranks_; ++p) {
      const Tensor own = ends_of(p);
      for (Index e = 0; e < experts_ / ranks_; ++e)
        ends.push_back(begin + own.as<std::int32_t>()[e]);
      begin += values(rank(p) + "act").extent(0);
    }
    Call made{"grouped_matmul_wgrad",
              {{"dy", shared(of_ranks(second ? "dexpert_out" : "dh"))},
               {"x", shared(of_ranks(second ? "act" : "permuted"))},
               {"group_ends", shared(ends_at(ends))}},
              {}};
    if (pipeline() == "quantize_after") {
      made.op = "grouped_linear";
      made.set = settings({"recipe", "format"});
      made.set.set("only", "dw");
      made.replace("w", call_.input(second ? "w2" : "w1"));
    }
    copy_sums(call_, made);
    return {{std::move(made), {{name, "dw"}}}};
  }

  Backend& backend_;
  const Call& call_;
  const NamedTensors& expected_;
  mutable NamedTensors stages_;  ///< once they are asked for
  Index ranks_ = 0;
  Index experts_ = 0;
};

}  // namespace

Tensor stacked(const std::vector<Tensor>& parts) {
  Index rows = 0;
  for (const Tensor& part : parts) rows += part.extent(0);
  Tensor all(parts.front().dtype(), {rows, parts.front().extent(1)});
  std::byte* to = all.data();
  for (const Tensor& part : parts) to = std::copy_n(part.data(), part.bytes(), to);
  return all;
}

std::vector<StepCall> layer_steps(Backend& backend, const Call& call, const NamedTensors& expected,
                                  const std::string& name) {
  return Layer(backend, call, expected).steps(name);
}

std::vector<LayerRow> layer_rows(Backend& backend, const Call& call, const NamedTensors& expected) {
  return Layer(backend, call, expected).rows();
}

}  // namespace mxo
