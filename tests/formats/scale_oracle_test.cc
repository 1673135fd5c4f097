// The scale rules by their words (MPFR), and the inputs where real stacks depart from them.

#include "tests/support/formats_under_test.h"
#include "tests/support/oracle.h"
#include "tests/support/sweep.h"

namespace mxo::test {
namespace {

constexpr ScaleMode kModes[] = {ScaleMode::floor, ScaleMode::ceil, ScaleMode::even,
                                ScaleMode::rceil};

/// Every amax from 0 to infinity.
RunTable exact_scales(FormatSpec format, ScaleMode mode) {
  RunTable table;
  table.inputs = 0x7F800001;
  append_runs(table, 0, 0x7F800000,
              [&](std::uint64_t input) { return exact_scale(format, float_of(input), mode); });
  return table;
}

template <typename Format>
class ScaleOracle : public testing::Test {};
TYPED_TEST_SUITE(ScaleOracle, Formats8, FormatName);

TYPED_TEST(ScaleOracle, EveryModeOfTheOcpProfileIsTheExactRuleAtEveryBoundary) {
  for (const ScaleMode mode : kModes) {
    const RunTable table = exact_scales(TypeParam::spec, mode);
    ASSERT_GT(table.start.size(), 200u);
    for (std::size_t run = 0; run < table.start.size(); ++run) {
      for (const std::uint64_t input : {table.start[run], table.end_of(run) - 1}) {
        const E8M0 scale = shared_scale<TypeParam::spec>(float_of(input), mode, kOcp);
        ASSERT_EQ(scale.bits, table.code[run]) << std::hex << input;
      }
    }
  }
}

TYPED_TEST(ScaleOracle, EveryPowerOfTwoComesBackFromEveryRounding) {
  for (unsigned bits = 0; bits < 255; ++bits) {
    const E8M0 scale{static_cast<std::uint8_t>(bits)};
    for (const auto rounding : {E8M0Rounding::nearest, E8M0Rounding::up, E8M0Rounding::zero})
      EXPECT_EQ(encode_e8m0(decode(scale), rounding, false), scale);
    EXPECT_EQ(decode(scale) * reciprocal(scale), 1.0f) << bits;
  }
}

/// The exact scale of every float as a block of one; NaNs lengthen the run of infinity.
RunTable exact_scales_of_floats(FormatSpec format, ScaleMode mode) {
  RunTable table;
  table.inputs = std::uint64_t{1} << 32;
  for (const std::uint64_t sign : {std::uint64_t{0}, std::uint64_t{0x80000000}}) {
    append_runs(table, sign, sign + 0x7F800000, [&](std::uint64_t input) {
      return exact_scale(format, float_of(input & 0x7FFFFFFF), mode);
    });
  }
  return table;
}

TEST(MpfrScales, EqualTorchaosOnEveryFloatInTheModesThatDoNotRound) {
  for (const auto& [format, name] :
       {std::pair{kE4M3, "float8_e4m3fn"}, std::pair{kE5M2, "float8_e5m2"}}) {
    for (const auto& [mode, mode_name] :
         {std::pair{ScaleMode::floor, "floor"}, std::pair{ScaleMode::ceil, "ceil"},
          std::pair{ScaleMode::even, "even"}}) {
      const RunTable captured = run_table(capture("mx_single_element_exhaustive"),
                                          std::string(mode_name) + "." + name + ".scale");
      EXPECT_EQ(exact_scales_of_floats(format, mode), captured) << mode_name << ' ' << name;
    }
  }
}

TEST(MpfrScales, DifferFromTorchaosRceilAtOneMagnitudeOfEachFormat) {
  for (const auto& [format, name, amax] :
       {std::tuple{kE4M3, "float8_e4m3fn", std::uint64_t{0x04600001}},
        std::tuple{kE5M2, "float8_e5m2", std::uint64_t{0x07E00001}}}) {
    const RunTable captured =
        run_table(capture("mx_single_element_exhaustive"), std::string("rceil.") + name + ".scale");
    const RunTable differs = joined(captured, exact_scales_of_floats(format, ScaleMode::rceil),
                                    [](unsigned a, unsigned b) { return unsigned{a != b}; });
    const std::vector<std::uint64_t> at{0, amax, amax + 1, amax | 0x80000000,
                                        (amax | 0x80000000) + 1};
    EXPECT_EQ(differs.start, at) << name;
    EXPECT_EQ(captured[amax], 0) << name;
    EXPECT_EQ(exact_scale(format, float_of(amax), ScaleMode::rceil), 1u) << name;
  }
}

}  // namespace
}  // namespace mxo::test
