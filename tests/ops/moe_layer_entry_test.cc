// The catalogue's moe_layer: parameters that reach the steps, outputs that follow, and what is
// refused.
#include <algorithm>

#include "ops/catalogue.h"
#include "tests/ops/moe_layer_calls.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

struct MoeEntry : testing::Test {
  MoeRecorder recorder;
  AloneWorld world;
  NamedTensors in;

  MoeEntry() {
    add("rank0.x", Dtype::bf16, {3, 256});
    add("router", Dtype::bf16, {2, 256});
    add("w1", Dtype::bf16, {2, 256, 256});
    add("w2", Dtype::bf16, {2, 256, 128});
  }
  void add(const std::string& name, Dtype dtype, std::vector<Index> shape) {
    in.insert_or_assign(name, Tensor(dtype, std::move(shape)));
  }
  /// What the call says, or nothing.
  std::string said(const Values& values = {}) {
    recorder.restart();
    recorder.rules.clear();
    for (const auto& [name, tensor] : in) recorder.know(tensor.operand(), name);
    return refusal([&] { out = call_operator(recorder, "moe_layer", in, Parameters(values), on); });
  }
  /// The first step of that name.
  std::string step(const std::string& name, const Values& values) {
    EXPECT_EQ(said(values), "");
    const auto found =
        std::find_if(recorder.steps.begin(), recorder.steps.end(),
                     [&](const std::string& one) { return one.starts_with(name + " "); });
    return found == recorder.steps.end() ? "" : *found;
  }
  bool says(const std::string& name, const Values& values, const std::string& part) {
    return step(name, values).find(part) != std::string::npos;
  }
  World* on = &world;
  NamedTensors out;
};

TEST_F(MoeEntry, ParametersOfTheRouterReachIt) {
  EXPECT_TRUE(says("route", {}, ", none, score 0, 1/1, times 1.000000, groups 0, others 0 ->"));
  EXPECT_TRUE(says("route", {{"groups", "2"}}, "score 0, 2/2,")) << "all groups stay";
  EXPECT_TRUE(says("route",
                   {{"score", "sigmoid"},
                    {"groups", "2"},
                    {"limited_groups", "1"},
                    {"normalize", "false"},
                    {"scale", "2.5"},
                    {"group_score", "best"},
                    {"other_groups", "zero"}},
                   "score 1, 2/1, as it is, times 2.500000, groups 1, others 1 ->"));
  EXPECT_TRUE(says("route", {}, " f32 [3, 2]"));
  EXPECT_TRUE(says("route", {{"router_logits", "bf16"}}, "bf16 [3, 2]"));
  EXPECT_TRUE(says("route", {}, "i32 [3, 1]"));
  EXPECT_TRUE(says("route", {{"top_k", "2"}}, "i32 [3, 2]"));
  add("router.bias", Dtype::f32, {2});
  EXPECT_TRUE(says("route", {}, ", router.bias f32 [2],"));
  add("logits.bias", Dtype::bf16, {2});
  EXPECT_TRUE(says("add_bias", {}, "logits.bias bf16 [2]"));
}

