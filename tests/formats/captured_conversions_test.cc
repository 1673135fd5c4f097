// Captured tables at both ends of every run, decoded codes, and where two packages disagree.
#include <cmath>

#include "tests/support/conversions.h"

namespace mxo::test {
namespace {

class CapturedConversion : public testing::TestWithParam<Conversion> {};

TEST_P(CapturedConversion, IsRepeatedAtBothEndsOfEveryRun) {
  const RunTable table = GetParam().load();
  ASSERT_GE(table.start.size(), 200u);
  for (std::size_t run = 0; run < table.start.size(); ++run) {
    ASSERT_EQ(GetParam().code_of(table.start[run]), table.code[run]) << "run " << run;
    ASSERT_EQ(GetParam().code_of(table.end_of(run) - 1), table.code[run]) << "run " << run;
  }
}

INSTANTIATE_TEST_SUITE_P(All, CapturedConversion,
                         testing::ValuesIn(captured_conversions().begin(),
                                           captured_conversions().end()),
                         conversion_name);

/// The f32 bits a package gives for a code, against ours; NaN as a class.
template <typename Code>
void expect_decodes(std::string_view file, const std::string& table) {
  const Tensor& values = tensor_of(capture(file), table);
  ASSERT_EQ(values.elements(), 256) << table;
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto expected = bit_cast<float>(values.as<std::int32_t>()[bits]);
    const float found = decode(Code{static_cast<std::uint8_t>(bits)});
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(found)) << table << " code " << bits;
    } else {
      EXPECT_EQ(bit_cast<std::uint32_t>(found), bit_cast<std::uint32_t>(expected))
          << table << " code " << bits;
    }
  }
}

TEST(CapturedDecode, GivesTheValueOfEveryCodeThatPackagesGive) {
  for (const std::string package : {"torch", "ml_dtypes"}) {
    const std::string file = package + "_casts", table = package + ".decode.float8_";
    expect_decodes<E4M3>(file, table + "e4m3fn");
    expect_decodes<E4M3Fnuz>(file, table + "e4m3fnuz");
    expect_decodes<E5M2>(file, table + "e5m2");
    expect_decodes<E5M2Fnuz>(file, table + "e5m2fnuz");
    expect_decodes<E8M0>(file, table + "e8m0fnu");
  }
}

}  // namespace
}  // namespace mxo::test
