// Grouped products against the big-number twin, and on every backend and number of threads.
#include <gtest/gtest.h>

#include "tests/support/contestants.h"
#include "tests/support/gemm_model.h"

namespace mxo::test::grouped_matmul_test {
namespace {

/// Sides that are scaled alike, that differ, and blocks that no fast path has, on every backend of
/// this machine.
class ScaledProducts : public testing::TestWithParam<Scales> {
 protected:
  static std::vector<GemmSpec> specs() {
    std::vector<GemmSpec> all;
    std::uint64_t seed = 40;
    for (const Pass pass : {Pass::forward, Pass::wgrad}) {
      for (const CaseFill fill : kFills) {
        const bool far = fill == CaseFill::giant || fill == CaseFill::ties;  // beyond f16
        if (far && (GetParam() == Scales::half || GetParam() == Scales::half_by_rows)) continue;
        for (const Dtype out : {Dtype::f32, Dtype::bf16}) {
          GemmSpec s;
          s.scales = GetParam();
          s.pass = pass;
          s.fill = fill;
          s.out = out;
          const bool forward = pass == Pass::forward;
          // Past one square of scales: of w, and of x in the middle of a group.
          const bool wide = fill == CaseFill::moderate || fill == CaseFill::cancelling;
          const std::vector<Index> rows =
              wide ? std::vector<Index>{2, 0, 3} : std::vector<Index>{126, 0, 4};
          s.groups = forward ? rows : std::vector<Index>{64, 0, 192};
          s.spare_rows = forward ? 3 : 64;
          s.n = !forward ? 6 : wide ? 133 : 5;
          s.k = forward ? 192 : 5;
          s.a = seed % 2 == 0 ? Dtype::e4m3 : Dtype::e5m2;
          s.b = seed % 3 == 0 ? Dtype::e5m2 : Dtype::e4m3;
          s.layout = static_cast<Layout>(seed % 4);
          s.seed = ++seed;
          all.push_back(s);
        }
      }
    }
    return all;
  }
};

TEST_P(ScaledProducts, EqualTheBigNumberTwin) {
  const auto reference = make_reference_backend();
  BigSum sum;
  for (const GemmSpec& spec : specs()) {
    GemmCase gemm(spec);
    gemm.run(*reference);
    EXPECT_EQ(differences_from_exact(gemm, sum), "");
    gemm.run(*reference, kFmaChain);
    EXPECT_EQ(differences_from_fma_chain(gemm), "");
  }
}

TEST_P(ScaledProducts, HaveTheSameBytesOnTheCpu) {
  const auto reference = make_reference_backend();
  for (const Contestant& contestant : {Contestant{"scalar", 1}, Contestant{"best", 2}}) {
    const auto cpu = contestant.make();
    for (const GemmSpec& spec : specs()) {
      GemmCase gemm(spec);
      for (const Accumulation& sum : {kExact, kFmaChain})
        EXPECT_EQ(gemm.run(*reference, sum), gemm.run(*cpu, sum))
            << sum.name << " " << contestant.name() << " " << describe(spec);
    }
  }
}

/// Codes with f32 scales, and e8m0 ones in the terms, as machines take them.
TEST_P(ScaledProducts, OfMachinesHaveTheSameBytesOnTheCpu) {
  const auto reference = make_reference_backend();
  const auto cpu = make_cpu_backend();
  int compared = 0;
  for (const GemmSpec& spec : specs()) {
    GemmCase gemm(spec);
    const auto e8m0 = [](const SideScales& side) {
      return side.scaled() && side.type == Dtype::e8m0;
    };
    const OperandKind kind =
        operand_kind(gemm.a_dtype, gemm.b_dtype, e8m0(gemm.a_side) && e8m0(gemm.b_side));
    for (const SumRow& row : sums()) {
      const bool blocks_fit = row.sum.block == 0 || gemm.shared_block() % row.sum.block == 0;
      if (!is_machine(row.sum) || row.kind != kind || !blocks_fit) continue;
      EXPECT_EQ(gemm.run(*reference, row.sum), gemm.run(*cpu, row.sum))
          << row.name << " " << describe(spec);
      ++compared;
    }
  }
  const bool other = GetParam() == Scales::single || GetParam() == Scales::half_by_rows;
  EXPECT_EQ(compared == 0, other);
}

std::string name_of_scales(const testing::TestParamInfo<Scales>& info) {
  return std::string(name_of(info.param));
}
INSTANTIATE_TEST_SUITE_P(Usual, ScaledProducts, testing::ValuesIn(kUsualScales), name_of_scales);
INSTANTIATE_TEST_SUITE_P(Mixed, ScaledProducts, testing::ValuesIn(kMixedScales), name_of_scales);

/// What the definition says, computed once for all tests.
struct Answer {
  GemmSpec spec;
  Accumulation sum;
  std::vector<std::byte> bytes;
};

const std::vector<Answer>& answers() {
  static const std::vector<Answer> all = [] {
    std::vector<Answer> made;
    const auto reference = make_reference_backend();
    for (const GemmSpec& spec : hostile_specs(1)) {
      GemmCase gemm(spec);
      for (const Accumulation& sum : {kExact, kFmaChain})
        made.push_back({spec, sum, gemm.run(*reference, sum)});
    }
    return made;
  }();
  return all;
}

class GroupedMatmulAgree : public testing::TestWithParam<cpu::Isa> {};

TEST_P(GroupedMatmulAgree, GivesTheBytesOfTheDefinitionFrom1And2And7Threads) {
  for (const int threads : {1, 2, 7}) {
    const auto backend = make_cpu_backend({std::string(name_of(GetParam())), threads});
    for (const Answer& answer : answers()) {
      GemmCase gemm(answer.spec);
      gemm.prepared = threads == 2;
      EXPECT_TRUE(gemm.run(*backend, answer.sum) == answer.bytes)
          << threads << " threads, " << answer.sum.name << ", " << describe(answer.spec);
    }
  }
}

std::string name_of_isa(const testing::TestParamInfo<cpu::Isa>& row) {
  return std::string(name_of(row.param));
}

INSTANTIATE_TEST_SUITE_P(Cpu, GroupedMatmulAgree, testing::ValuesIn(cpu::machine_isas()),
                         name_of_isa);

}  // namespace
}  // namespace mxo::test::grouped_matmul_test
