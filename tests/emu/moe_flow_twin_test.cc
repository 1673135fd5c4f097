// The casting-free pipeline against the operators it is made of, bit for bit.
#include "tests/support/moe_cases.h"
#include "tests/support/same.h"

namespace mxo::test::moe_flow_twin_test {
namespace {

/// The layer by calls of the catalogue: one rank, weights at the experts, so that gradients of h
/// need the weights and those of the weights come from swiglu.
class FlowByOperators : public ByOperators {
 public:
  FlowByOperators(Backend& backend, const NamedTensors& in, const std::string& format)
      : ByOperators(backend, in), format_(format) {}

  /// Stages of the layer under their names.
  NamedTensors run(const NamedTensors& kept) {
    // The router is the same in every pipeline; its twin is in moe_layer_twin_test.
    const Tensor logits = kept.at("rank0.logits");
    NamedTensors routed = call("route", {{"logits", logits}}, "top_k=2");
    const Tensor experts = routed.at("experts");
    const NamedTensors u =
        call("dispatch", {{"rank0.x", in_.at("rank0.x")}, {"rank0.experts", experts}}, wire());
    ends_ = u.at("rank0.group_ends");
    const Rows u_rows{u.at("rank0.codes"), u.at("rank0.scales")};
    out_["rank0.permuted.codes"] = u_rows.codes;
    out_["rank0.permuted.scales"] = u_rows.scales;
    const Tensor weights = row_weights(experts, routed.at("weights"));

    const Rows w1 = square(in_.at("w1"));
    const Rows w2 = square(in_.at("w2"));
    const Tensor h = product(u_rows, w1);
    out_["rank0.h"] = h;
    const Rows act =
        quantised(call("swiglu", {{"x", h}, {"probs", weights}}, "rounding=none").at("y"));
    out_["rank0.act.codes"] = act.codes;
    const Tensor o = product(act, w2);
    out_["rank0.y"] =
        call("combine", {{"rank0.y", o}, {"rank0.experts", experts}}, wire()).at("rank0.out");

    const NamedTensors dy = call(
        "combine_backward",
        {{"rank0.y", o}, {"rank0.dout", in_.at("rank0.dy")}, {"rank0.experts", experts}}, wire());
    const Rows g{dy.at("rank0.dy.codes"), dy.at("rank0.dy.scales")};
    const Tensor dact = product(g, transposed_weight(w2));
    out_["rank0.dact"] = dact;
    out_["dw2"] = wgrad(turned(g), turned(act));
    const Rows dh = quantised(
        call("swiglu_backward", {{"x", h}, {"probs", weights}, {"dy", dact}}, "").at("dx"));
    out_["rank0.dh.codes"] = dh.codes;
    out_["rank0.dh.scales"] = dh.scales;
    out_["rank0.dpermuted"] = product(dh, transposed_weight(w1));
    out_["dw1"] = wgrad(turned(dh), turned(u_rows));
    return std::move(out_);
  }

 private:
  struct Rows {
    Tensor codes;
    Tensor scales;
  };

  std::string wire() const {
    return "experts=8 layout=expert_major_padded alignment=128 precision=fp8_blockwise format=" +
           format_;
  }
  Rows quantised(const Tensor& x, const std::string& block = "1x128") {
    NamedTensors q =
        call("quantize", {{"x", x}}, "rule=flow block=" + block + " format=" + format_);
    return {q.at("codes"), q.at("scales")};
  }
  Rows square(const Tensor& w) { return quantised(w, "128x128"); }
  /// Of two sides, both of one format.
  Tensor multiplied(const char* op, const std::string& a, const Rows& of_a, const std::string& b,
                    const Rows& of_b, const char* output) {
    return call(op,
                {{a + ".codes", of_a.codes},
                 {a + ".scales", of_a.scales},
                 {b + ".codes", of_b.codes},
                 {b + ".scales", of_b.scales},
                 {"group_ends", ends_}},
                "format_" + a + "=" + format_ + " format_" + b + "=" + format_)
        .at(output);
  }
  Tensor product(const Rows& x, const Rows& w) {
    return multiplied("grouped_matmul", "x", x, "w", w, "y");
  }
  Tensor wgrad(const Rows& dy, const Rows& x) {
    return multiplied("grouped_matmul_wgrad", "dy", dy, "x", x, "dw");
  }
  /// T of rows, its codes as [R, K] again.
  Rows turned(const Rows& rows) {
    const NamedTensors t =
        call("scaling_aware_transpose",
             {{"codes", rows.codes}, {"scales", rows.scales}, {"group_ends", ends_}},
             "format=" + format_);
    return {exchanged(t.at("codes")), t.at("scales")};
  }
  /// Codes and scales [E, K, N] of [E, N, K]: the same squares.
  static Rows transposed_weight(const Rows& w) { return {exchanged(w.codes), exchanged(w.scales)}; }
  /// The weight of each padded row: on one rank rows lie by expert, then by token.
  Tensor row_weights(const Tensor& experts, const Tensor& weights) const {
    const auto* ends = ends_.as<std::int32_t>();
    Tensor rows(Dtype::f32, {out_.at("rank0.permuted.codes").extent(0)});
    for (std::int32_t e = 0; e < 8; ++e) {
      Index at = e == 0 ? 0 : ends[e - 1];
      for (Index i = 0; i < experts.elements(); ++i) {
        if (experts.as<std::int32_t>()[i] == e) rows.as<float>()[at++] = weights.as<float>()[i];
      }
    }
    return rows;
  }

  std::string format_;
};

TEST(MoeFlow, IsTheCompositionOfItsOperators) {
  const auto cpu = make_backend("cpu", 2);
  MoeShape shape;
  shape.width = 160;  // two blocks a row, the second of them short
  shape.tokens = {91};
  const NamedTensors in = moe_inputs(shape, 21);
  Parameters set = parameters("top_k=2 pipeline=flow scores=swiglu keep_stages=true");
  for (const char* format : {"e4m3", "e4m3fnuz"}) {
    set.set("format", format);
    const NamedTensors layer = run_moe(*cpu, in, set);
    for (const auto& [name, tensor] : FlowByOperators(*cpu, in, format).run(layer)) {
      ASSERT_TRUE(layer.contains(name)) << name;
      expect_same(tensor, layer.at(name), name + " " + format);
    }
  }
}

}  // namespace
}  // namespace mxo::test::moe_flow_twin_test
