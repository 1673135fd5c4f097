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

/// A table of tiles, and the definition.
class TileTables : public testing::TestWithParam<Table> {
 protected:
  void SetUp() override {
    if (!cpu::machine_has(GetParam().isa)) GTEST_SKIP() << "not on this machine";
    table_ = std::make_unique<TableBackend>(GetParam().kernels());
  }
  /// The product that the table computes has the bytes of the definition's, and leaves none of them
  /// as it was.
  template <typename Op>
  void expect_same_product(void (*run)(Backend&, const Op&), Op op, Result Op::*to,
                           std::vector<Index> shape, const Tensor& a, const Tensor& b) {
    Tensor found(Dtype::bf16, std::move(shape));
    std::memset(found.data(), 0xA5, found.bytes());
    Tensor expected = found;
    op.*to = found.result();
    run(*table_, op);
    op.*to = expected.result();
    run(*reference_, op);
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.bytes()), 0)
        << name_of(a.dtype()) << " x " << name_of(b.dtype()) << ", depth " << a.extent(1);
  }
  void expect_same_wgrad(const Tensor& dy, const Tensor& x, std::vector<std::int32_t> group_ends) {
    const auto groups = static_cast<Index>(group_ends.size());
    const Tensor ends = group_ends_of(group_ends);
    expect_same_product<GroupedMatmulWgrad>(
        grouped_matmul_wgrad,
        {unscaled(dy.operand()), unscaled(x.operand()), ends.operand(), kExact, {}},
        &GroupedMatmulWgrad::dw, {groups, dy.extent(1), x.extent(1)}, dy, x);
  }
  void expect_same_codes(const Tensor& x, const Tensor& x_scales, const Tensor& w,
                         const Tensor& w_scales) {
    const Tensor ends = group_ends_of({static_cast<std::int32_t>(x.extent(0))});
    expect_same_product<GroupedMatmul>(
        grouped_matmul,
        {{x.operand(), x_scales.operand()},
         {as_one_group(w.operand()), as_one_group(w_scales.operand())},
         ends.operand(),
         kExact,
         {}},
        &GroupedMatmul::y, {x.extent(0), w.extent(0)}, x, w);
  }
  /// The same product as a weight gradient of K-vectors that lie across memory.
  void expect_same_codes_across(const Tensor& dy, const Tensor& dy_scales, const Tensor& x,
                                const Tensor& x_scales) {
    const Tensor across[] = {exchanged(dy), exchanged(dy_scales), exchanged(x),
                             exchanged(x_scales)};
    const Tensor ends = group_ends_of({static_cast<std::int32_t>(dy.extent(1))});
    expect_same_product<GroupedMatmulWgrad>(grouped_matmul_wgrad,
                                            {{across[0].operand(), across[1].operand(), kMxRows},
                                             {across[2].operand(), across[3].operand(), kMxRows},
                                             ends.operand(),
                                             kExact,
                                             {}},
                                            &GroupedMatmulWgrad::dw, {1, dy.extent(0), x.extent(0)},
                                            dy, x);
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