TEST_F(MoeEntry, ParametersOfTheExpertsReachThem) {
  EXPECT_TRUE(says("quantize", {}, "rank0.x bf16 [3, 256] -> #10 e4m3 [3, 256] * #11 e8m0"));
  EXPECT_EQ(recorder.rules.at(0).mode, ScaleMode::rceil);
  EXPECT_TRUE(says("quantize", {{"recipe", "mxfp8_floor"}, {"format", "e4m3fnuz"}}, "e4m3fnuz"));
  EXPECT_EQ(recorder.rules.at(0).mode, ScaleMode::floor);
  EXPECT_EQ(step("quantize", {{"pipeline", "bf16"}}), "");
  EXPECT_TRUE(says("quantize", {{"pipeline", "quantize_after"}}, "bf16 [96, 256] -> "));
  EXPECT_TRUE(says("swiglu_quantize", {{"pipeline", "flow"}}, "of 1x128"));
  EXPECT_TRUE(says("quantize", {{"pipeline", "fp8_blockwise"}, {"recipe", "vllm"}},
                   "rank0.x bf16 [3, 256] -> #10 e4m3 [3, 256] * #11 f32"));
  EXPECT_EQ(step("permute_indices", {{"alignment", "64"}}), "permute_indices to 64");
  EXPECT_EQ(step("permute_indices", {}), "permute_indices to 32");
  EXPECT_EQ(step("permute", {}), "") << "fused";
  EXPECT_TRUE(says("permute", {{"placement", "unfused"}}, "e4m3 [3, 256] by [0 2 1]"));
  EXPECT_TRUE(says("swiglu", {{"halves", "interleaved"}}, "of another gate"));
  EXPECT_EQ(recorder.steps.at(0),
            "grouped_matmul rank0.x bf16 [3, 256], router bf16 [1, 2, 256] "
            "by [3], exact -> #2 f32 [3, 2]");
  EXPECT_EQ(said({{"sum", "fma_chain"}}), "");
  EXPECT_TRUE(std::any_of(recorder.steps.begin(), recorder.steps.end(), [](const auto& one) {
    return one.find(", fma_chain -> ") != std::string::npos;
  }));
}

TEST_F(MoeEntry, OutputsFollowFromTheInputs) {
  const auto made = [&](const Values& values) {
    EXPECT_EQ(said(values), "");
    Steps all;
    for (const auto& [name, tensor] : out) all.push_back(name + " " + describe(tensor.operand()));
    return all;
  };
  EXPECT_EQ(made({}), Steps{"rank0.y bf16 [3, 256]"});
  EXPECT_TRUE(out.at("rank0.y").elements() == 768);
  add("rank0.dy", Dtype::bf16, {3, 256});
  EXPECT_EQ(made({}),
            (Steps{"drouter f32 [2, 256]", "dw1 bf16 [2, 256, 256]", "dw2 bf16 [2, 256, 128]",
                   "rank0.dx bf16 [3, 256]", "rank0.y bf16 [3, 256]"}));
  add("logits.bias", Dtype::f32, {2});
  add("w1.bias", Dtype::f32, {2, 256});
  add("w2.bias", Dtype::bf16, {2, 256});
  add("shared.w1", Dtype::bf16, {128, 256});
  add("shared.w2", Dtype::bf16, {256, 64});
  EXPECT_EQ(made({}),
            (Steps{"drouter f32 [2, 256]", "dw1 bf16 [2, 256, 256]", "dw2 bf16 [2, 256, 128]",
                   "logits.dbias f32 [2]", "rank0.dx bf16 [3, 256]", "rank0.y bf16 [3, 256]",
                   "shared.dw1 bf16 [128, 256]", "shared.dw2 bf16 [256, 64]",
                   "w1.dbias bf16 [2, 256]", "w2.dbias bf16 [2, 256]"}));
  const auto count = [&](std::string_view name) {
    return std::count_if(recorder.steps.begin(), recorder.steps.end(),
                         [&](const auto& one) { return one.starts_with(name); });
  };
  EXPECT_EQ(count("grouped_matmul_wgrad "), 4) << "of both products, of experts and shared";
  EXPECT_EQ(count("column_sum "), 3) << "of every bias";
  EXPECT_TRUE(says("grouped_matmul_wgrad", {{"sum", "fma_chain"}}, ", fma_chain -> "));
  EXPECT_EQ(said(), "");
  EXPECT_EQ(count("router_gradients "), 2) << "of x and of the router";
  const auto activations = [&](const Values& values) {
    EXPECT_EQ(said(values), "");
    return count("swiglu ");
  };
  EXPECT_EQ(activations({{"recompute", "true"}}), activations({}) + 1);
  EXPECT_EQ(said({{"keep_stages", "true"}}), "");
  for (const char* stage : {"logits", "experts", "permuted.codes", "h", "dact", "ddispatched"}) {
    EXPECT_TRUE(out.contains("rank0." + std::string(stage))) << stage;
  }
}

}  // namespace
}  // namespace mxo
