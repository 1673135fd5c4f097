// The MoE layer against the same layer put together from single operators, bit for bit.
#include <algorithm>

#include <gtest/gtest.h>

#include "formats/exp.h"

#include "tests/support/moe_cases.h"
#include "tests/support/same.h"

namespace mxo::test::moe_layer_twin_test {
namespace {

struct Twin {
  const char* pipeline;
  const char* recipe;
  const char* router_logits = "f32";
  bool biases = false;
  const char* sum = "exact";
};

/// One rank's layer by the operators of the catalogue, softmax weights at the combine.
class LayerByOperators : public ByOperators {
 public:
  LayerByOperators(Backend& backend, const NamedTensors& in, const Twin& twin)
      : ByOperators(backend, in), mx_(twin.pipeline == std::string("mxfp8")) {
    const bool bf16 = twin.pipeline == std::string("bf16");
    recipe_ = bf16 ? "bf16" : twin.recipe;
    product_ = std::string("sum=") + twin.sum;
    linear_ = product_ + " recipe=" + recipe_;
    bf16_logits_ = twin.router_logits == std::string("bf16");
    const bool floor = recipe_.find("floor") != std::string::npos;
    scale_mode_ = floor ? " scale_mode=floor" : " scale_mode=rceil";
    wire_ = "experts=8 layout=expert_major_padded" + scale_mode_ +
            (mx_ ? " precision=mxfp8" : " precision=bf16");
  }

  NamedTensors run() {
    route();
    forward();
    backward();
    through_router();
    return std::move(out_);
  }

 private:
  /// One element after another: the sum in binary64, which is exact here, f32, the bias in f32.
  void add_logits_bias() {
    const Tensor& x = in_.at("rank0.x");
    const Tensor& router = in_.at("router");
    const Index count = router.extent(0);
    for (Index i = 0; i < logits_.elements(); ++i) {
      double sum = 0;
      for (Index d = 0; d < x.extent(1); ++d)
        sum += double{get(x, i / count * x.extent(1) + d)} *
               double{get(router, i % count * x.extent(1) + d)};
      put(logits_, i, static_cast<float>(sum) + get(in_.at("logits.bias"), i % count));
    }
  }

  void route() {
    const Tensor& x = in_.at("rank0.x");
    const Tensor& router = in_.at("router");
    Tensor w(Dtype::bf16, {1, router.extent(0), router.extent(1)});
    std::copy_n(router.data(), router.bytes(), w.data());
    const auto tokens = static_cast<std::int32_t>(x.extent(0));
    logits_ = call("grouped_matmul", {{"x", x}, {"w", w}, {"group_ends", group_ends_of({tokens})}},
                   bf16_logits_ ? "out=bf16" : "out=f32")["y"];
    if (in_.contains("logits.bias")) add_logits_bias();
    NamedTensors routed = call("route", {{"logits", logits_}}, "top_k=2");
    experts_ = routed["experts"];
    weights_ = routed["weights"];
  }

  void forward() {
    u_ = call("dispatch", {{"rank0.x", in_.at("rank0.x")}, {"rank0.experts", experts_}}, wire_);
    ends_ = u_["rank0.group_ends"];
    h_ = call("grouped_linear", first({}), linear_)["y"];
    act_ = call("swiglu", {{"x", h_}}, "rounding=bf16")["y"];
    NamedTensors second{{"x", act_}, {"w", in_.at("w2")}, {"group_ends", ends_}};
    if (in_.contains("w2.bias")) second["bias"] = in_.at("w2.bias");
    o_ = call("grouped_linear", second, linear_)["y"];
    out_["rank0.y"] =
        call("combine", {{"rank0.y", o_}, {"rank0.experts", experts_}, {"rank0.weights", weights_}},
             wire_)["rank0.out"];
  }

