// Certified bounds of products and codes: how large they are, and what they let through.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <limits>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/judge/comparator.h"
#include "golden/museum/judged.h"
#include "tests/golden/bound_sums.h"
#include "tests/golden/expected.h"
#include "tests/golden/product_inputs.h"

namespace mxo {
namespace {

TEST(Bound, IsGammaTimesTheMagnitudes) {
  const NamedTensors in = product_inputs();
  const auto bound = certified_bound("grouped_matmul", "y", in, {}, "");
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->exact[0], 32);
  const double gamma = 32 * 0x1p-24 / (1 - 32 * 0x1p-24);
  EXPECT_GE(bound->stray[0], gamma * 32);
  EXPECT_LE(bound->stray[0], gamma * 32 * 1.0001);
  const auto exact = certified_bound("grouped_matmul", "y", in, {}, "exact");
  EXPECT_EQ(exact->stray[0], 0);
  EXPECT_FALSE(certified_bound("quantize", "codes", in, {}, ""));
  EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, "unknown"), Error);
}

TEST(Bound, IsOfSumsAloneAndOfFiniteOperands) {
  const auto backend = make_cpu_backend();
  EXPECT_FALSE(certified_bound("grouped_matmul", "dw", product_inputs(), {}, ""));
  EXPECT_FALSE(certified_bound("grouped_linear", "y", product_inputs(), {}, ""));
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

TEST(Bound, HoldsForAnyOrderOfF32AdditionAndRefusesMore) {
  // Cancellation: the bound follows the magnitudes, not the small result.
  NamedTensors in = product_inputs();
  for (Index i = 0; i < 32; i += 2) in.at("x.codes").as<std::uint8_t>()[i] = 0xB9;  // -1.125
  const auto backend = make_reference_backend();
  Parameters f32;
  f32.set("out", "f32");
  const Tensor y = call_operator(*backend, "grouped_matmul", in, f32).at("y");
  const auto bound = certified_bound("grouped_matmul", "y", in, f32, "");
  ExpectedOutput expected_output = owe(y);
  expected_output.bound = &*bound;
  const CompareOptions options = gated("bound");
  EXPECT_EQ(bound->exact[0], -2);
  Tensor near = y;
  near.as<float>()[0] += static_cast<float>(0.9 * bound->stray[0]);
  EXPECT_NE(near.as<float>()[0], y.as<float>()[0]);
  EXPECT_EQ(compare_tensor("y", expected_output, near, options).outcome, Outcome::pass);
  Tensor far = y;
  far.as<float>()[0] += static_cast<float>(1.1 * bound->stray[0] + 0x1p-23);
  EXPECT_EQ(compare_tensor("y", expected_output, far, options).outcome, Outcome::fail);
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
    held.see(y, *certified_bound(call.op, "y", inputs, call.set, sum), sum);
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
    held.see(dw, *certified_bound(call.op, "dw", inputs, call.set, claim), claim);
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

}  // namespace
}  // namespace mxo
