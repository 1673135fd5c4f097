// A mixture-of-experts layer as router, exchange, layers of experts and gates.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "formats/error.h"
#include "golden/explain/steps.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

/// A layer across ranks with every step that it owes.
class Layer {
 public:
  Layer(Backend& backend, const Call& call, const NamedTensors& expected)
      : backend_(backend), call_(call), expected_(expected) {
    while (call.has(rank(ranks_) + "x")) ++ranks_;
    experts_ = call.input("router").extent(0);
  }

  std::vector<StepCall> steps(const std::string& name) {
    const std::size_t dot = name.find('.');
    const bool of_rank = name.starts_with("rank") && dot != std::string::npos;
    std::string step = of_rank ? name.substr(dot + 1) : name;
    for (const std::string part : {".codes", ".scales"}) {
      if (step.ends_with(part)) step.resize(step.size() - part.size());
    }
    if (!of_rank && (name == "dw1" || name == "dw2")) return gradient(name);
    if (!of_rank) return {};
    const Index p = std::stoll(name.substr(4, dot - 4));
    if (step == "logits") return {logits(p)};
    if (step == "experts" || step == "weights") return {route_step(p)};
    if (step == "quantized") {
      const bool weighed = weighs_input();
      return {cast(weighed ? weighed_rows(p) : call_.input(rank(p) + "x"), rank(p) + step)};
    }
    if (step == "permuted") return {dispatched("expert_major_padded", step)};
    if (step == "dispatched") return {dispatched("rank_major", step)};
    if (step == "combined") return {combined()};
    if (pipeline() == "flow") return {};  // its products and gates make codes by rules of their own
    const bool sums_in_f32 = call_.set.text("scores", "combine").ends_with("product");
    if (sums_in_f32 && (step == "h" || step == "expert_out")) return {};  // one operator has both
    if (step == "h") return {linear(p, "permuted", "w1", "h", false)};
    if (step == "expert_out") return {weighs_bias() ? biased(p) : second_product(p)};
    if (step == "dact") return {linear(p, "dexpert_out", "w2", "dact", true)};
    if (step == "dpermuted") return {linear(p, "dh", "w1", "dpermuted", true)};
    if (name.ends_with("act.codes") || name.ends_with("act.scales")) return coded_act(p);
    if (step == "act") return {gate(p, "swiglu", "act", "y")};
    if (step == "dh") return {gate(p, "swiglu_backward", "dh", "dx")};
    return {};
  }

 private:
  static std::string rank(Index p) { return "rank" + std::to_string(p) + "."; }
  const Tensor& owed(const std::string& name) const {
    const auto at = expected_.find(name);
    if (at == expected_.end()) throw Error(Fault::shape, name + ": not among the expected outputs");
    return at->second;
  }
  bool has(const std::string& name) const { return expected_.count(name) > 0; }

