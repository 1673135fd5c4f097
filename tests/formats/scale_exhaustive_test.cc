// Every amax there is: the exact rules, and the complete list of inputs where a stack's own
// arithmetic gives another scale.
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/formats_under_test.h"
#include "tests/support/oracle.h"
#include "tests/support/sweep.h"

namespace mxo::test {
namespace {

constexpr std::int64_t kInfinity = 0x7F800000;

/// The finite amax, in rising order, for which two profiles choose different scales.
template <FormatSpec S>
std::vector<std::uint32_t> departures(ScaleMode mode, const ScaleProfile& profile,
                                      const ScaleProfile& from) {
  std::vector<std::uint32_t> found;
#pragma omp parallel for schedule(dynamic, 1 << 20)
  for (std::int64_t word = 0; word < kInfinity; ++word) {
    const float amax = float_of(static_cast<std::uint64_t>(word));
    if (shared_scale<S>(amax, mode, profile) == shared_scale<S>(amax, mode, from)) continue;
#pragma omp critical
    found.push_back(static_cast<std::uint32_t>(word));
  }
  std::sort(found.begin(), found.end());
  return found;
}

using Inputs = std::vector<std::uint32_t>;

template <typename Format>
class ScaleOfEveryAmax : public testing::Test {};
TYPED_TEST_SUITE(ScaleOfEveryAmax, Formats8, FormatName);

TYPED_TEST(ScaleOfEveryAmax, IsTheExactRuleInTheOcpProfile) {
  for (const ScaleMode mode :
       {ScaleMode::floor, ScaleMode::ceil, ScaleMode::even, ScaleMode::rceil}) {
    RunTable table;
    table.inputs = kInfinity + 1;
    append_runs(table, 0, kInfinity, [&](std::uint64_t input) {
      return exact_scale(TypeParam::spec, float_of(input), mode);
    });
    EXPECT_TRUE(agrees_everywhere(table, [mode](std::uint64_t input) -> unsigned {
      return shared_scale<TypeParam::spec>(float_of(input), mode, kOcp).bits;
    }));
  }
}

TEST(TorchaosRceil, DepartsFromTheExactRuleAtOneAmaxOfEachFormat) {
  EXPECT_EQ(departures<kE4M3>(ScaleMode::rceil, kTorchao, kOcp), Inputs{0x04600001});
  EXPECT_EQ(departures<kE5M2>(ScaleMode::rceil, kTorchao, kOcp), Inputs{0x07E00001});
  EXPECT_EQ(departures<kE4M3Fnuz>(ScaleMode::rceil, kTorchao, kOcp), Inputs{0x03F00001});
  EXPECT_EQ(departures<kE5M2Fnuz>(ScaleMode::rceil, kTorchao, kOcp), Inputs{0x07E00001});
}

TEST(TorchaosCudaFloor, DepartsFromTheExponentFieldAtOneAmaxOfEachFormat) {
  EXPECT_EQ(departures<kE4M3>(ScaleMode::floor, kTorchaoCuda, kTorchao), Inputs{0x047FFFFF});
  EXPECT_EQ(departures<kE5M2>(ScaleMode::floor, kTorchaoCuda, kTorchao), Inputs{0x07FFFFFF});
}

}  // namespace
}  // namespace mxo::test