  void backward() {
    NamedTensors dy = call("combine_backward",
                           {{"rank0.y", o_},
                            {"rank0.dout", in_.at("rank0.dy")},
                            {"rank0.experts", experts_},
                            {"rank0.weights", weights_}},
                           wire_);
    dweights_ = dy["rank0.dweights"];
    const Tensor dact = mx_ ? through_codes(dy) : through_rows(dy["rank0.dy"]);
    const Tensor dh = call("swiglu_backward", {{"x", h_}, {"dy", dact}}, "rounding=bf16")["dx"];
    NamedTensors back = call("grouped_linear", first(dh), linear_);
    du_ = back["dx"];
    out_["dw1"] = back["dw"];
    if (in_.contains("w1.bias")) out_["w1.dbias"] = column_sums(dh);
  }

  /// The first product's operands.
  NamedTensors first(const Tensor& dh) {
    NamedTensors in{{"w", in_.at("w1")}, {"group_ends", ends_}};
    if (in_.contains("w1.bias")) in["bias"] = in_.at("w1.bias");
    if (mx_) {
      in["x.codes"] = u_["rank0.codes"];
      in["x.scales"] = u_["rank0.scales"];
    } else {
      in["x"] = u_["rank0.x"];
    }
    if (dh.rank() > 0) in["dy"] = dh;
    return in;
  }

  /// By expert, rows ascending, in f32; bf16 at the end.
  Tensor column_sums(const Tensor& rows) const {
    const Index columns = rows.extent(1);
    Tensor sums(Dtype::bf16, {ends_.elements(), columns});
    Index r = 0;
    for (Index e = 0; e < ends_.elements(); ++e) {
      std::vector<float> sum(static_cast<std::size_t>(columns), 0.0f);
      for (; r < ends_.as<std::int32_t>()[e]; ++r) {
        for (Index c = 0; c < columns; ++c)
          sum[static_cast<std::size_t>(c)] += get(rows, r * columns + c);
      }
      for (Index c = 0; c < columns; ++c)
        put(sums, e * columns + c, sum[static_cast<std::size_t>(c)]);
    }
    return sums;
  }

  Tensor through_rows(const Tensor& dy) {
    NamedTensors back =
        call("grouped_linear",
             {{"x", act_}, {"w", in_.at("w2")}, {"group_ends", ends_}, {"dy", dy}}, linear_);
    out_["dw2"] = back["dw"];
    if (in_.contains("w2.bias")) out_["w2.dbias"] = column_sums(dy);
    return back["dx"];
  }

  /// The gradient came as codes along D; w2 is quantised along D, too, and lies transposed.
  Tensor through_codes(NamedTensors& dy) {
    NamedTensors w =
        call("quantize", {{"x", in_.at("w2")}}, "block=32x1 transpose=true" + scale_mode_);
    const Tensor high =
        call("dequantize", {{"codes", dy["rank0.dy.codes"]}, {"scales", dy["rank0.dy.scales"]}},
             "")["x"];
    if (in_.contains("w2.bias")) out_["w2.dbias"] = column_sums(high);
    out_["dw2"] = call("grouped_matmul_wgrad", {{"dy", high}, {"x", act_}, {"group_ends", ends_}},
                       product_)["dw"];
    return call("grouped_matmul",
                {{"x.codes", dy["rank0.dy.codes"]},
                 {"x.scales", dy["rank0.dy.scales"]},
                 {"w.codes", w["codes"]},
                 {"w.scales", w["scales"]},
                 {"group_ends", ends_}},
                product_)["y"];
  }

  /// The row that slot j of token t became, on one rank: experts ascending, then tokens.
  Index row_of(Index t, Index j) const {
    const auto* experts = experts_.as<std::int32_t>();
    const Index k = experts_.extent(1);
    const std::int32_t e = experts[t * k + j];
    Index row = e == 0 ? 0 : ends_.as<std::int32_t>()[e - 1];
    for (Index i = 0; i < t * k; ++i) row += experts[i] == e ? 1 : 0;
    return row;
  }

