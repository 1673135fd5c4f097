// Captured tables at both ends of every run, decoded codes, and where two packages disagree.
#include <cmath>

#include <gtest/gtest.h>

#include "formats/dtype.h"
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

TEST(CapturedDecode, GivesTheValueOfEveryCodeThatTorchGives) {
  expect_decodes<E4M3>("torch_casts", "torch.decode.float8_e4m3fn");
  expect_decodes<E4M3Fnuz>("torch_casts", "torch.decode.float8_e4m3fnuz");
  expect_decodes<E5M2>("torch_casts", "torch.decode.float8_e5m2");
  expect_decodes<E5M2Fnuz>("torch_casts", "torch.decode.float8_e5m2fnuz");
  expect_decodes<E8M0>("torch_casts", "torch.decode.float8_e8m0fnu");
}

TEST(CapturedDecode, GivesTheValueOfEveryCodeThatMlDtypesGives) {
  expect_decodes<E4M3>("ml_dtypes_casts", "ml_dtypes.decode.float8_e4m3fn");
  expect_decodes<E4M3Fnuz>("ml_dtypes_casts", "ml_dtypes.decode.float8_e4m3fnuz");
  expect_decodes<E5M2>("ml_dtypes_casts", "ml_dtypes.decode.float8_e5m2");
  expect_decodes<E5M2Fnuz>("ml_dtypes_casts", "ml_dtypes.decode.float8_e5m2fnuz");
  expect_decodes<E8M0>("ml_dtypes_casts", "ml_dtypes.decode.float8_e8m0fnu");
}

/// Inputs first..last of which ml_dtypes makes one code and torch others.
struct Difference {
  std::uint64_t first;
  std::uint64_t last;
  int ml_dtypes;
  friend bool operator==(const Difference&, const Difference&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Difference& d) {
    return out << std::hex << d.first << ".." << d.last << " to " << d.ml_dtypes << std::dec;
  }
};

std::vector<Difference> differences_from_torch(const std::string& format) {
  const RunTable torch = run_table(capture("torch_casts"), "torch_cuda.f32_to_" + format);
  const RunTable other = run_table(capture("ml_dtypes_casts"), "ml_dtypes.f32_to_" + format);
  const RunTable marked =
      joined(torch, other, [](unsigned a, unsigned b) { return a == b ? 0u : 0x100u | b; });
  std::vector<Difference> found;
  for (std::size_t run = 0; run < marked.start.size(); ++run) {
    if (marked.code[run] == 0) continue;
    found.push_back({marked.start[run], marked.end_of(run) - 1, marked.code[run] & 0xFF});
  }
  return found;
}

using Differences = std::vector<Difference>;

TEST(MlDtypes, EqualsTorchOnEveryFloatForThreeFormats) {
  EXPECT_EQ(differences_from_torch("float8_e4m3fn"), Differences{});
  EXPECT_EQ(differences_from_torch("float8_e4m3fnuz"), Differences{});
  EXPECT_EQ(differences_from_torch("float8_e5m2fnuz"), Differences{});
}

TEST(MlDtypes, WritesAnotherNanThanTorchInE5m2AndNothingElseDiffers) {
  EXPECT_EQ(differences_from_torch("float8_e5m2"),
            (Differences{{0x7F800001, 0x7FFFFFFF, 0x7E}, {0xFF800001, 0xFFFFFFFF, 0xFE}}));
}

TEST(MlDtypes, MakesNanOfZeroAndOfNegativesInE8m0AndNothingElseDiffers) {
  // Negatives from -1.5 * 2^127 down, -Inf and -NaN are FF in torch too.
  EXPECT_EQ(differences_from_torch("float8_e8m0fnu"),
            (Differences{{0x00000000, 0x00000000, 0xFF}, {0x80000000, 0xFF3FFFFF, 0xFF}}));
}

TEST(MlDtypes, SaturatesInfinityAndDropsNanInFp6AndFp4) {
  const struct {
    const char* format;
    int max;
  } rows[] = {{"float6_e2m3fn", 0x1F}, {"float6_e3m2fn", 0x1F}, {"float4_e2m1fn", 0x7}};
  for (const auto& [format, max] : rows) {
    const RunTable table =
        run_table(capture("ml_dtypes_casts"), std::string("ml_dtypes.f32_to_") + format);
    EXPECT_EQ(table[0x7F800000], max) << format;
    EXPECT_EQ(table[0x7FC00000] & max, 0) << format;
  }
  // The IEEE e4m3, which is none of ours, has infinities (78) and the NaN sign|7C.
  const RunTable ieee = run_table(capture("ml_dtypes_casts"), "ml_dtypes.f32_to_float8_e4m3");
  EXPECT_EQ(ieee[0x7F800000], 0x78);
  EXPECT_EQ(ieee[0x7FC00000], 0x7C);
  EXPECT_EQ(ieee[0xFFC00000], 0xFC);
}

}  // namespace
}  // namespace mxo::test
