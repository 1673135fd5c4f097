// The MoE layer: the same bits however it is run, and every stage as the operators it is made of.
#include "ops/moe_layer.h"

#include "tests/support/moe_cases.h"
#include "tests/support/products.h"
#include "tests/support/same.h"

namespace mxo::test::moe_layer_test {
namespace {

class MoeLayers : public testing::TestWithParam<Layer> {
 protected:
  MoeShape shape() const {
    MoeShape s;
    s.shared = GetParam().shared;
    s.biases = GetParam().biases;
    return s;
  }
  Parameters set() const { return parameters(GetParam().set); }
  std::unique_ptr<Backend> cpu_ = make_backend("cpu", 2);
};

INSTANTIATE_TEST_SUITE_P(Layers, MoeLayers, testing::ValuesIn(layers()),
                         [](const auto& layer) { return std::string(layer.param.name); });

TEST_P(MoeLayers, GivesTheSameBitsOnOneTwoFourAndEightRanks) {
  MoeShape s = shape();
  const NamedTensors one = run_moe(*cpu_, moe_inputs(s, 3), set());
  const std::vector<std::vector<Index>> splits = {
      {20, 17}, {0, 37}, {9, 10, 0, 18}, {1, 2, 3, 4, 5, 6, 7, 9}};
  for (const std::vector<Index>& tokens : splits) {
    s.tokens = tokens;
    const NamedTensors many = run_moe(*cpu_, moe_inputs(s, 3), set());
    for (const char* name : {"y", "dx"})
      EXPECT_EQ(joined(one, name, 1), joined(many, name, tokens.size()))
          << name << " on " << tokens.size();
    for (const auto& [name, tensor] : one) {
      if (name.starts_with("rank")) continue;
      ASSERT_TRUE(many.contains(name)) << name;
      EXPECT_EQ(std::memcmp(tensor.data(), many.at(name).data(), tensor.bytes()), 0)
          << name << " on " << tokens.size();
    }
  }
}

TEST_P(MoeLayers, GivesTheSameBitsWithRecomputeUnfusedOneThreadAndByTheReference) {
  MoeShape s = shape();
  s.width = s.hidden = 32;
  s.tokens = {20, 17};
  const NamedTensors in = moe_inputs(s, 5);
  const NamedTensors expected_output = run_moe(*cpu_, in, set());
  Parameters other = set();
  other.set("recompute", "true");
  expect_same(expected_output, run_moe(*cpu_, in, other));
  other.set("placement", "unfused");
  expect_same(expected_output, run_moe(*cpu_, in, other));
  expect_same(expected_output, run_moe(*make_backend("cpu", 1), in, set()));
  expect_same(expected_output, run_moe(*make_backend("reference", 1), in, set()));
}

TEST_P(MoeLayers, KeepsEveryStageAndItsGradient) {
  MoeShape s = shape();
  s.tokens = {20, 17};
  Parameters keep = set();
  keep.set("keep_stages", "true");
  const NamedTensors in = moe_inputs(s, 7);
  const NamedTensors plain = run_moe(*cpu_, in, set());
  const NamedTensors kept = run_moe(*cpu_, in, keep);
  for (const auto& [name, tensor] : plain)
    EXPECT_EQ(std::memcmp(tensor.data(), kept.at(name).data(), tensor.bytes()), 0) << name;
  for (std::size_t p = 0; p < 2; ++p) {
    for (const std::string_view stage : kMoeStages) {
      for (const std::string& name : {std::string(stage), "d" + std::string(stage)})
        EXPECT_TRUE(kept.contains(of_rank(p, name)) || kept.contains(of_rank(p, name + ".codes")))
            << name;
    }
  }
  if (GetParam().shared == 0) {
    EXPECT_EQ(joined(kept, "combined", 2), joined(kept, "y", 2));
  }
}

TEST(MoeLayer, TakesAGateWithoutAnUpHalf) {
  NamedTensors in = moe_inputs({}, 13);
  in["w1"] = random_floats(Dtype::bf16, {8, 96, 64}, 3, 1);
  const auto cpu = make_backend("cpu", 2);
  for (const char* pipeline : {"mxfp8", "flow", "bf16"}) {
    const std::string gate = "top_k=2 activation=relu_squared halves=gate_only keep_stages=true";
    const NamedTensors out = run_moe(*cpu, in, parameters(gate + " pipeline=" + pipeline));
    const Tensor& h = out.at("rank0.h");
    EXPECT_EQ(h.extent(1), 96);
    if (pipeline == std::string("flow")) continue;  // its activations are codes
    const Tensor& act = out.at("rank0.act");
    ASSERT_EQ(act.shape(), h.shape());
    for (Index i = 0; i < h.elements(); ++i) {
      const float r = std::max(get(h, i), 0.0f);
      ASSERT_EQ(get(act, i), decode(encode<kBF16>(r * r))) << i;
    }
  }
}

TEST(MoeLayer, StepsTakeTheParametersOfTheLayer) {
  NamedTensors in = moe_inputs({}, 17, false);
  Tensor bias = random_floats(Dtype::f32, {8}, 5, 1);
  for (Index e = 0; e < 8; ++e) bias.as<float>()[e] -= 2;  // so that zeros count
  in["router.bias"] = std::move(bias);
  const std::string router =
      "top_k=2 score=sigmoid groups=4 limited_groups=2 normalize=false scale=2.5 "
      "group_score=best other_groups=zero";
  const std::string gate = "halves=interleaved alpha=1.702 limit=7 up_offset=1 bf16_steps=every";
  const std::string layer = "pipeline=bf16 keep_stages=true alignment=64 ";
  const auto cpu = make_backend("cpu", 2);
  const NamedTensors kept = run_moe(*cpu, in, parameters(layer + router + " " + gate));
  const NamedTensors routed = call_operator(
      *cpu, "route", {{"logits", kept.at("rank0.logits")}, {"bias", in.at("router.bias")}},
      parameters(router));
  for (const char* name : {"experts", "weights"})
    EXPECT_EQ(differing(routed.at(name), kept.at(of_rank(0, name))), 0) << name;
  const Parameters activation = parameters(gate + " rounding=bf16");
  const Tensor& h = kept.at("rank0.h");
  EXPECT_EQ(h.extent(0) % 64, 0);
  EXPECT_EQ(differing(call_operator(*cpu, "swiglu", {{"x", h}}, activation).at("y"),
                      kept.at("rank0.act")),
            0);
}

TEST(MoeLayer, RecomputeKeepsNoActivations) {
  NamedTensors in = moe_inputs({}, 19);
  const auto cpu = make_backend("cpu", 2);
  Tensor y = in.at("rank0.x");
  MoeLayer op;
  op.x = in.at("rank0.x").operand();
  op.router = in.at("router").operand();
  op.w1 = in.at("w1").operand();
  op.w2 = in.at("w2").operand();
  op.experts = 8;
  op.top_k = 2;
  op.y = y.result();
  for (const MoePipeline pipeline : {MoePipeline::bf16, MoePipeline::mxfp8, MoePipeline::flow}) {
    for (const bool recompute : {true, false}) {
      op.pipeline = pipeline;
      op.recompute = recompute;
      make_in_process_world()->run(1, [&](Communicator& alone) {
        const SavedMoeLayer saved = moe_layer(*cpu, alone, op);
        EXPECT_EQ(saved.h.given(), !recompute);
        EXPECT_EQ(saved.act.given() || saved.act_codes.given(), !recompute);
      });
    }
  }
}

TEST(MoeLayer, TakesNoTokensAtAll) {
  MoeShape s;
  s.shared = 32;
  s.tokens = {0, 0};
  const auto cpu = make_backend("cpu", 2);
  const NamedTensors out = run_moe(*cpu, moe_inputs(s, 1), parameters("top_k=2"));
  EXPECT_EQ(out.at("rank1.y").extent(0), 0);
  for (const char* name : {"dw1", "dw2", "drouter", "shared.dw1"}) {
    const Tensor& dw = out.at(name);
    EXPECT_EQ(std::count(dw.data(), dw.data() + dw.bytes(), std::byte{0}),
              static_cast<std::ptrdiff_t>(dw.bytes()))
        << name;
  }
}

}  // namespace
}  // namespace mxo::test::moe_layer_test
