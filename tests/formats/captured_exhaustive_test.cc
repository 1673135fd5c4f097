// Every float into every small format and every scale: as captured, and as MPFR and the exact rule
// round.
#include "formats/mx_block.h"
#include "tests/support/conversions.h"
#include "tests/support/formats_under_test.h"
#include "tests/support/oracle.h"
#include "tests/support/sweep.h"

namespace mxo::test {
namespace {

class CapturedConversion : public testing::TestWithParam<Conversion> {};

TEST_P(CapturedConversion, IsRepeatedOnEveryInput) {
  EXPECT_TRUE(GetParam().agrees(GetParam().load()));
}

INSTANTIATE_TEST_SUITE_P(All, CapturedConversion,
                         testing::ValuesIn(captured_conversions().begin(),
                                           captured_conversions().end()),
                         conversion_name);

template <FormatSpec S>
unsigned scale_and_element(std::uint64_t input, ScaleMode mode) {
  const float x = float_of(input);
  const float amax = bit_cast<float>(join_amax(0, x, kTorchao.nan));
  const E8M0 scale = shared_scale<S>(amax, mode, kTorchao);
  return static_cast<unsigned>(scale.bits << 8 | quantize_element<S>(x, scale).bits);
}

struct Case {
  const char* mode;
  const char* format;
  testing::AssertionResult (*agrees)(const RunTable&);
};

template <FormatSpec S, ScaleMode mode>
constexpr Case row(const char* mode_name, const char* format) {
  return {mode_name, format, [](const RunTable& table) {
            return agrees_everywhere(
                table, [](std::uint64_t input) { return scale_and_element<S>(input, mode); });
          }};
}

constexpr Case kCases[] = {
    row<kE4M3, ScaleMode::floor>("floor", "float8_e4m3fn"),
    row<kE4M3, ScaleMode::ceil>("ceil", "float8_e4m3fn"),
    row<kE4M3, ScaleMode::even>("even", "float8_e4m3fn"),
    row<kE4M3, ScaleMode::rceil>("rceil", "float8_e4m3fn"),
    row<kE5M2, ScaleMode::floor>("floor", "float8_e5m2"),
    row<kE5M2, ScaleMode::ceil>("ceil", "float8_e5m2"),
    row<kE5M2, ScaleMode::even>("even", "float8_e5m2"),
    row<kE5M2, ScaleMode::rceil>("rceil", "float8_e5m2"),
};

class OneElementBlock : public testing::TestWithParam<Case> {};

TEST_P(OneElementBlock, HasTheScaleAndTheElementOfTorchaoForEveryFloat) {
  const TensorFile& file = capture("mx_single_element_exhaustive");
  const std::string stem = std::string(GetParam().mode) + "." + GetParam().format;
  const RunTable both =
      joined(run_table(file, stem + ".scale"), run_table(file, stem + ".elem"),
             [](unsigned scale, unsigned element) { return scale << 8 | element; });
  EXPECT_TRUE(GetParam().agrees(both));
}

std::string case_name(const testing::TestParamInfo<Case>& row) {
  return std::string(row.param.mode) + "_" + row.param.format;
}

INSTANTIATE_TEST_SUITE_P(Captured, OneElementBlock, testing::ValuesIn(kCases), case_name);

template <typename Format>
class EveryFloat : public testing::Test {};
using Formats16 = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(EveryFloat, Formats16, FormatName);

TYPED_TEST(EveryFloat, RoundsAsMpfrDoes) {
  const RunTable table = table_of_floats([](std::uint64_t input) {
    return nearest_code(TypeParam::spec, float_of(input), Overflow::nonfinite);
  });
  EXPECT_GT(table.start.size(), 60000u);
  EXPECT_TRUE(agrees_everywhere(table, [](std::uint64_t input) -> unsigned {
    return encode<TypeParam::spec>(float_of(input)).bits;
  }));
}

constexpr std::int64_t kInfinity = 0x7F800000;

/// The finite amax, in rising order, for which two profiles choose different scales.
template <FormatSpec S, ScaleMode mode, ScaleProfile profile, ScaleProfile from>
std::vector<std::uint32_t> departures() {
  constexpr std::int32_t kRun = 1 << 16;
  static_assert(kInfinity % kRun == 0);
  std::vector<std::uint32_t> found;
#pragma omp parallel for schedule(dynamic, 64)
  for (std::int64_t first = 0; first < kInfinity; first += kRun) {
    const auto departs = [first = static_cast<std::int32_t>(first)](std::int32_t i) {
      const auto amax = bit_cast<float>(first + i);
      return shared_scale<S>(amax, mode, profile).bits != shared_scale<S>(amax, mode, from).bits;
    };
    if (count(kRun, departs) == 0) continue;
    for (std::int32_t i = 0; i < kRun; ++i) {
      if (!departs(i)) continue;
#pragma omp critical
      found.push_back(static_cast<std::uint32_t>(first + i));
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

using Inputs = std::vector<std::uint32_t>;

template <typename Format>
class ScaleOfEveryAmax : public testing::Test {};
TYPED_TEST_SUITE(ScaleOfEveryAmax, Formats8, FormatName);

template <FormatSpec S, ScaleMode mode>
testing::AssertionResult is_the_exact_rule() {
  RunTable table;
  table.inputs = kInfinity + 1;
  append_runs(table, 0, kInfinity,
              [](std::uint64_t input) { return exact_scale(S, float_of(input), mode); });
  return agrees_everywhere(table, [](std::uint64_t input) -> unsigned {
    return shared_scale<S>(float_of(input), mode, kOcp).bits;
  });
}

TYPED_TEST(ScaleOfEveryAmax, IsTheExactRuleInTheOcpProfile) {
  constexpr FormatSpec s = TypeParam::spec;
  EXPECT_TRUE((is_the_exact_rule<s, ScaleMode::floor>()));
  EXPECT_TRUE((is_the_exact_rule<s, ScaleMode::ceil>()));
  EXPECT_TRUE((is_the_exact_rule<s, ScaleMode::even>()));
  EXPECT_TRUE((is_the_exact_rule<s, ScaleMode::rceil>()));
}

TEST(TorchaosRceil, DepartsFromTheExactRuleAtOneAmaxOfEachFormat) {
  constexpr ScaleMode rceil = ScaleMode::rceil;
  EXPECT_EQ((departures<kE4M3, rceil, kTorchao, kOcp>()), Inputs{0x04600001});
  EXPECT_EQ((departures<kE5M2, rceil, kTorchao, kOcp>()), Inputs{0x07E00001});
  EXPECT_EQ((departures<kE4M3Fnuz, rceil, kTorchao, kOcp>()), Inputs{0x03F00001});
  EXPECT_EQ((departures<kE5M2Fnuz, rceil, kTorchao, kOcp>()), Inputs{0x07E00001});
}

TEST(TorchaosCudaFloor, DepartsFromTheExponentFieldAtOneAmaxOfEachFormat) {
  constexpr ScaleMode floor = ScaleMode::floor;
  EXPECT_EQ((departures<kE4M3, floor, kTorchaoCuda, kTorchao>()), Inputs{0x047FFFFF});
  EXPECT_EQ((departures<kE5M2, floor, kTorchaoCuda, kTorchao>()), Inputs{0x07FFFFFF});
}

}  // namespace
}  // namespace mxo::test
