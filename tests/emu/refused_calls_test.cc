// What is refused: calls by operator, operands and parameters, in one sentence that says why; and
// backends by what they cannot honour.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "ops/sums.h"
#include "tests/support/float_state.h"
#include "tests/support/operands_of.h"
#include "tests/support/products.h"
#include "tests/support/refusal.h"

namespace mxo::refused_calls_test {
namespace {

struct Row {
  const char* op;
  std::string operands;
  const char* parameters;
  std::string says;  ///< behind the operator's name; from "..." on: part of it
};

void expect_refused(const std::vector<Row>& rows) {
  const auto cpu = make_backend("cpu", 1);
  const auto world = make_in_process_world();
  for (const Row& row : rows) {
    SCOPED_TRACE(std::string(row.op) + " " + row.operands + " " + row.parameters);
    const std::string said = refusal([&] {
      const Parameters set = test::parameters(row.parameters);
      call_operator(*cpu, row.op, operands_of(row.operands), set, world.get());
    });
    EXPECT_EQ(said.find('\n'), std::string::npos);
    if (row.says.starts_with("...")) {
      EXPECT_NE(said.find(row.says.substr(3)), std::string::npos) << said;
    } else {
      EXPECT_EQ(said, std::string(row.op) + ": " + row.says);
    }
  }
}

TEST(RefusedCalls, LayersOfExperts) {
  const std::string good =
      "rank0.x bf16 5 96, rank1.x bf16 4 96, rank0.dy bf16 5 96, rank1.dy bf16 4 96, "
      "router bf16 8 96, w1 bf16 8 128 96, w2 bf16 8 96 64, ";
  const char* two = "top_k=2";
  expect_refused({
      {"moe_layer", good + "rank2.x bf16 5 96, rank2.dy bf16 5 96", two,
       "router: found 8 experts, needs a multiple of the 3 ranks"},
      {"moe_layer", good + "- rank1.dy", two,
       "rank1.dy: missing, needs to be there for all ranks or none"},
      {"moe_layer", good + "- rank0.dy", two,
       "rank1.dy: found, but rank0.dy is missing, needs to be there for all ranks or none"},
      {"moe_layer", good + "- router", two, "router: missing; needs bf16 [E, D]"},
      {"moe_layer", good + "w1 bf16 7 128 96", two,
       "w1: found bf16 [7, 128, 96], needs [8, 128, 96]"},
      {"moe_layer", good + "shared.w1 bf16 64 96", two,
       "...shared.w2: needs to be given exactly when shared.w1 is"},
      {"moe_layer", good, "top_k=9", "...top_k: found 9, needs 1 to 8"},
      {"moe_layer", good, "top_k=2 recipe=fp8_rowwise",
       "...recipe: found fp8_rowwise, pipeline mxfp8 needs one of the mxfp8 recipes"},
      {"moe_layer", good, "top_k=2 pipeline=fp8_blockwise",
       "...recipe: found mxfp8_rceil, pipeline fp8_blockwise needs fp8_blockwise, vllm or vllm_up"},
      {"moe_layer", good, "top_k=2 alignment=-1",
       "...alignment: found -1, needs a positive number"},
      {"moe_layer", good, "top_k=2 scale=nan", "...route: scale: found no finite number"},
      {"moe_layer", good, "top_k=2 activation=gelu alpha=2",
       "...alpha: found with an activation that has none"},
      {"moe_layer", good, "top_k=2 halves=gate_only",
       "...w2: found bf16 [4, 96, 64], needs [4, 96, 128]"},
      {"moe_layer", good, "top_k=2 arithmetic=triton_sm90", "...moe_layer: arithmetic"},
      {"moe_layer", good + "router.bias f32 7", two, "...route: bias: found f32 [7], needs [8]"},
      {"moe_layer", good + "w1.bias bf16 8 128", "top_k=2 pipeline=flow",
       "...w1.bias: found with pipeline flow, which has none"},
      {"moe_layer", good + "w1.bias bf16 8 128", "top_k=2 pipeline=quantize_after",
       "...recipe: found mxfp8_rceil, gradients with w1.bias or w2.bias need one whose"},
      {"moe_layer", good, "top_k=2 sum.fold=jont", "...did you mean joint?"},
      {"moe_layer", good, "top_k=2 pipeline=int4", "...pipeline"},
  });
}

TEST(RefusedCalls, LinearLayers) {
  const std::string w = "w bf16 2 32 64, group_ends = 32 96, ";
  const std::string good = "x bf16 96 64, " + w;
  const std::string codes = "x.codes u8 96 64, x.scales u8 96 2, " + w;
  expect_refused({
      {"grouped_linear", good, "only=dx,x", "only: found 'x', needs some of y, dx, dw, dbias"},
      {"grouped_linear", good, "only=,", "only: found '', needs some of y, dx, dw, dbias"},
      {"grouped_linear", good, "alignment=0", "alignment: found 0, needs a positive number"},
      {"grouped_linear", good, "alignment=-1", "alignment: found -1, needs a positive number"},
      {"grouped_linear", good, "alignment=2147483648",
       "alignment: found 2147483648, needs at most 2147483647"},
      {"grouped_linear", codes + "x bf16 96 64", "", "..."},
      {"grouped_linear", codes + "- x.scales", "", "x.scales: missing, this operand is needed"},
      {"grouped_linear", w, "", "x: missing, this operand is needed"},
  });
}

TEST(RefusedCalls, RowsOfRanks) {
  const std::string chosen = "rank0.experts i32 3 2 = 0 1 0 1 0 1, ";
  const std::string codes = chosen + "rank0.codes u8 3 256, rank0.scales f32 3 2, ";
  expect_refused({
      {"dispatch", codes, "experts=2", "scales: found f32, needs u8 holding e8m0"},
      {"dispatch", chosen, "experts=2", "codes: missing, this operand is needed"},
      {"dispatch", chosen + "rank0.x bf16 3 256, rank0.weights bf16 3", "experts=2",
       "weights: found bf16 [3], needs rank 2"},
  });
}

TEST(RefusedCalls, GroupedProducts) {
  const std::string plain = "x bf16 64 256, w bf16 2 130 256, group_ends = 32 64, ";
  const std::string codes = "x.codes u8 64 256, w.codes u8 2 130 256, group_ends = 32 64, ";
  const std::string mx = codes + "x.scales u8 64 8, w.scales u8 2 130 8, ";
  const std::string blocks = codes + "x.scales f32 64 2, w.scales f32 2 2 2, ";
  const std::string gradient = "dy bf16 64 130, x bf16 64 256, group_ends = 32 64, ";
  const std::string turned = "dy.codes u8 64 130, x.codes u8 64 256, group_ends = 32 64, ";
  const std::string mx_gradient = turned + "dy.scales u8 2 130, x.scales u8 2 256, ";
  const std::string f32_gradient = turned + "dy.scales f32 2 130, x.scales f32 2 256, ";
  std::vector<Row> rows = {
      {"grouped_matmul_wgrad", mx_gradient + "group_ends = 33 64", "",
       "group_ends: entry 0 is 33, not a multiple of 32"},
      {"grouped_matmul",
       "x.codes u8 64 40, w.codes u8 2 130 40, x.scales u8 64 2, w.scales u8 2 130 2, "
       "group_ends = 64 64",
       "", "x.codes: K is 40, not a multiple of 32"},
      {"grouped_matmul_wgrad", f32_gradient + "dy.scales f32 1 130", "block_dy=64x1 block_x=128x1",
       "dy.scales: found f32 [1, 130], needs [2, 130], one for each block 64x1 of e4m3 [64, 130]"},
      {"grouped_matmul", blocks + "w.scales f32 2 7 2", "",
       "w.scales: found f32 [2, 7, 2], needs [2, 130, 2] for 1x128, [2, 2, 2] for 128x128, "
       "[2, 130, 1] for 1xK, [2, 1, 1] for RxK, [2, 130, 4] for 1x64, [2, 130, 8] for 1x32, "
       "[2, 130, 1] for 1x256, [2, 130, 1] for 1x512, or block_w"},
      // Two blocks of 128 rows in one group, and two groups.
      {"grouped_matmul_wgrad",
       "dy.codes u8 160 130, x.codes u8 160 256, dy.scales f32 2 130, x.scales f32 2 256, "
       "group_ends = 0 160",
       "", "dy.scales: found f32 [2, 130], which fits blocks 128x1 and Rx1; needs block_dy"},
      {"grouped_matmul", mx + "x bf16 64 256", "",
       "x: found it and codes or scales, needs x, or x.codes and x.scales"},
      {"grouped_matmul", mx + "- x.codes", "", "x.codes: missing, this operand is needed"},
      {"grouped_matmul_wgrad", gradient + "main_grad f32 2 130 257", "product=f32 out=f32",
       "...main_grad: found f32 [2, 130, 257]"},
      {"grouped_matmul_wgrad", gradient + "main_grad bf16 2 130 256", "product=f32 out=f32",
       "...main_grad: found bf16"},
      {"grouped_matmul_wgrad", gradient + "main_grad f32 2 130 256", "out=bf16",
       "...dw: found bf16, needs f32 with main_grad"},
  };
  for (const auto& [op, good, set] :
       {std::tuple{"grouped_matmul", plain, ""},
        {"grouped_matmul", mx, ""},
        {"grouped_matmul", blocks, ""},
        {"grouped_matmul_wgrad", gradient, ""},
        {"grouped_matmul_wgrad", mx_gradient, ""},
        {"grouped_matmul_wgrad", f32_gradient, "block_dy=Rx1 block_x=Rx1"},
        {"grouped_matmul_wgrad", f32_gradient, "block_dy=128x1 block_x=128x1"}}) {
    rows.push_back({op, good + "group_ends = 32 0", set,
                    "group_ends: entry 1 is 0, below its predecessor 32; cumulative ends cannot "
                    "decrease"});
    rows.push_back({op, good + "group_ends = 32 96", set,
                    "group_ends: entry 1 is 96, beyond the 64 rows given"});
    rows.push_back({op, good + "group_ends = -32 64", set, "..."});
  }
  expect_refused(rows);
}

TEST(ReferenceBackend, HonoursEverySumThatHasARow) {
  const auto reference = make_backend("reference", 1);
  EXPECT_EQ(reference->name(), "reference");
  for (const SumRow& row : sums()) EXPECT_TRUE(reference->honours(row.sum)) << row.sum.name;
  Accumulation unknown = kExact;
  unknown.family = static_cast<SumFamily>(99);
  EXPECT_FALSE(reference->honours(unknown));
}

TEST(Backends, ThreadsThatCannotBeAreRefused) {
  for (const int threads : {-1, 1025, 100000}) {
    for (const char* name : {"reference", "cpu"}) {
      EXPECT_EQ(refusal([&] { make_backend(name, threads); }),
                "threads: found " + std::to_string(threads) + ", needs 0 to 1024");
    }
  }
  EXPECT_NO_THROW(make_backend("cpu", 1024));
}

TEST(ReferenceBackend, NeedsIeeeArithmetic) {
  for (const test::FloatState state : test::kForeignStates) {
    bool refused = false;
    {
      const test::WithFloatState foreign(state);
      try {
        make_backend("reference", 1);
      } catch (const Error& error) {
        refused = error.fault() == Fault::unsupported;
      }
    }
    EXPECT_TRUE(refused) << "state " << static_cast<int>(state);
  }
}

}  // namespace
}  // namespace mxo::refused_calls_test
