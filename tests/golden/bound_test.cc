// Certified bounds: how large they are, and what they let through.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/judge/comparator.h"
#include "golden/museum/judged.h"
#include "golden/suites/suites.h"
#include "tests/golden/bound_sums.h"
#include "tests/golden/product_inputs.h"

namespace mxo {
namespace {

TEST(Bound, IsGammaTimesTheMagnitudesAndHalfAStep) {
  const NamedTensors in = product_inputs();
  const auto bound = certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, "");
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->exact[0], 32);
  const double gamma = 32 * 0x1p-24 / (1 - 32 * 0x1p-24);
  const double allowed = gamma * 32 + 32 * (1 + gamma) * 0x1p-24;
  EXPECT_GE(bound->allowed[0], allowed);
  EXPECT_LE(bound->allowed[0], allowed * 1.0001);
  const auto exact = certified_bound("grouped_matmul", "y", in, {}, Dtype::bf16, "exact");
  EXPECT_NEAR(exact->allowed[0], 32 * 0x1p-8, 1e-6);
  EXPECT_FALSE(certified_bound("quantize", "codes", in, {}, Dtype::e4m3, ""));
  EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, "unknown"), Error);
}

TEST(Bound, IsOfSumsAloneAndOfFiniteOperands) {
  const auto backend = make_cpu_backend();
  EXPECT_FALSE(certified_bound("grouped_matmul", "dw", product_inputs(), {}, Dtype::f32, ""));
  EXPECT_FALSE(certified_bound("grouped_linear", "y", product_inputs(), {}, Dtype::f32, ""));
  ProductSize size;
  size.ends = {2, 4};
  size.rows = 4;
  size.n = 32;
  size.k = 64;
  const Call call = rowwise_product(*backend, 1, size);
  const auto exact_with = [&](const char* scales, float scale) {
    NamedTensors in;
    for (const auto& [name, tensor] : call.inputs) in.emplace(name, *tensor);
    in.at(scales).as<float>()[0] = scale;
    return certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, "")->exact;
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const auto rows = exact_with("x.scales", kInf);
  const auto columns = exact_with("w.scales", kInf);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(std::isnan(rows[i]), i < 32) << i;
    EXPECT_EQ(std::isnan(columns[i]), i == 0 || i == 32) << i;
  }
}

