// The cpu backend against the definition on hostile products: every byte of the result's memory,
// under every instruction set of this machine and 1, 2 and 7 threads.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "emu/cpu/isa.h"
#include "tests/support/gemm_cases.h"

namespace mxo {
namespace {

using test::GemmCase;
using test::GemmSpec;

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
    for (const GemmSpec& spec : test::hostile_specs(1)) {
      GemmCase gemm(spec);
      for (const Accumulation& sum : {kExact, kFmaChain}) {
        made.push_back({spec, sum, gemm.run(*reference, sum)});
      }
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

TEST(GroupedMatmulCases, TheDefinitionLeavesGuardsAndRowsNotOwedAlone) {
  for (const Answer& answer : answers()) {
    GemmCase gemm(answer.spec);
    std::vector<std::byte> bytes = answer.bytes;
    const std::size_t size = size_of(answer.spec.out);
    Index owed = 0;
    const auto groups = static_cast<Index>(answer.spec.groups.size());
    for (Index g = 0; g < groups; ++g) {
      for (Index i = 0; i < gemm.lines_a(g); ++i) {
        for (Index j = 0; j < gemm.lines_b(); ++j, ++owed) {
          const auto at = static_cast<std::size_t>(gemm.place_out(g, i, j)) * size;
          for (std::size_t byte = at; byte < at + size; ++byte) bytes[byte] = std::byte{0xA5};
        }
      }
    }
    EXPECT_EQ(owed, gemm.outputs());
    EXPECT_TRUE(bytes == gemm.out.memory()) << describe(answer.spec);
  }
}

}  // namespace
}  // namespace mxo
