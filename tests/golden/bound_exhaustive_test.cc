// Ten million sums inside their certified bounds.
#include <gtest/gtest.h>

#include "emu/backends.h"
#include "tests/golden/bound_sums.h"

namespace mxo {
namespace {

TEST(Bound, HoldsTenMillionSumsOfEveryOrderAndMachine) {
  const auto backend = make_cpu_backend();
  Held held;
  for (std::uint64_t round = 0; held.sums < 10'000'000; ++round) hold_round(*backend, round, held);
  EXPECT_EQ(held.outside, 0) << held.worst << " by " << held.nearest;
}

}  // namespace
}  // namespace mxo
