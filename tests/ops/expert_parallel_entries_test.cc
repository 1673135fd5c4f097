// The catalogue's dispatch and combine: parameters that reach the steps, and outputs that follow.
#include "ops/catalogue.h"
#include "tests/ops/moe_layer_calls.h"

namespace mxo {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;

/// Three tokens of D 256, of which each goes to both experts.
struct ParallelEntries : testing::Test {
  MoeRecorder recorder;
  AloneWorld world;
  NamedTensors in;
  Steps made;  ///< outputs, in words

  ParallelEntries() {
    add("experts", Dtype::i32, {3, 2});
    for (const Index second : {1, 3, 5}) in.at("rank0.experts").as<std::int32_t>()[second] = 1;
  }
  void add(const std::string& name, Dtype dtype, std::vector<Index> shape) {
    in.insert_or_assign("rank0." + name, Tensor(dtype, std::move(shape)));
  }
  void drop(const std::string& name) { in.erase("rank0." + name); }
  /// What the call says, or its steps.
  Steps steps(const char* op, Values values) {
    recorder.restart();
    recorder.rules.clear();
    for (const auto& [name, tensor] : in) recorder.know(tensor.operand(), name.substr(6));
    values.emplace("experts", "2");
    made.clear();
    try {
      for (const auto& [name, out] : call_operator(recorder, op, in, Parameters(values), &world)) {
        made.push_back(name + " " + describe(out.operand()));
      }
    } catch (const Error& error) {
      return {error.what()};
    }
    return recorder.steps;
  }
};

TEST_F(ParallelEntries, DispatchQuantisesAsTheWireSays) {
  add("x", Dtype::f32, {3, 256});
  EXPECT_EQ(steps("dispatch", {}),
            Steps{"quantize x f32 [3, 256] -> #1 e4m3 [3, 256] * #2 e8m0 [3, 8] of 1x32"});
  EXPECT_EQ(made, (Steps{"rank0.codes e4m3 [6, 256]", "rank0.scales e8m0 [6, 8]",
                         "rank0.tokens_per_expert i32 [2]"}));
  EXPECT_EQ(recorder.rules.at(0).mode, ScaleMode::rceil);
  EXPECT_TRUE(recorder.rules.at(0).e8m0 == kTorchao);
  EXPECT_EQ(steps("dispatch", {{"format", "e5m2"}, {"rule", "te"}, {"scale_mode", "floor"}}),
            Steps{"quantize x f32 [3, 256] -> #1 e5m2 [3, 256] * #2 e8m0 [3, 8] of 1x32"});
  EXPECT_EQ(recorder.rules.at(0).mode, ScaleMode::floor);
  EXPECT_TRUE(recorder.rules.at(0).e8m0 == kTransformerEngine);

  EXPECT_EQ(steps("dispatch", {{"precision", "fp8_blockwise"}}),
            Steps{"quantize x f32 [3, 256] -> #1 e4m3 [3, 256] * #2 f32 [3, 2] of 1x128"});
  EXPECT_EQ(recorder.rules.at(0).f32.epsilon, 1e-10) << "flow";
  steps("dispatch", {{"precision", "fp8_blockwise"}, {"rule", "te"}});
  EXPECT_EQ(recorder.rules.at(0).f32.epsilon, 0.0);

  EXPECT_EQ(steps("dispatch", {{"precision", "bf16"}}),
            Steps{"cast x f32 [3, 256] -> #1 bf16 [3, 256]"});
  EXPECT_EQ(made, (Steps{"rank0.tokens_per_expert i32 [2]", "rank0.x bf16 [6, 256]"}));
}

TEST_F(ParallelEntries, DispatchTakesCodesOrWeights) {
  add("codes", Dtype::u8, {3, 256});
  add("scales", Dtype::u8, {3, 8});
  EXPECT_EQ(steps("dispatch", {{"format", "e5m2"}}), Steps{}) << "they travel as they are";
  EXPECT_EQ(made.at(0), "rank0.codes e5m2 [6, 256]");
  EXPECT_EQ(made.at(1), "rank0.scales e8m0 [6, 8]");
  add("scales", Dtype::f32, {3, 2});
  EXPECT_EQ(steps("dispatch", {{"precision", "fp8_blockwise"}}), Steps{});
  EXPECT_EQ(made.at(1), "rank0.scales f32 [6, 2]");
  EXPECT_EQ(steps("dispatch", {}), Steps{"dispatch: scales: found f32, needs u8 holding e8m0"});
  drop("codes");
  drop("scales");
  EXPECT_EQ(steps("dispatch", {}), Steps{"dispatch: codes: missing, this operand is needed"});

  add("x", Dtype::bf16, {3, 256});
  add("weights", Dtype::f32, {3, 2});
  EXPECT_EQ(steps("dispatch", {{"precision", "bf16"}}),
            Steps{"combine_rows_backward none by [0 3 1 4 2 5], weights f32 [3, 2], x bf16 [3, "
                  "256] -> #1 bf16 [6, 256], none"});
  add("weights", Dtype::bf16, {3, 2});
  EXPECT_EQ(steps("dispatch", {{"precision", "bf16"}}).at(0),
            "cast weights bf16 [3, 2] -> #1 f32 [3, 2]");
  add("weights", Dtype::bf16, {3});
  EXPECT_EQ(steps("dispatch", {}), Steps{"dispatch: weights: found bf16 [3], needs rank 2"});
}

TEST_F(ParallelEntries, CombineWeighsAndAdds) {
  add("y", Dtype::bf16, {6, 256});
  EXPECT_EQ(steps("combine", {{"steps", "fused"}}),
            Steps{"combine_rows #2 bf16 [6, 256] by [0 3 1 4 2 5], none, steps 2 -> #1 bf16 [3, "
                  "256]"});
  EXPECT_EQ(made, Steps{"rank0.out bf16 [3, 256]"});
  add("y", Dtype::f16, {6, 256});
  add("weights", Dtype::f32, {3, 2});
  EXPECT_EQ(steps("combine", {}),
            Steps{"combine_rows #2 f16 [6, 256] by [0 3 1 4 2 5], weights f32 [3, 2], steps 0 -> "
                  "#1 f16 [3, 256]"});
}

}  // namespace
}  // namespace mxo
