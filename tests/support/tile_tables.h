// Products by a table of kernels against the definition: tables of tiles, their instructions spelt
// out where there is AVX-512, and themselves where there is AMX.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "emu/backends.h"
#include "emu/cpu/gemm/multiply.h"
#include "emu/reference/reference_backend.h"
#include "ops/grouped_matmul.h"
#include "ops/moe_steps.h"
#include "tests/support/random_tensors.h"
#include "tests/support/tile_emulation.h"

namespace mxo::test {

/// The definition but for its products, which a table of kernels computes.
class TableBackend : public ReferenceBackend {
 public:
  explicit TableBackend(const cpu::Kernels& kernels) : kernels_(kernels) {}

 protected:
  using ReferenceBackend::run;
  void run(const GroupedMatmul& op) override { cpu::multiply(products_of(op), kernels_, 2); }
  void run(const GroupedMatmulWgrad& op) override { cpu::multiply(products_of(op), kernels_, 2); }

 private:
  const cpu::Kernels& kernels_;
};

struct Table {
  const char* name;
  cpu::Isa isa;  ///< what it wants
  const cpu::Kernels& (*kernels)();
};

/// A matrix of bytes, its rows become columns.
inline Tensor transposed(const Tensor& x) {
  Tensor t(x.dtype(), {x.extent(1), x.extent(0)});
  for (Index i = 0; i < x.extent(0); ++i) {
    for (Index j = 0; j < x.extent(1); ++j) {
      t.as<std::uint8_t>()[j * x.extent(0) + i] = x.as<std::uint8_t>()[i * x.extent(1) + j];
    }
  }
  return t;
}

/// A table of tiles, and the definition.
class TileTables : public testing::TestWithParam<Table> {
 protected:
  void SetUp() override {
    if (!cpu::machine_has(GetParam().isa)) GTEST_SKIP() << "not on this machine";
    table_ = std::make_unique<TableBackend>(GetParam().kernels());
  }
  void expect_same_wgrad(const Tensor& dy, const Tensor& x, std::vector<std::int32_t> group_ends) {
    const auto groups = static_cast<Index>(group_ends.size());
    const Tensor ends = group_ends_of(group_ends);
    Tensor found(Dtype::bf16, {groups, dy.extent(1), x.extent(1)});
    std::memset(found.data(), 0xA5, found.bytes());  // nothing that a result may leave
    Tensor expected = found;
    GroupedMatmulWgrad op;
    op.dy = unscaled(dy.operand());
    op.x = unscaled(x.operand());
    op.group_ends = ends.operand();
    op.dw = found.result();
    grouped_matmul_wgrad(*table_, op);
    op.dw = expected.result();
    grouped_matmul_wgrad(*reference_, op);
    expect_same_bytes(found, expected, dy, x);
  }

  static void expect_same_bytes(const Tensor& found, const Tensor& expected, const Tensor& a,
                                const Tensor& b) {
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.bytes()), 0)
        << name_of(a.dtype()) << " x " << name_of(b.dtype()) << ", depth " << a.extent(1);
  }
  void expect_same_codes(const Tensor& x, const Tensor& x_scales, const Tensor& w,
                         const Tensor& w_scales) {
    const Tensor ends = group_ends_of({static_cast<std::int32_t>(x.extent(0))});
    Tensor found(Dtype::bf16, {x.extent(0), w.extent(0)});
    Tensor expected = found;
    GroupedMatmul op;
    op.x = {x.operand(), x_scales.operand()};
    op.w = {as_one_group(w.operand()), as_one_group(w_scales.operand())};
    op.group_ends = ends.operand();
    op.y = found.result();
    grouped_matmul(*table_, op);
    op.y = expected.result();
    grouped_matmul(*reference_, op);
    expect_same_bytes(found, expected, x, w);
  }

  /// The same product as a weight gradient of K-vectors that lie across memory.
  void expect_same_codes_across(const Tensor& dy, const Tensor& dy_scales, const Tensor& x,
                                const Tensor& x_scales) {
    const Tensor across[] = {transposed(dy), transposed(dy_scales), transposed(x),
                             transposed(x_scales)};
    const Tensor ends = group_ends_of({static_cast<std::int32_t>(dy.extent(1))});
    Tensor found(Dtype::bf16, {1, dy.extent(0), x.extent(0)});
    Tensor expected = found;
    GroupedMatmulWgrad op;
    op.dy = {across[0].operand(), across[1].operand(), kMxRows};
    op.x = {across[2].operand(), across[3].operand(), kMxRows};
    op.group_ends = ends.operand();
    op.dw = found.result();
    grouped_matmul_wgrad(*table_, op);
    op.dw = expected.result();
    grouped_matmul_wgrad(*reference_, op);
    expect_same_bytes(found, expected, dy, x);
  }

  std::unique_ptr<Backend> table_;
  std::unique_ptr<Backend> reference_ = make_reference_backend();
};

inline void PrintTo(const Table& table, std::ostream* out) { *out << table.name; }
inline std::string name_of_table(const testing::TestParamInfo<Table>& row) {
  return row.param.name;
}
inline auto tile_tables() {
  return testing::Values(Table{"amx_layout", cpu::Isa::avx512, amx_layout_kernels},
                         Table{"amx", cpu::Isa::amx, []() -> const cpu::Kernels& {
                                 return cpu::kernels_of(cpu::Isa::amx);
                               }});
}

}  // namespace mxo::test
