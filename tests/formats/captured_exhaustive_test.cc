// Captured conversions and scales of single elements, repeated on every float.
#include "formats/mx_block.h"
#include "tests/support/conversions.h"

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

}  // namespace
}  // namespace mxo::test
