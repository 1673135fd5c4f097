// Certified bounds of slots, and of weight gradients whose scales are f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/judge/bound.h"
#include "golden/museum/judged.h"
#include "golden/suites/suites.h"
#include "ops/catalogue.h"
#include "tests/golden/bound_sums.h"
#include "tests/golden/expected.h"

namespace mxo {
namespace {

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
  NamedTensors inputs;
  for (const auto& [operand, held] : call.inputs) inputs.emplace(operand, *held);
  Parameters set = call.set;
  EXPECT_TRUE(certified_bound("combine", "rank0.out", inputs, set, ""));
  set.set("steps", "fused");
  EXPECT_TRUE(certified_bound("combine", "rank0.out", inputs, set, ""));
  set.set("steps", "bf16");
  EXPECT_FALSE(certified_bound("combine", "rank0.out", inputs, set, ""));
  NamedTensors x;
  x.emplace("x", Tensor(Dtype::f32, {2, 8}));
  Parameters gelu;
  gelu.set("activation", "gelu");
  EXPECT_TRUE(certified_bound("swiglu", "y", x, {}, ""));
  EXPECT_FALSE(certified_bound("swiglu", "y", x, gelu, ""));
}

/// 40000 + 40000 is infinity in f16, as 300 silu(300) is; half of it is not.
TEST(Bound, ResultsBeyondF16AreInfinite) {
  const auto filled = [](std::vector<Index> shape, float v) {
    Tensor t(Dtype::f16, std::move(shape));
    for (Index i = 0; i < t.elements(); ++i) t.as<F16>()[i] = encode<kF16>(v);
    return t;
  };
  Tensor experts(Dtype::i32, {1, 2});
  experts.as<std::int32_t>()[1] = 1;
  Parameters set;
  set.set("experts", "2");
  for (const bool beyond : {true, false}) {
    NamedTensors slots;
    slots.emplace("rank0.experts", experts);
    slots.emplace("rank0.y", filled({2, 32}, beyond ? 40000.0f : 20000.0f));
    const auto sum = certified_bound("combine", "rank0.out", slots, set, "");
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum->admits(0, Dtype::f16, std::numeric_limits<double>::infinity()), beyond);
    EXPECT_EQ(sum->admits(0, Dtype::f16, 40000), !beyond);
    NamedTensors gate;
    gate.emplace("x", filled({1, 2}, beyond ? 300.0f : 200.0f));
    const auto y = certified_bound("swiglu", "y", gate, {}, "");
    ASSERT_TRUE(y);
    EXPECT_EQ(y->admits(0, Dtype::f16, std::numeric_limits<double>::infinity()), beyond);
    EXPECT_EQ(y->admits(0, Dtype::f16, 40000), !beyond);
  }
}

/// Slots added the other way round: no bits, but a sum of f32.
TEST(Bound, IsSuggestedForSlotsInAnotherOrder) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  const Call call = rank_exhibits()[0].operands(*backend, *world, 1);
  Planted p{call, run_call(*backend, call), {}};
  p.actual = p.expected;
  std::vector<NamedTensors> slots;
  for (Index s = 0; s < 3; ++s) {
    Call one = call;
    for (const char* rank : {"rank0.", "rank1."}) {
      Tensor w(Dtype::f32, {40, 3});
      for (Index i = s; i < w.elements(); i += 3) w.as<float>()[i] = 1.0f;
      one.replace(std::string(rank) + "weights", std::move(w));
    }
    slots.push_back(run_call(*backend, one));
  }
  for (const std::string rank : {"rank0.", "rank1."}) {
    const float* w = call.input(rank + "weights").as<float>();
    Tensor& out = p.actual.at(rank + "out");
    for (Index i = 0; i < out.elements(); ++i) {
      float sum = 0.0f;
      for (Index s = 2; s >= 0; --s) {
        const auto slot = static_cast<std::size_t>(s);
        sum += decode(slots[slot].at(rank + "out").as<BF16>()[i]) * w[i / 64 * 3 + s];
      }
      out.as<BF16>()[i] = encode<kBF16>(sum);
    }
  }
  const auto verdicts = judged(p);
  ASSERT_FALSE(all_pass(verdicts));
  for (const TensorVerdict& verdict : verdicts) {
    if (verdict.outcome != Outcome::fail) continue;
    EXPECT_EQ(verdict.note, "differences are within any-order f32: --gate bound passes");
  }
}

/// Blocks restart at each group; ends are no multiples of anything.
Call numbered_wgrad(Backend& backend, const char* dy_block, const char* x_block) {
  Tensor ends = ends_of({70, 70, 270, 300});
  NamedTensors in;
  for (const std::string name : {"dy", "x"}) {
    const bool is_dy = name == "dy";
    NamedTensors call;
    call.emplace("x", random_floats({320, is_dy ? 96 : 160}, is_dy ? 1 : 2));
    call.emplace("group_ends", ends);
    Parameters set;
    set.set("block", is_dy ? dy_block : x_block);
    set.set("scale", "f32");
    NamedTensors out = call_operator(backend, "quantize", call, set);
    for (Index i = 0; i < out.at("scales").elements(); ++i) {  // of one size no order would show
      out.at("scales").as<float>()[i] *= std::ldexp(1.0f, static_cast<int>(i % 7) - 3);
    }
    in.emplace(name + ".codes", std::move(out.at("codes")));
    in.emplace(name + ".scales", std::move(out.at("scales")));
  }
  in.emplace("group_ends", std::move(ends));
  Call call = make_call("grouped_matmul_wgrad", std::move(in), {});
  call.set.set("block_dy", dy_block);
  call.set.set("block_x", x_block);
  return call;
}

TEST(Bound, HoldsWeightGradientsWithScalesInF32) {
  const auto backend = make_cpu_backend();
  for (const auto& blocks : {std::pair{"128x1", "128x1"}, std::pair{"128x128", "64x32"},
                             std::pair{"Rx1", "Rx1"}, std::pair{"96x1", "Rx1"}}) {
    const char* dy = blocks.first;
    const char* x = blocks.second;
    Call call = numbered_wgrad(*backend, dy, x);
    call.set.set("out", "f32");
    NamedTensors inputs;
    for (const auto& [name, tensor] : call.inputs) inputs.emplace(name, *tensor);
    const auto held_by = [&](const char* sum, const char* claim) {
      call.set.set("sum", sum);
      Held held;
      held.see(run_call(*backend, call).at("dw"),
               *certified_bound(call.op, "dw", inputs, call.set, claim), sum);
      EXPECT_EQ(held.sums, 4 * 96 * 160);
      EXPECT_GT(held.nearest, 0.001) << dy << " by " << x;
      return held.outside;
    };
    EXPECT_EQ(held_by("exact", "exact"), 0) << dy << " by " << x;
    EXPECT_EQ(held_by("exact", ""), 0) << dy << " by " << x;
    EXPECT_EQ(held_by("fma_chain", ""), 0) << dy << " by " << x;
    EXPECT_GT(held_by("fma_chain", "exact"), 0) << dy << " by " << x;
    // A scale of the block beside it.
    float* scales = inputs.at("dy.scales").as<float>();
    std::rotate(scales, scales + 1, scales + inputs.at("dy.scales").elements());
    EXPECT_GT(held_by("fma_chain", ""), 0) << dy << " by " << x;
  }
}

}  // namespace
}  // namespace mxo
