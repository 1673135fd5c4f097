// What both passes of a layer of experts are made of: products, activations and rows of ranks.
#include "ops/moe_steps.h"

#include "tests/ops/moe_layer_calls.h"
#include "tests/ops/told_communicator.h"

namespace mxo {
namespace {

TEST(MoeViews, PipelinesHaveTheirRecipes) {
  MoeLayer op;
  op.recipe = linear_recipe_named("mxfp8_floor");
  const auto recipe = [&](MoePipeline pipeline) {
    op.pipeline = pipeline;
    return moe_recipe(op);
  };
  EXPECT_EQ(recipe(MoePipeline::bf16).name, "bf16");
  EXPECT_EQ(recipe(MoePipeline::flow).name, "fp8_blockwise");
  EXPECT_EQ(recipe(MoePipeline::mxfp8).name, "mxfp8_floor");
  EXPECT_EQ(recipe(MoePipeline::quantize_after).wgrad, WgradPrecision::quantized);
  EXPECT_EQ(recipe(MoePipeline::fp8_blockwise).wgrad, WgradPrecision::high);
}

/// Rank 1 of two, of which rank 0 has three rows of ones.
struct ThreeRowsBefore : ToldCommunicator {
  using Communicator::all_gather;
  std::vector<Bytes> all_gather(std::span<const std::byte> mine) override {
    const Index three = 3;
    Bytes theirs(sizeof(Index));
    std::memcpy(theirs.data(), &three, sizeof(three));
    if (calls++ > 0) theirs.assign(3 * 4 * sizeof(float), std::byte{1});
    return {theirs, Bytes(mine.begin(), mine.end())};
  }
  void all_gather(Backend& backend, std::span<const std::byte> mine, std::span<std::byte> all,
                  std::span<const std::size_t> bytes) override {
    EXPECT_EQ(mine.size(), 32u);
    EXPECT_EQ(all.size(), 80u);
    EXPECT_EQ(bytes.size(), 2u);
    ToldCommunicator::all_gather(backend, mine, all, bytes);
  }
  int calls = 0;
};

TEST(MoeViews, RowsOfAllRanksLieInTheirOrder) {
  MoeRecorder recorder;
  Tensor mine(Dtype::f32, {2, 4});
  std::fill_n(mine.data(), mine.bytes(), std::byte{7});
  ThreeRowsBefore two;
  const Gathered g = gather_rows(recorder, two, mine.operand());
  EXPECT_EQ(g.first, 3);
  EXPECT_EQ(describe(g.rows.operand()), "f32 [5, 4]");
  const auto* all = static_cast<const std::byte*>(g.rows.operand().data);
  EXPECT_EQ(std::count(all, all + 48, std::byte{1}), 48);
  EXPECT_EQ(std::count(all + 48, all + 80, std::byte{7}), 32);
  EXPECT_TRUE(recorder.steps.empty());

  AloneCommunicator alone;
  recorder.know(mine.operand(), "mine");
  const Gathered own = gather_rows(recorder, alone, mine.operand());
  EXPECT_EQ(own.first, 0);
  EXPECT_EQ(recorder.steps, Steps{"permute mine f32 [2, 4] by [0 1] -> #2 f32 [2, 4]"});
}

}  // namespace
}  // namespace mxo
