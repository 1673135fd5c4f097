// Shares of outputs that each stage of an exact product decides: bits alone do not tell whether all
// of them fell to the reference.
#include <gtest/gtest.h>

#include <random>

#include "emu/cpu/gemm/multiply.h"
#include "ops/grouped_matmul.h"
#include "ops/moe_steps.h"
#include "tests/support/random_tensors.h"
#include "tests/support/tile_emulation.h"

namespace mxo::gemm_stages_test {
namespace {

struct Row {
  const char* name;
  cpu::Isa isa;  ///< what it wants
  const cpu::Kernels& (*kernels)();
};

template <cpu::Isa isa>
const cpu::Kernels& table() {
  return cpu::kernels_of(isa);
}

/// Normal deviates as codes under scales of 1, or as bf16.
Tensor deviates(Dtype dtype, Index rows, Index columns, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Tensor t(dtype, {rows, columns});
  for (Index i = 0; i < t.elements(); ++i) {
    const float x = normal(random);
    if (dtype == Dtype::bf16) {
      t.as<std::uint16_t>()[i] = encode<kBF16>(x).bits;
    } else {
      t.as<std::uint8_t>()[i] = encode<kE4M3>(145 * x, Overflow::saturate).bits;
    }
  }
  return t;
}

class GemmStages : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    if (!cpu::machine_has(GetParam().isa)) GTEST_SKIP() << "not on this machine";
  }
  StageCounts forward(const Tensor& x, const Tensor& w, Dtype out) {
    const Tensor ends = test::group_ends_of({static_cast<std::int32_t>(x.extent(0))});
    Tensor y(out, {x.extent(0), w.extent(0)});
    GroupedMatmul op;
    op.x = unscaled(x.operand());
    op.w = unscaled(as_one_group(w.operand()));
    op.group_ends = ends.operand();
    op.y = y.result();
    Tensor scales[2];
    if (x.dtype() != Dtype::bf16) {
      for (int i = 0; i < 2; ++i) scales[i] = ones(i == 0 ? x : w, -1);
      op.x.scales = scales[0].operand();
      op.w.scales = as_one_group(scales[1].operand());
    }
    return cpu::multiply(products_of(op), GetParam().kernels(), 2);
  }
  StageCounts wgrad(const Tensor& dy, const Tensor& x) {
    const Tensor ends = test::group_ends_of({static_cast<std::int32_t>(x.extent(0))});
    Tensor dw(Dtype::bf16, {1, dy.extent(1), x.extent(1)});
    const Tensor scales[] = {ones(dy, -2), ones(x, -2)};
    GroupedMatmulWgrad op;
    op.dy = {dy.operand(), scales[0].operand(), kMxRows};
    op.x = {x.operand(), scales[1].operand(), kMxRows};
    op.group_ends = ends.operand();
    op.dw = dw.result();
    return cpu::multiply(products_of(op), GetParam().kernels(), 2);
  }
  static Tensor ones(const Tensor& codes, int axis) {
    Tensor s(Dtype::e8m0, axis == -1 ? std::vector<Index>{codes.extent(0), codes.extent(1) / 32}
                                     : std::vector<Index>{codes.extent(0) / 32, codes.extent(1)});
    for (Index i = 0; i < s.elements(); ++i) s.as<std::uint8_t>()[i] = 127;
    return s;
  }
  static void expect_shares(const StageCounts& found, double by_f64, double by_fixed_point) {
    const auto outputs = static_cast<double>(found.outputs);
    EXPECT_GT(found.outputs, 0);
    EXPECT_LE(static_cast<double>(found.by_f64), by_f64 * outputs);
    EXPECT_LE(static_cast<double>(found.by_fixed_point), by_fixed_point * outputs);
  }
};

TEST_P(GemmStages, CodesOfOrdinaryDataAreDecidedAtOnce) {
  const Tensor x = deviates(Dtype::e4m3, 192, 1024, 1);
  const Tensor w = deviates(Dtype::e4m3, 256, 1024, 2);
  expect_shares(forward(x, w, Dtype::bf16), 0, 0);
  expect_shares(forward(x, w, Dtype::f32), 0, 0);
}

TEST_P(GemmStages, CodesOfOneSpanAreNearlyAllDecidedAtOnce) {
  const Tensor x = deviates(Dtype::e4m3, 192, 512, 3);
  const Tensor w = deviates(Dtype::e4m3, 256, 512, 4);
  expect_shares(forward(x, w, Dtype::bf16), 1e-3, 0);
}

TEST_P(GemmStages, FewBlocksLeaveAboutTwoOutputsInAThousandToBinary64) {
  const Tensor dy = deviates(Dtype::e4m3, 128, 256, 5);
  const Tensor x = deviates(Dtype::e4m3, 128, 256, 6);
  expect_shares(wgrad(dy, x), 1e-2, 0);
}

TEST_P(GemmStages, Bf16OperandsLeaveFewOutputsInAThousand) {
  const Tensor x = deviates(Dtype::bf16, 192, 1024, 7);
  const Tensor w = deviates(Dtype::bf16, 256, 1024, 8);
  expect_shares(forward(x, w, Dtype::bf16), 4e-3, 1e-4);
  expect_shares(forward(x, w, Dtype::f32), 0, 1e-3);
}

TEST_P(GemmStages, WhatBinary64CannotDecideGoesToFixedPoint) {
  Tensor x(Dtype::bf16, {1, 3});  // 1 + 2^-8 is a tie of bf16, and 2^-100 decides it
  const float elements[] = {1.0f, 0x1p-8f, 0x1p-100f};
  for (int i = 0; i < 3; ++i) x.as<std::uint16_t>()[i] = encode<kBF16>(elements[i]).bits;
  Tensor w(Dtype::bf16, {1, 3});
  for (int i = 0; i < 3; ++i) w.as<std::uint16_t>()[i] = encode<kBF16>(1.0f).bits;
  const StageCounts found = forward(x, w, Dtype::bf16);
  EXPECT_EQ(found.outputs, 1);
  EXPECT_EQ(found.by_fixed_point, 1);
}

std::string name_of_row(const testing::TestParamInfo<Row>& row) { return row.param.name; }
INSTANTIATE_TEST_SUITE_P(
    Tables, GemmStages,
    testing::Values(Row{"scalar", cpu::Isa::scalar, table<cpu::Isa::scalar>},
                    Row{"avx2", cpu::Isa::avx2, table<cpu::Isa::avx2>},
                    Row{"avx512", cpu::Isa::avx512, table<cpu::Isa::avx512>},
                    Row{"avx512_vnni", cpu::Isa::avx512_vnni, table<cpu::Isa::avx512_vnni>},
                    Row{"amx_layout", cpu::Isa::avx512, test::amx_layout_kernels},
                    Row{"amx", cpu::Isa::amx, table<cpu::Isa::amx>}),
    name_of_row);

}  // namespace
}  // namespace mxo::gemm_stages_test
