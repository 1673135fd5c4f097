// Certified bounds of sums whose scales are f32: of weight gradients, and against the formula.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
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
               *certified_bound(call.op, "dw", inputs, call.set, Dtype::f32, claim), sum);
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

/// docs/gates.md, "Scales in f32", written out for one output of any order: `a` and `s` of each
/// stretch of k that shares both scales.
double allowed_by_the_formula(const std::vector<std::array<double, 4>>& stretches, double total) {
  constexpr long double u = 0x1p-24L;
  const auto pieces = static_cast<long double>(stretches.size() + 1);
  long double reach = 0;
  long double stray = 0;
  for (const auto& [k, magnitude, sx, sw] : stretches) {
    const long double n = k;
    const long double d = (n + 4) * 0x1p-53L;  // of the doubles in which it is computed
    const long double a = magnitude * (1 + d);
    const long double e = n * u / (1 - n * u) * a + n * 0x1p-149L + a * d;
    const long double p = a + e;
    const long double s = std::fabs(sx * sw);
    reach += a * s;
    stray += e * s + 3 * u * (1 + 0x1p-20L) * p * s +
             pieces * 0x1p-149L * (p + std::fabs(sx) + std::fabs(sw) + 2);
  }
  stray += pieces * ((reach + stray) * u + 0x1p-149L) + reach * (pieces + 4) * 0x1p-52L;
  return static_cast<double>(stray + (std::fabs(total) + stray) * u + 0x1p-150L);
}

/// Scales of a row by scales of 128 x 128: k is cut where either changes, the last cut is short.
TEST(Bound, IsTheFormulaForScalesOfBothKinds) {
  const auto backend = make_cpu_backend();
  constexpr Index kDepth = 300;
  constexpr Index kLines = 130;
  for (const bool rows : {false, true}) {
    NamedTensors in;
    for (const std::string name : {"x", "w"}) {
      const bool is_x = name == "x";
      NamedTensors call;
      call.emplace("x", random_floats(is_x ? std::vector<Index>{5, kDepth}
                                           : std::vector<Index>{2, kLines, kDepth},
                                      is_x ? 3 : 4));
      Parameters set;
      set.set("block", is_x ? (rows ? "1xK" : "1x128") : "128x128");
      set.set("scale", "f32");
      NamedTensors out = call_operator(*backend, "quantize", call, set);
      for (Index i = 0; i < out.at("scales").elements(); ++i) {
        out.at("scales").as<float>()[i] *= std::ldexp(1.0f, static_cast<int>(i % 5) - 70);
      }
      in.emplace(name + ".codes", std::move(out.at("codes")));
      in.emplace(name + ".scales", std::move(out.at("scales")));
    }
    in.emplace("group_ends", ends_of({2, 4}));
    Parameters set;
    set.set("block_x", rows ? "1xK" : "1x128");
    set.set("block_w", "128x128");
    const auto bound = certified_bound("grouped_matmul", "y", in, set, Dtype::f32, "");
    ASSERT_TRUE(bound);
    const ElementReader read(Dtype::e4m3);
    for (Index r = 0; r < 5; ++r) {
      for (Index n = 0; n < kLines; ++n) {
        const auto at = static_cast<std::size_t>(r * kLines + n);
        if (r == 4) {  // of no group
          EXPECT_EQ(bound->exact[at], 0);
          EXPECT_TRUE(std::isinf(bound->allowed[at]));
          continue;
        }
        const Index g = r / 2;
        std::vector<std::array<double, 4>> stretches;
        double total = 0;
        for (Index b = 0; b < 3; ++b) {
          const double sx = in.at("x.scales").as<float>()[rows ? r : r * 3 + b];
          const double sw = in.at("w.scales").as<float>()[(g * 2 + n / 128) * 3 + b];
          double sum = 0;
          double magnitude = 0;
          const Index end = std::min<Index>(kDepth, (b + 1) * 128);
          for (Index k = b * 128; k < end; ++k) {
            const double product =
                read(bits_at(in.at("x.codes"), r * kDepth + k)).value *
                read(bits_at(in.at("w.codes"), (g * kLines + n) * kDepth + k)).value;
            sum += product;
            magnitude += std::fabs(product);
          }
          total += sum * (sx * sw);
          // The last stretch is bounded as if it were as long as the others.
          stretches.push_back({128, magnitude, sx, sw});
        }
        const double formula = allowed_by_the_formula(stretches, total);
        EXPECT_NEAR(bound->exact[at], total, std::fabs(total) * 1e-15);
        EXPECT_GE(bound->allowed[at], formula * (1 - 1e-15));
        EXPECT_LE(bound->allowed[at], formula * (1 + 1e-11));
      }
    }
  }
}

}  // namespace
}  // namespace mxo
