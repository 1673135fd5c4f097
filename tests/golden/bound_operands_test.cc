// Bounds of other operands than codes with f32 scales on both sides, and of what has none.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emu/backends.h"
#include "formats/error.h"
#include "golden/museum/operands.h"
#include "tests/golden/tensors.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

/// Operands that were quantised, and what a product is told of them.
struct Side {
  std::string name;
  std::vector<Index> shape;
  std::string block;
  std::string scale = "f32";
  unsigned seed = 1;
};
struct Quantised {
  Quantised(Backend& backend, const std::vector<Side>& sides,
            const std::vector<std::int32_t>& ends) {
    for (const Side& side : sides) {
      NamedTensors call;
      call.emplace("x", random_floats(side.shape, side.seed));
      Parameters quantiser;
      quantiser.set("block", side.block);
      quantiser.set("scale", side.scale);
      NamedTensors out = call_operator(backend, "quantize", call, quantiser);
      in.emplace(side.name + ".codes", std::move(out.at("codes")));
      in.emplace(side.name + ".scales", std::move(out.at("scales")));
      set.set("block_" + side.name, side.block);
    }
    in.emplace("group_ends", ends_of(ends));
  }
  NamedTensors in;
  Parameters set;
};

/// The least scale times the least code is no bf16: a machine that dequantises first has zeros.
TEST(BoundOperands, DequantisesForTheMachinesThatDo) {
  const auto exact = [](const char* op, const char* output, const NamedTensors& in,
                        const char* claim) {
    return certified_bound(op, output, in, {}, claim)->exact[0];
  };
  for (const bool gradient : {false, true}) {
    for (const bool second : {false, true}) {
      const std::string a = gradient ? "dy" : "x";
      const std::string b = gradient ? "x" : "w";
      NamedTensors in;
      for (const std::string& name : {a, b}) {
        const bool tiny = (name == b) == second;
        std::vector<Index> codes = gradient ? std::vector<Index>{32, 1} : std::vector<Index>{1, 32};
        std::vector<Index> scales{1, 1};
        if (name == "w") {
          codes = {1, 1, 32};
          scales = {1, 1, 1};
        }
        in.emplace(name + ".codes", Tensor(Dtype::u8, codes));
        in.emplace(name + ".scales", Tensor(Dtype::u8, scales));
        in.at(name + ".codes").as<std::uint8_t>()[0] = tiny ? 0x01 : 0x38;
        in.at(name + ".scales").as<std::uint8_t>()[0] = tiny ? 0 : 227;  // 2^-127, 2^100
      }
      in.emplace("group_ends", ends_of({gradient ? 32 : 1}));
      const char* op = gradient ? "grouped_matmul_wgrad" : "grouped_matmul";
      const char* output = gradient ? "dw" : "y";
      for (const char* claim : {"", "exact", "fma_chain", "b200_mxf8f6f4"}) {
        EXPECT_EQ(exact(op, output, in, claim), 0x1p-36) << op << " " << claim;
      }
      EXPECT_EQ(exact(op, output, in, "h200_wgmma_fast"), 0) << op;
    }
  }
}

/// What is no block of the formulas, and e8m0 beside f32: a kernel may multiply those first.
TEST(BoundOperands, IsNoneForScalesOfOtherBlocks) {
  const auto backend = make_cpu_backend();
  struct Scales {
    const char* block;
    const char* scale;
  };
  const auto bounded = [&](Scales a, Scales b, bool gradient) {
    const Quantised q(*backend,
                      {{gradient ? "dy" : "x", {128, 128}, a.block, a.scale, 2},
                       {gradient ? "x" : "w",
                        gradient ? std::vector<Index>{128, 128} : std::vector<Index>{1, 128, 128},
                        b.block, b.scale, 2}},
                      {128});
    const char* op = gradient ? "grouped_matmul_wgrad" : "grouped_matmul";
    call_operator(*backend, op, q.in, q.set);  // takes them
    return certified_bound(op, gradient ? "dw" : "y", q.in, q.set, "").has_value();
  };
  const Scales rows{"1x32", "e8m0"}, columns{"32x1", "e8m0"}, square{"32x32", "e8m0"};
  const Scales numbers{"1x128", "f32"}, below{"128x1", "f32"}, half{"1x64", "f32"};
  EXPECT_TRUE(bounded(rows, rows, false));
  EXPECT_TRUE(bounded(numbers, numbers, false));
  EXPECT_TRUE(bounded(columns, columns, true));
  EXPECT_TRUE(bounded(below, below, true));
  for (const auto& [one, other] : {std::pair{numbers, half}, {rows, square}, {rows, numbers}}) {
    EXPECT_FALSE(bounded(one, other, false)) << other.block;
    EXPECT_FALSE(bounded(other, one, false)) << other.block;
  }
  for (const auto& [one, other] : {std::pair{columns, square}, {columns, below}}) {
    EXPECT_FALSE(bounded(one, other, true)) << other.block;
    EXPECT_FALSE(bounded(other, one, true)) << other.block;
  }
}

/// dw = main_grad + p is another sum than p.
TEST(BoundOperands, IsNoneOfWhatJoinsAMainGradient) {
  NamedTensors in;
  in.emplace("dy", Tensor(Dtype::bf16, {4, 2}));
  in.emplace("x", Tensor(Dtype::bf16, {4, 3}));
  in.emplace("group_ends", ends_of({4}));
  EXPECT_TRUE(certified_bound("grouped_matmul_wgrad", "dw", in, {}, ""));
  in.emplace("main_grad", Tensor(Dtype::f32, {1, 2, 3}));
  EXPECT_FALSE(certified_bound("grouped_matmul_wgrad", "dw", in, {}, ""));
}

TEST(BoundOperands, RefusesClaimsOfOtherOperands) {
  const auto backend = make_cpu_backend();
  const Quantised product(*backend, {{"x", {3, 128}, "1x128"}, {"w", {2, 130, 128}, "128x128"}},
                          {1, 2});
  const auto said = [&](const char* claim) -> std::string {
    return refusal([&] { certified_bound("grouped_matmul", "y", product.in, product.set, claim); });
  };
  EXPECT_EQ(said("h200_wgmma_fast"), "");
  EXPECT_NE(said("b200_mxf8f6f4").find("b200_mxf8f6f4"), std::string::npos);
  EXPECT_NE(said("mi300_mfma").find("mi300_mfma"), std::string::npos);
  EXPECT_FALSE(certified_bound("grouped_matmul", "dw", product.in, product.set, ""));
  EXPECT_FALSE(certified_bound("quantize", "dw", product.in, product.set, ""));
  EXPECT_FALSE(certified_bound("grouped_matmul_wgrad", "y", product.in, product.set, ""));
}

}  // namespace
}  // namespace mxo
