// Certified bounds of products and slots: real kernels are inside, wrong ones are not; operands of
// every kind, and what has no bound.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "golden/museum/judged.h"
#include "golden/suites/suites.h"
#include "tests/golden/bound_sums.h"
#include "tests/golden/expected.h"
#include "tests/golden/product_inputs.h"
#include "tests/support/refusal.h"

namespace mxo::bound_test {
namespace {

TEST(Bound, IsOfSumsAloneAndOfFiniteOperands) {
  const auto backend = make_cpu_backend();
  EXPECT_FALSE(certified_bound("grouped_matmul", "dw", product_inputs(), {}, ""));
  EXPECT_FALSE(certified_bound("grouped_linear", "y", product_inputs(), {}, ""));
  const ProductSize size{{2, 4}, 4, 32, 64};
  const Call call = rowwise_product(*backend, 1, size);
  const auto exact_with = [&](const char* scales, float scale) {
    NamedTensors in = operands_of(call);
    in.at(scales).as<float>()[0] = scale;
    return certified_bound("grouped_matmul", "y", in, {}, "")->exact;
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto rows = exact_with("x.scales", kInf);
  const auto columns = exact_with("w.scales", kInf);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::isnan(rows[i]), i < 32) << i;
    EXPECT_EQ(std::isnan(columns[i]), i == 0 || i == 32) << i;
  }
}

/// Ten million of them are in the exhaustive tier.
TEST(Bound, HoldsSumsOfEveryOrderAndMachine) {
  const auto backend = make_cpu_backend();
  Held held;
  for (std::uint64_t round = 0; round < 4; ++round) hold_round(*backend, round, held);
  EXPECT_EQ(held.outside, 0) << held.worst << " by " << held.nearest;
  EXPECT_GT(held.sums, 250'000);
  for (const SumRow& row : sums()) EXPECT_TRUE(held.who.contains(name_of(row))) << name_of(row);
  EXPECT_GT(held.nearest, 0.05);  // a bound that nothing comes near says little
}

TEST(Bound, RefusesOperandsThatTheOperatorWouldRefuse) {
  const auto ends = [](Dtype type, std::vector<Index> shape) { return Tensor(type, shape); };
  const auto refuses = [](const char* name, Tensor tensor) {
    NamedTensors in = product_inputs();
    in.insert_or_assign(name, std::move(tensor));
    EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, ""), Error) << name;
  };
  refuses("group_ends", ends(Dtype::u8, {4}));
  refuses("group_ends", ends(Dtype::i32, {1, 1}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {1 << 30}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {-1}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {2, 1}));
  refuses("x.codes", Tensor(Dtype::u8, {64}));
  refuses("x.scales", Tensor(Dtype::u8, {2, 3}));
  refuses("w.codes", Tensor(Dtype::u8, {1, 1, 64}));
}

/// out of combine and dx of dispatch_backward; rows are found by the routing alone.
TEST(Bound, HoldsSumsOfSlotsInEveryCase) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  Held held;
  for (const SuiteCase& item : suite_cases("exchange", 1)) {
    const NamedTensors inputs = item.inputs(InputStream(3, item.id));
    const Parameters set(item.parameters);
    for (const auto& [name, tensor] : call_operator(*backend, item.op, inputs, set, &*world)) {
      const auto bound = certified_bound(item.op, name, inputs, set, "");
      if (bound) held.see(tensor, *bound, item.id + " " + name);
    }
  }
  EXPECT_EQ(held.outside, 0) << held.worst << " by " << held.nearest;
  EXPECT_GT(held.sums, 10'000);
}

TEST(Bound, RefusesSlotsSummedInBf16AndWeightsTwice) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  for (const Exhibit& exhibit : rank_exhibits()) {
    if (exhibit.op != "combine" && exhibit.op != "dispatch_backward") continue;
    const Planted p = plant(*backend, *world, exhibit, 1);
    EXPECT_FALSE(all_pass(judged(p, gated("bound")))) << exhibit.fault;
  }
}

