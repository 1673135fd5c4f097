// Ten thousand changed cases of every operator.
#include "tests/golden/mutated_cases.h"

namespace mxo {
namespace {

TEST(MutatedCases, NothingWrongPassesAmongTenThousand) {
  MutatedCases cases(std::uintmax_t{1} << 18);
  for (std::uint64_t seed = 1000; seed < 11000; ++seed) ASSERT_NO_THROW(cases.check(seed)) << seed;
  std::printf("%d passed, %d failed, %d refused\n", cases.passed(), cases.failed(),
              cases.refused());
}

}  // namespace
}  // namespace mxo