  void copy(Call& to, std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      if (call_.set.has(key)) to.set.set(key, std::string(call_.set.text(key, "")));
    }
  }
  void copy_sums(Call& to) const {
    for (const auto& [key, value] : call_.set.all()) {
      if (key == "sum" || key.starts_with("sum.")) to.set.set(key, value);
    }
  }

  Call route_call(Index p) const {
    Call route{"route", {}, {}, nullptr};
    copy(route, {"top_k", "score", "groups", "limited_groups", "group_score", "other_groups",
                 "normalize", "scale"});
    route.replace("logits", owed(rank(p) + "logits"));
    if (call_.has("router.bias")) route.replace("bias", call_.input("router.bias"));
    return route;
  }
  NamedTensors routed(Index p) const { return run_call(backend_, route_call(p)); }
  StepCall route_step(Index p) const {
    return {route_call(p), {{rank(p) + "experts", "experts"}, {rank(p) + "weights", "weights"}}};
  }

  std::string pipeline() const { return std::string(call_.set.text("pipeline", "mxfp8")); }
  const LinearRecipe& recipe() const {
    if (pipeline() == "bf16") return linear_recipe_named("bf16");
    if (pipeline() == "flow") return linear_recipe_named("fp8_blockwise");
    return linear_recipe_named(call_.set.text("recipe", "mxfp8_rceil"));
  }

  /// Codes and scales of rows, as the recipe casts tokens.
  StepCall cast(const Tensor& rows, const std::string& stage) const {
    Call made = cast_call(recipe(), LinearSide::tokens, false);
    copy(made, {"format"});
    made.replace("x", rows);
    return {std::move(made), {{stage + ".codes", "codes"}, {stage + ".scales", "scales"}}};
  }
  std::vector<StepCall> coded_act(Index p) const {
    if (has(rank(p) + "act")) return {cast(owed(rank(p) + "act"), rank(p) + "act")};
    return {};
  }

  Call exchange(const char* op) const {
    Call made{op, {}, {}, call_.world};
    copy(made, {"placement", "format"});
    made.set.set("alignment", std::to_string(std::max<Index>(call_.set.integer("alignment", 32),
                                                             recipe().alignment)));
    made.set.set("experts", std::to_string(experts_));
    const bool blockwise = pipeline() == "flow" || pipeline() == "fp8_blockwise";
    made.set.set("precision", pipeline() == "mxfp8" ? "mxfp8"
                              : blockwise           ? "fp8_blockwise"
                                                    : "bf16");
    if (call_.set.text("recipe", "mxfp8_rceil").find("floor") != std::string_view::npos) {
      made.set.set("scale_mode", "floor");
    }
    for (Index p = 0; p < ranks_; ++p) {
      NamedTensors chosen = routed(p);
      made.replace(rank(p) + "experts", std::move(chosen.at("experts")));
    }
    return made;
  }

  StepCall logits(Index p) const {
    Call product{"grouped_matmul", {}, {}, nullptr};
    product.replace("x", call_.input(rank(p) + "x"));
    const Tensor& router = call_.input("router");
    Tensor w(router.dtype(), {1, router.extent(0), router.extent(1)});
    std::copy_n(router.data(), router.bytes(), w.data());
    product.replace("w", std::move(w));
    Tensor ends(Dtype::i32, {1});
    ends.as<std::int32_t>()[0] = static_cast<std::int32_t>(call_.input(rank(p) + "x").extent(0));
    product.replace("group_ends", std::move(ends));
    const std::string out(call_.set.text("router_logits", "f32"));
    if (!call_.has("logits.bias")) {
      product.set.set("out", out);
      return {std::move(product), {{rank(p) + "logits", "y"}}};
    }
    product.set.set("out", "f32");
    NamedTensors sums = run_call(backend_, product);
    Call biased{"add_bias", {}, {}, nullptr};
    biased.replace("y", std::move(sums.at("y")));
    biased.replace("bias", call_.input("logits.bias"));
    biased.set.set("out", out);
    return {std::move(biased), {{rank(p) + "logits", "out"}}};
  }

  bool weighs_input() const { return call_.set.text("scores", "combine").starts_with("input"); }

  /// The weights of rank `p` as they multiply x.
  Tensor input_weights(Index p) const {
    NamedTensors out = routed(p);
    if (call_.set.text("scores", "combine") == "input") return std::move(out.at("weights"));
    Call narrow{"cast", {}, {}, nullptr};
    narrow.replace("x", std::move(out.at("weights")));
    NamedTensors rounded = run_call(backend_, narrow);
    return std::move(rounded.begin()->second);
  }

  /// What rank `p` quantises where weights multiply x: its selections by expert.
  Tensor weighed_rows(Index p) const {
    Call made{"dispatch", {}, {}, call_.world};
    made.set.set("experts", std::to_string(experts_));
    made.set.set("precision", "bf16");
    NamedTensors chosen = routed(p);
    made.replace("rank0.x", call_.input(rank(p) + "x"));
    made.replace("rank0.experts", std::move(chosen.at("experts")));
    made.replace("rank0.weights", input_weights(p));
    NamedTensors out = run_call(backend_, made);
    return std::move(out.at("rank0.x"));
  }

  /// The expert of each of these rows.
  Tensor sent_experts(Index p) const {
    NamedTensors chosen = routed(p);
    const Tensor& experts = chosen.at("experts");
    Tensor sorted(Dtype::i32, {experts.elements(), 1});
    auto* to = sorted.as<std::int32_t>();
    std::sort(to, std::copy_n(experts.as<std::int32_t>(), experts.elements(), to));
    return sorted;
  }

  StepCall dispatched(const char* layout, const std::string& step) const {
    Call made = exchange("dispatch");
    made.set.set("layout", layout);
    StepCall result;
    for (Index p = 0; p < ranks_; ++p) {
      if (has(rank(p) + "quantized.codes")) {
        // Weighed rows lie in the order of sending: tokens of one expert each.
        if (weighs_input()) made.replace(rank(p) + "experts", sent_experts(p));
        made.replace(rank(p) + "codes", owed(rank(p) + "quantized.codes"));
        made.replace(rank(p) + "scales", owed(rank(p) + "quantized.scales"));
      } else {
        made.replace(rank(p) + "x", call_.input(rank(p) + "x"));
        if (weighs_input()) made.replace(rank(p) + "weights", input_weights(p));
      }
      for (const char* part : {"", ".codes", ".scales"}) {
        const std::string own = rank(p) + step + part;
        if (has(own)) result.outputs.push_back({own, rank(p) + (*part ? part + 1 : "x")});
      }
    }
    result.call = std::move(made);
    return result;
  }

  /// Ends of the padded rows of this rank's experts.
  Tensor ends_of(Index p) const {
    Call made = exchange("dispatch");
    made.set.set("layout", "expert_major_padded");
    for (Index q = 0; q < ranks_; ++q) made.replace(rank(q) + "x", call_.input(rank(q) + "x"));
    NamedTensors out = run_call(backend_, made);
    return std::move(out.at(rank(p) + "group_ends"));
  }

  /// Calls fn(row, expert of this rank, weight) for every row of rank `p` that is no padding:
  /// experts ascending, then ranks and their tokens.
  template <typename Fn>
  void each_row(Index p, Fn fn) const {
    const Tensor ends = ends_of(p);
    const Index local = experts_ / ranks_;
    std::vector<Index> next(static_cast<std::size_t>(local));
    for (Index e = 1; e < local; ++e) {
      next[static_cast<std::size_t>(e)] = ends.as<std::int32_t>()[e - 1];
    }
    for (Index q = 0; q < ranks_; ++q) {
      const NamedTensors chosen = routed(q);
      const Tensor& experts = chosen.at("experts");
      for (Index i = 0; i < experts.elements(); ++i) {
        const Index e = experts.as<std::int32_t>()[i] - p * local;
        if (e < 0 || e >= local) continue;
        fn(next[static_cast<std::size_t>(e)]++, e, chosen.at("weights").as<float>()[i]);
      }
    }
  }

  Tensor row_weights(Index p) const {
    Tensor rows(Dtype::f32, {owed(rank(p) + "h").extent(0)});
    each_row(p, [&](Index row, Index, float weight) { rows.as<float>()[row] = weight; });
    return rows;
  }

  /// This rank's experts of w [E, ...].
  Tensor experts_of(const Tensor& w, Index p) const {
    std::vector<Index> shape = w.shape();
    shape[0] = experts_ / ranks_;
    Tensor part(w.dtype(), shape);
    std::memcpy(part.data(), w.data() + static_cast<std::size_t>(p) * part.bytes(), part.bytes());
    return part;
  }

  StepCall linear(Index p, const char* from, const char* weights, const char* to,
                  bool backward) const {
    Call made{"grouped_linear", {}, {}, nullptr};
    copy(made, {"format"});
    made.set.set("recipe", std::string(recipe().name));
    copy_sums(made);
    const std::string rows = rank(p) + from;
    if (has(rows)) {
      made.replace("x", owed(rows));
    } else {
      made.replace("x.codes", owed(rows + ".codes"));
      made.replace("x.scales", owed(rows + ".scales"));
    }
    Tensor w = experts_of(call_.input(weights), p);
    made.replace("w", backward ? transposed(w) : std::move(w));
    const std::string bias = std::string(weights) + ".bias";
    if (!backward && call_.has(bias)) made.replace("bias", experts_of(call_.input(bias), p));
    made.replace("group_ends", ends_of(p));
    return {std::move(made), {{rank(p) + to, "y"}}};
  }

  bool weighs_bias() const {
    return call_.has("w2.bias") && call_.set.text("scores", "combine") == "swiglu" &&
           call_.set.text("second_bias", "weighted") == "weighted";
  }

  StepCall second_product(Index p) const { return linear(p, "act", "w2", "expert_out", false); }

  /// Each row of the second product plus its expert's bias by its weight: a group of one row each.
  StepCall biased(Index p) const {
    Call product = second_product(p).call;
    product.inputs.erase("bias");
    Tensor y = std::move(run_call(backend_, product).at("y"));
    const Tensor bias = experts_of(call_.input("w2.bias"), p);
    Tensor terms(Dtype::f32, y.shape());
    Tensor ends(Dtype::i32, {y.extent(0)});
    std::iota(ends.as<std::int32_t>(), ends.as<std::int32_t>() + y.extent(0), 1);
    each_row(p, [&](Index row, Index e, float weight) {
      for (Index c = 0, n = y.extent(1); c < n; ++c) {  // a sum from +0 has no -0
        terms.as<float>()[row * n + c] = 0.0f + wide_value(bias, e * n + c) * weight;
      }
    });
    Call add{"add_bias", {}, {}, nullptr};
    add.replace("y", std::move(y));
    add.replace("bias", std::move(terms));
    add.replace("group_ends", std::move(ends));
    return {std::move(add), {{rank(p) + "expert_out", "out"}}};
  }

  StepCall gate(Index p, const char* op, const char* to, const char* inner) const {
    Call made{op, {}, {}, nullptr};
    made.set.set("rounding", "bf16");
    copy(made, {"activation", "halves", "bf16_steps", "alpha", "limit", "up_offset"});
    if (std::string_view(op) == "swiglu") copy(made, {"arithmetic"});
    if (call_.set.text("scores", "combine") == "swiglu") made.replace("probs", row_weights(p));
    made.replace("x", owed(rank(p) + "h"));
    if (std::string_view(op) == "swiglu_backward") made.replace("dy", owed(rank(p) + "dact"));
    return {std::move(made), {{rank(p) + to, inner}}};
  }

  StepCall combined() const {
    Call made = exchange("combine");
    if (call_.set.has("combine_steps")) {
      made.set.set("steps", std::string(call_.set.text("combine_steps", "f32")));
    }
    made.set.set("layout", "expert_major_padded");
    StepCall result;
    for (Index p = 0; p < ranks_; ++p) {
      made.replace(rank(p) + "y", owed(rank(p) + "expert_out"));
      NamedTensors chosen = routed(p);
      if (call_.set.text("scores", "combine") == "combine") {
        made.replace(rank(p) + "weights", std::move(chosen.at("weights")));
      }
      result.outputs.push_back({rank(p) + "combined", rank(p) + "out"});
    }
    result.call = std::move(made);
    return result;
  }

  /// bf16 values of rows that are codes, or the rows.
  Tensor values(const std::string& name) const {
    if (has(name)) return owed(name);
    Call made{"dequantize", {}, {}, nullptr};
    copy(made, {"format"});
    made.replace("codes", owed(name + ".codes"));
    made.replace("scales", owed(name + ".scales"));
    if (owed(name + ".scales").dtype() == Dtype::f32) made.set.set("block", "1x128");
    NamedTensors out = run_call(backend_, made);
    return std::move(out.begin()->second);
  }

  /// Rows of all ranks one behind the other.
  Tensor stacked(const std::string& step) const {
    std::vector<Tensor> parts;
    Index rows = 0;
    for (Index p = 0; p < ranks_; ++p) {
      parts.push_back(values(rank(p) + step));
      rows += parts.back().extent(0);
    }
    Tensor all(parts.front().dtype(), {rows, parts.front().extent(1)});
    std::byte* to = all.data();
    for (const Tensor& part : parts) to = std::copy_n(part.data(), part.bytes(), to);
    return all;
  }

  /// dw1 and dw2 over the rows of all ranks, in high precision unless the recipe casts rows there.
  std::vector<StepCall> gradient(const std::string& name) const {
    if (pipeline() == "flow") return {};  // of codes that no stage keeps
    const bool casts = pipeline() == "quantize_after";
    Call made{casts ? "grouped_linear" : "grouped_matmul_wgrad", {}, {}, nullptr};
    copy_sums(made);
    if (casts) {
      copy(made, {"recipe", "format"});
      made.set.set("only", "dw");
      made.replace("w", call_.input(name == "dw2" ? "w2" : "w1"));
    }
    made.replace("dy", stacked(name == "dw2" ? "dexpert_out" : "dh"));
    made.replace("x", stacked(name == "dw2" ? "act" : "permuted"));
    const Index local = experts_ / ranks_;
    Tensor ends(Dtype::i32, {experts_});
    Index begin = 0;
    for (Index p = 0; p < ranks_; ++p) {
      const Tensor own = ends_of(p);
      for (Index e = 0; e < local; ++e) {
        ends.as<std::int32_t>()[p * local + e] =
            static_cast<std::int32_t>(begin + own.as<std::int32_t>()[e]);
      }
      begin += values(rank(p) + "act").extent(0);
    }
    made.replace("group_ends", std::move(ends));
    return {{std::move(made), {{name, "dw"}}}};
  }

  Backend& backend_;
  const Call& call_;
  const NamedTensors& expected_;
  Index ranks_ = 0;
  Index experts_ = 0;
};

}  // namespace

std::vector<StepCall> layer_steps(Backend& backend, const Call& call, const NamedTensors& expected,
                                  const std::string& name) {
  return Layer(backend, call, expected).steps(name);
}

}  // namespace mxo