TEST(Bound, IsNoneForRoundedSlotsAndOtherGates) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  const Call call = rank_exhibits()[0].operands(*backend, *world, 1);
  const NamedTensors inputs = operands_of(call);
  Parameters set = call.set;
  EXPECT_TRUE(certified_bound("combine", "rank0.out", inputs, set, ""));
  set.set("steps", "fused");
  EXPECT_TRUE(certified_bound("combine", "rank0.out", inputs, set, ""));
  set.set("steps", "bf16");
  EXPECT_FALSE(certified_bound("combine", "rank0.out", inputs, set, ""));
  const NamedTensors x{{"x", Tensor(Dtype::f32, {2, 8})}};
  EXPECT_TRUE(certified_bound("swiglu", "y", x, {}, ""));
  EXPECT_FALSE(certified_bound("swiglu", "y", x, with({{"activation", "gelu"}}), ""));
}

/// Operands that were quantised, and what a product is told of them.
struct Side {
  std::string name;
  std::vector<Index> shape;
  std::string block;
  std::string scale = "f32";
  unsigned seed = 1;
  bool grouped = false;  ///< blocks restart at each group
};
struct Quantised {
  Quantised(Backend& backend, const std::vector<Side>& sides,
            const std::vector<std::int32_t>& ends) {
    for (const Side& side : sides) {
      NamedTensors call{{"x", random_floats(side.shape, side.seed)}};
      if (side.grouped) call.emplace("group_ends", ends_of(ends));
      NamedTensors out = call_operator(backend, "quantize", call,
                                       with({{"block", side.block}, {"scale", side.scale}}));
      in.emplace(side.name + ".codes", std::move(out.at("codes")));
      in.emplace(side.name + ".scales", std::move(out.at("scales")));
      set.set("block_" + side.name, side.block);
    }
    in.emplace("group_ends", ends_of(ends));
  }
  NamedTensors in;
  Parameters set;
};

/// Ends are no multiples of anything.
Call numbered_wgrad(Backend& backend, const char* dy_block, const char* x_block) {
  Quantised q(
      backend,
      {{"dy", {320, 96}, dy_block, "f32", 1, true}, {"x", {320, 160}, x_block, "f32", 2, true}},
      {70, 70, 270, 300});
  for (const char* name : {"dy.scales", "x.scales"}) {  // of one size no order would show
    Tensor& scales = q.in.at(name);
    for (Index i = 0; i < scales.elements(); ++i)
      scales.as<float>()[i] *= std::ldexp(1.0f, static_cast<int>(i % 7) - 3);
  }
  return make_call("grouped_matmul_wgrad", std::move(q.in), q.set);
}

TEST(Bound, HoldsWeightGradientsAndRefusesWrongScales) {
  const auto backend = make_cpu_backend();
  std::vector<std::pair<std::string, Call>> calls{{"mxfp8", mx_wgrad(*backend, 5)}};
  for (const auto& [dy, x] : {std::pair{"128x1", "128x1"}, std::pair{"128x128", "64x32"},
                              std::pair{"Rx1", "Rx1"}, std::pair{"96x1", "Rx1"}}) {
    calls.emplace_back(std::string(dy) + " by " + x, numbered_wgrad(*backend, dy, x));
  }
  for (auto& [what, call] : calls) {
    call.set.set("out", "f32");
    NamedTensors inputs = operands_of(call);
    const auto held_by = [&, &call = call](const char* sum, const char* claim) {
      call.set.set("sum", sum);
      const Tensor dw = run_call(*backend, call).at("dw");
      Held held;
      held.see(dw, *certified_bound(call.op, "dw", inputs, call.set, claim), sum);
      EXPECT_EQ(held.sums, dw.elements());
      return held.outside;
    };
    EXPECT_EQ(held_by("exact", "exact"), 0) << what;
    EXPECT_EQ(held_by("exact", ""), 0) << what;
    EXPECT_EQ(held_by("fma_chain", ""), 0) << what;
    EXPECT_GT(held_by("fma_chain", "exact"), 0) << what;
    // A scale of the block beside it.
    Tensor& scales = inputs.at("dy.scales");
    std::rotate(scales.data(), scales.data() + size_of(scales.dtype()),
                scales.data() + scales.bytes());
    EXPECT_GT(held_by("fma_chain", ""), 0) << what;
  }
}

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
      for (const char* claim : {"", "exact", "fma_chain", "b200_mxf8f6f4"})
        EXPECT_EQ(exact(op, output, in, claim), 0x1p-36) << op << " " << claim;
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
  NamedTensors in{{"dy", Tensor(Dtype::bf16, {4, 2})},
                  {"x", Tensor(Dtype::bf16, {4, 3})},
                  {"group_ends", ends_of({4})}};
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
}  // namespace mxo::bound_test
