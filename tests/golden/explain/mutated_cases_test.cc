// A few hundred changed cases; ten thousand are in the exhaustive tier.
#include "tests/golden/mutated_cases.h"

namespace mxo::mutated_cases_test {
namespace {

TEST(MutatedCases, NothingWrongPassesAndNothingCrashes) {
  MutatedCases cases(std::uintmax_t{1} << 14);
  for (std::uint64_t seed = 0; seed < 300; ++seed) ASSERT_NO_THROW(cases.check(seed)) << seed;
  EXPECT_GT(cases.passed(), 0);
  EXPECT_GT(cases.failed(), 0);
  EXPECT_GT(cases.refused(), 0);
}

}  // namespace
}  // namespace mxo::mutated_cases_test
