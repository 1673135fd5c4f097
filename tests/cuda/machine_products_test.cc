// Products summed as machines do, of the cuda backend against those of cpu.
#include "tests/cuda/products.h"
#include "tests/support/models_agree.h"

namespace mxo::test {
namespace {

TEST_F(CudaProducts, OfEveryMachineHaveTheBytesOfCpuOnHostileShapes) {
  for (const GemmSpec& spec : hostile_specs(2)) {
    for (const SumRow& row : sums()) {
      if (!is_machine(row.sum) || row.kind != kind_of(spec)) continue;
      EXPECT_EQ(differing(spec, row.sum), 0) << row.name << ", " << describe(spec);
    }
  }
}

/// A machine of the table with its parts, promotions and blocks placed elsewhere.
TEST_F(CudaProducts, OfMachinesWithSchedulesOfUsersHaveTheBytesOfCpu) {
  const auto fp8 = sum_named("h200_wgmma_fast", OperandKind::fp8);
  std::vector<Accumulation> changed(6, fp8);
  changed[0].split = 3;
  changed[1].promote = 8;
  changed[2].promote = 2;
  changed[3].split = 2;
  changed[3].promote = 4;
  changed[4].split = 2;
  changed[4].tile = 64;
  changed[5].bits = 25;
  changed[5].mantissa = 23;
  for (const Accumulation& sum : changed) {
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      GemmSpec spec = spec_of(Scales::rowwise, pass, Dtype::bf16, {700, 129}, 150, 1000);
      EXPECT_EQ(differing(spec, sum), 0) << sum.split << " " << sum.promote << " " << sum.bits;
    }
  }
}

/// The card's own instruction and the model of it on the host, a million outputs each.
TEST_F(CudaProducts, OfTheInstructionHaveTheBytesOfTheModelOverWholeMatrices) {
  for (const char* name : {"h200_wgmma_fast", "h200_wgmma_promote4"}) {
    for (const Scales scales : {Scales::rowwise, Scales::none, Scales::mx}) {
      GemmSpec spec;
      spec.scales = scales;
      spec.groups = {1000, 0, 24};
      if (scales == Scales::mx) spec.groups = {992, 0, 32};
      spec.n = 1027;
      spec.k = 1056;
      spec.out = Dtype::f32;
      for (const SumRow& row : sums()) {
        if (row.name != name || row.kind != kind_of(spec)) continue;
        EXPECT_EQ(differing(spec, row.sum), 0) << name << ", " << describe(spec);
        if (scales != Scales::rowwise) continue;
        Accumulation joint = row.sum;
        joint.fold = Fold::after_joint;
        EXPECT_EQ(differing(spec, joint), 0) << name << ", once, " << describe(spec);
      }
    }
  }
}

TEST_F(CudaProducts, OfSingleInstructionsHaveTheBytesOfCpu) {
  for (const SumRow& row : machines()) {
    const Index k = 2 * row.sum.instruction + 32;
    const NamedTensors inputs = random_dots(row.kind, 5, 16, 13, 21, k / 32 * 32);
    const Parameters set = settings(settings_of(row, false));
    const NamedTensors expected = call_operator(*cpu, "fused_dot", inputs, set);
    const NamedTensors actual = call_operator(*cuda, "fused_dot", inputs, set);
    EXPECT_EQ(test::differing(expected.find("d")->second, actual.find("d")->second), 0)
        << row.name << " " << row.operands;
  }
}

}  // namespace
}  // namespace mxo::test
