// Certified bounds of weight gradients whose scales are f32.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emu/backends.h"
#include "tests/golden/bound_sums.h"

namespace mxo {
namespace {

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