  void through_router() {
    const Tensor& x = in_.at("rank0.x");
    const Tensor& router = in_.at("router");
    const Index tokens = x.extent(0);
    const Index width = x.extent(1);
    const Index count = router.extent(0);
    const Index k = experts_.extent(1);
    Tensor dx(Dtype::bf16, {tokens, width});
    Tensor drouter(Dtype::f32, {count, width});
    Tensor dbias(Dtype::f32, {count});
    for (Index t = 0; t < tokens; ++t) {
      const std::vector<float> dlogits = dlogits_of(t);
      for (Index e = 0; e < count; ++e)
        dbias.as<float>()[e] += dlogits[static_cast<std::size_t>(e)];
      for (Index d = 0; d < width; ++d) {
        float from_experts = 0;
        float from_router = 0;
        for (Index j = 0; j < k; ++j) from_experts += get(du_, row_of(t, j) * width + d);
        for (Index e = 0; e < count; ++e) {
          const float g = dlogits[static_cast<std::size_t>(e)];
          from_router += g * get(router, e * width + d);
          drouter.as<float>()[e * width + d] += g * get(x, t * width + d);
        }
        put(dx, t * width + d, from_experts + from_router);
      }
    }
    out_["rank0.dx"] = std::move(dx);
    out_["drouter"] = std::move(drouter);
    if (in_.contains("logits.bias")) out_["logits.dbias"] = std::move(dbias);
  }

  /// Softmax, normalised over the chosen: with S the sum of their scores, dw_j/ds_i =
  /// (delta_ij - w_j) / S.
  std::vector<float> dlogits_of(Index t) {
    const Index count = logits_.extent(1);
    std::vector<float> logits;
    for (Index e = 0; e < count; ++e) logits.push_back(get(logits_, t * count + e));
    const Index k = experts_.extent(1);
    const std::int32_t* chosen = experts_.as<std::int32_t>() + t * k;
    const float* g = dweights_.as<float>() + t * k;
    std::vector<float> s(static_cast<std::size_t>(count));
    const float top = *std::max_element(logits.begin(), logits.end());
    float sum = 0;
    for (std::size_t e = 0; e < s.size(); ++e) sum += s[e] = exp_rn(logits[e] - top);
    for (float& value : s) value /= sum;
    float total = 0;
    float dot = 0;
    for (Index j = 0; j < k; ++j) {
      total += s[static_cast<std::size_t>(chosen[j])];
      dot += g[j] * s[static_cast<std::size_t>(chosen[j])];
    }
    total += 1e-20f;
    std::vector<float> ds(s.size(), 0.0f);
    float mean = 0;
    for (Index j = 0; j < k; ++j) {
      const auto e = static_cast<std::size_t>(chosen[j]);
      ds[e] = (g[j] - dot / total) / total;
      mean += ds[e] * s[e];
    }
    for (std::size_t e = 0; e < s.size(); ++e) ds[e] = s[e] * (ds[e] - mean);
    return ds;
  }

  bool mx_;
  bool bf16_logits_ = false;
  std::string recipe_;
  std::string scale_mode_, wire_, linear_, product_;
  Tensor logits_, experts_, weights_, dweights_, h_, act_, o_, du_;
  NamedTensors u_;
};

class MoeLayerTwin : public testing::TestWithParam<Twin> {};

INSTANTIATE_TEST_SUITE_P(Recipes, MoeLayerTwin,
                         testing::Values(Twin{"mxfp8", "mxfp8_rceil"}, Twin{"mxfp8", "mxfp8_floor"},
                                         Twin{"quantize_after", "mxfp8_rceil"},
                                         Twin{"quantize_after", "mxfp8_floor_wgrad_with_hp"},
                                         Twin{"quantize_after", "fp8_rowwise"},
                                         Twin{"bf16", "bf16"},
                                         Twin{"bf16", "bf16", "f32", true, "fma_chain"},
                                         Twin{"mxfp8", "mxfp8_rceil", "bf16", true, "fma_chain"}));

TEST_P(MoeLayerTwin, IsTheCompositionOfItsOperators) {
  const auto cpu = make_backend("cpu", 2);
  MoeShape shape;
  shape.biases = GetParam().biases;
  const NamedTensors in = moe_inputs(shape, 11);
  const Twin& twin = GetParam();
  const NamedTensors layer = run_moe(
      *cpu, in,
      parameters(std::string("top_k=2 pipeline=") + twin.pipeline + " recipe=" + twin.recipe +
                 " sum=" + twin.sum + " router_logits=" + twin.router_logits));
  expect_same(LayerByOperators(*cpu, in, GetParam()).run(), layer);
}

}  // namespace
}  // namespace mxo::test::moe_layer_twin_test