TEST(Bound, HoldsForAnyOrderOfF32AdditionAndRefusesMore) {
  // Cancellation: the bound follows the magnitudes, not the small result.
  NamedTensors in = product_inputs();
  for (Index i = 0; i < 32; i += 2) in.at("x.codes").as<std::uint8_t>()[i] = 0xB9;  // -1.125
  const auto backend = make_reference_backend();
  Parameters f32;
  f32.set("out", "f32");
  const Tensor y = call_operator(*backend, "grouped_matmul", in, f32).at("y");
  const auto bound = certified_bound("grouped_matmul", "y", in, f32, Dtype::f32, "");
  Owed owed;
  owed.expected = &y;
  owed.format = Dtype::f32;
  owed.bound = &*bound;
  CompareOptions options;
  options.gate = parse_gate("bound");
  EXPECT_EQ(bound->exact[0], -2);
  Tensor near = y;
  near.as<float>()[0] += static_cast<float>(0.9 * bound->allowed[0]);
  EXPECT_NE(near.as<float>()[0], y.as<float>()[0]);
  EXPECT_EQ(compare_tensor("y", owed, near, options).outcome, Outcome::pass);
  Tensor far = y;
  far.as<float>()[0] += static_cast<float>(1.1 * bound->allowed[0]);
  EXPECT_EQ(compare_tensor("y", owed, far, options).outcome, Outcome::fail);
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

TEST(Bound, RefusesAMachineOfFewerBits) {
  const auto backend = make_cpu_backend();
  Call call = operands_of_kind(*backend, OperandKind::fp8, 160, 1, false);
  call.set.set("out", "f32");
  call.set.set("sum", "h200_wgmma_fast");
  NamedTensors inputs;
  for (const auto& [name, tensor] : call.inputs) inputs.emplace(name, *tensor);
  const Tensor y = run_call(*backend, call).at("y");
  const auto outside = [&](const char* sum) {
    Held held;
    held.see(y, *certified_bound(call.op, "y", inputs, call.set, Dtype::f32, sum), sum);
    return held.outside;
  };
  EXPECT_EQ(outside("h200_wgmma_fast"), 0);
  EXPECT_EQ(outside("h200_wgmma_promote4"), 0);  // of the same bits: a looser schedule is inside
  EXPECT_GT(outside("b200_tcgen05"), 0);
  EXPECT_GT(outside("exact"), 0);
}

TEST(Bound, HoldsWeightGradientsAndRefusesALostRow) {
  const auto backend = make_cpu_backend();
  Call call = mx_wgrad(*backend, 5);
  call.set.set("out", "f32");
  NamedTensors inputs;
  for (const auto& [name, tensor] : call.inputs) inputs.emplace(name, *tensor);
  const auto held_by = [&](const char* claim) {
    Held held;
    const Tensor dw = run_call(*backend, call).at("dw");
    held.see(dw, *certified_bound(call.op, "dw", inputs, call.set, Dtype::f32, claim), claim);
    EXPECT_EQ(held.sums, dw.elements());
    return held.outside;
  };
  EXPECT_EQ(held_by("exact"), 0);
  call.set.set("sum", "fma_chain");
  EXPECT_EQ(held_by(""), 0);
  EXPECT_GT(held_by("exact"), 0);
  call.replace("group_ends", ends_of({96, 96, 128, 288}));
  EXPECT_GT(held_by(""), 0);
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

/// out of combine and dx of dispatch_backward; rows are found by the routing alone.
TEST(Bound, HoldsSumsOfSlotsInEveryCase) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  Held held;
  for (const SuiteCase& item : suite_cases("exchange", 1)) {
    const NamedTensors inputs = item.inputs(InputStream(3, item.id));
    const Parameters set(item.parameters);
    for (const auto& [name, tensor] : call_operator(*backend, item.op, inputs, set, &*world)) {
      const auto bound = certified_bound(item.op, name, inputs, set, tensor.dtype(), "");
      if (bound) held.see(tensor, *bound, item.id + " " + name);
    }
  }
  EXPECT_EQ(held.outside, 0) << held.worst << " by " << held.nearest;
  EXPECT_GT(held.sums, 10'000);
}

TEST(Bound, RefusesSlotsSummedInBf16AndWeightsTwice) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  CompareOptions options;
  options.gate = parse_gate("bound");
  for (const Exhibit& exhibit : rank_exhibits()) {
    if (exhibit.op != "combine" && exhibit.op != "dispatch_backward") continue;
    const Planted p = plant(*backend, *world, exhibit, 1);
    EXPECT_FALSE(all_pass(judged(p, options))) << exhibit.fault;
  }
}

TEST(Bound, IsNoneForRoundedSlotsAndOtherGates) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  const Call call = rank_exhibits()[0].operands(*backend, *world, 1);
  NamedTensors inputs;
  for (const auto& [operand, held] : call.inputs) inputs.emplace(operand, *held);
  Parameters set = call.set;
  EXPECT_TRUE(certified_bound("combine", "rank0.out", inputs, set, Dtype::bf16, ""));
  set.set("steps", "fused");
  EXPECT_TRUE(certified_bound("combine", "rank0.out", inputs, set, Dtype::bf16, ""));
  set.set("steps", "bf16");
  EXPECT_FALSE(certified_bound("combine", "rank0.out", inputs, set, Dtype::bf16, ""));
  NamedTensors x;
  x.emplace("x", Tensor(Dtype::f32, {2, 8}));
  Parameters gelu;
  gelu.set("activation", "gelu");
  EXPECT_TRUE(certified_bound("swiglu", "y", x, {}, Dtype::f32, ""));
  EXPECT_FALSE(certified_bound("swiglu", "y", x, gelu, Dtype::f32, ""));
}

TEST(Bound, RefusesRoutingThatItsRowsContradict) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  const Call call = rank_exhibits()[0].operands(*backend, *world, 1);
  const auto refuses = [&](const std::string& name, Tensor tensor) {
    NamedTensors inputs;
    for (const auto& [operand, held] : call.inputs) inputs.emplace(operand, *held);
    inputs.insert_or_assign(name, std::move(tensor));
    EXPECT_THROW(certified_bound("combine", "rank0.out", inputs, call.set, Dtype::bf16, ""), Error)
        << name;
  };
  refuses("rank0.y", Tensor(Dtype::bf16, {3, 64}));
  refuses("rank1.y", Tensor(Dtype::bf16, {120, 32}));
  refuses("rank0.weights", Tensor(Dtype::f32, {40, 2}));
  Tensor experts = call.input("rank1.experts");
  experts.as<std::int32_t>()[0] = 8;
  refuses("rank1.experts", experts);
  experts.as<std::int32_t>()[0] = -1;
  refuses("rank1.experts", std::move(experts));
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

TEST(Bound, IsSuggestedForTiesOfAQuantiser) {
  const auto backend = make_cpu_backend();
  const auto world = make_world("in_process");
  for (const Exhibit& exhibit : quantiser_exhibits()) {
    const bool ties = exhibit.fault == "ties away from zero";
    if (!ties && exhibit.fault != "codes are truncated") continue;
    for (const TensorVerdict& verdict : judged(plant(*backend, *world, exhibit, 1))) {
      if (verdict.name != "codes") continue;
      EXPECT_EQ(verdict.note.find("--gate bound passes") != std::string::npos, ties)
          << exhibit.fault << ": " << verdict.note;
    }
  }
}

TEST(Bound, RefusesOperandsThatTheOperatorWouldRefuse) {
  const auto ends = [](Dtype type, std::vector<Index> shape) { return Tensor(type, shape); };
  const auto refuses = [](const char* name, Tensor tensor) {
    NamedTensors in = product_inputs();
    in.insert_or_assign(name, std::move(tensor));
    EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, ""), Error) << name;
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

}  // namespace
}  // namespace mxo
