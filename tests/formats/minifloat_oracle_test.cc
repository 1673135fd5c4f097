// Every code, and every float beside a rounding boundary, against MPFR; NaN as this library writes
// it.
#include <gtest/gtest.h>
#include <cmath>

#include "formats/minifloat.h"
#include "tests/support/formats_under_test.h"
#include "tests/support/oracle.h"
#include "tests/support/sweep.h"

namespace mxo::test {
namespace {

template <typename Format>
class MinifloatOracle : public testing::Test {};
TYPED_TEST_SUITE(MinifloatOracle, AllFormats, FormatName);

template <typename Format>
constexpr unsigned kCodes = 1u << Format::spec.bits();

template <typename Format>
Format code_of(unsigned bits) {
  return {static_cast<typename Format::Bits>(bits)};
}

TYPED_TEST(MinifloatOracle, DecodesEveryFiniteCodeToItsDefinition) {
  for (unsigned bits = 0; bits < kCodes<TypeParam>; ++bits) {
    const auto code = code_of<TypeParam>(bits);
    if (is_nan(code) || is_infinite(code)) continue;
    const double value = code_value(TypeParam::spec, bits);
    ASSERT_EQ(static_cast<double>(decode(code)), value) << "code " << bits;
    ASSERT_EQ(std::signbit(decode(code)), std::signbit(value)) << "code " << bits;
  }
}

TYPED_TEST(MinifloatOracle, EncodesTheFloatsAtAndBesideEveryBoundaryAsMpfrRounds) {
  constexpr FormatSpec s = TypeParam::spec;
  for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
    for (unsigned code = 0; code <= static_cast<unsigned>(s.max_finite()); ++code) {
      // The next code's value as if there were one; from the largest, the overflow boundary.
      const double value = code_value(s, code);
      const double midpoint = code == static_cast<unsigned>(s.max_finite())
                                  ? value + (value - code_value(s, code - 1)) / 2
                                  : (value + code_value(s, code + 1)) / 2;
      for (const double point : {value, midpoint}) {
        const auto middle = static_cast<float>(point);
        for (const float x :
             {std::nextafterf(middle, 0.0f), middle, std::nextafterf(middle, INFINITY)}) {
          for (const float signed_x : {x, -x})
            ASSERT_EQ(encode<s>(signed_x, overflow).bits, nearest_code(s, signed_x, overflow))
                << std::hexfloat << signed_x;
        }
      }
    }
  }
}

TYPED_TEST(MinifloatOracle, EncodesTheExtremeFloatsAsMpfrRounds) {
  constexpr FormatSpec s = TypeParam::spec;
  for (const std::uint32_t word : {0u, 1u, 0x007FFFFFu, 0x00800000u, 0x7F7FFFFFu, 0x7F800000u,
                                   0x7F800001u, 0x7FC00000u, 0x7FFFFFFFu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const float x = float_of(word | sign);
      for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite})
        EXPECT_EQ(encode<s>(x, overflow).bits, nearest_code(s, x, overflow)) << std::hex << word;
    }
  }
}

TYPED_TEST(MinifloatOracle, EveryFiniteCodeSurvivesTheRoundTrip) {
  unsigned finite = 0;
  for (unsigned bits = 0; bits < kCodes<TypeParam>; ++bits) {
    const auto code = code_of<TypeParam>(bits);
    if (is_nan(code)) continue;
    ++finite;
    ASSERT_EQ(encode<TypeParam::spec>(decode(code)), code) << "code " << bits;
  }
  EXPECT_GE(finite, 250u);
}

TYPED_TEST(MinifloatOracle, HasTheNansAndInfinitiesOfItsKindAndNoOthers) {
  constexpr FormatSpec s = TypeParam::spec;
  unsigned nans = 0;
  unsigned infinities = 0;
  for (unsigned bits = 0; bits < kCodes<TypeParam>; ++bits) {
    const auto code = code_of<TypeParam>(bits);
    const unsigned sign = bits >> s.sign_shift();
    const float value = decode(code);
    nans += is_nan(code);
    infinities += is_infinite(code);
    ASSERT_EQ(is_nan(code), bit_cast<std::uint32_t>(value) == 0x7FC00000u) << bits;
    ASSERT_EQ(is_infinite(code), value == (sign != 0 ? -INFINITY : INFINITY)) << bits;
    const unsigned magnitude = bits - (sign << s.sign_shift());
    const bool minus_0 = s.special == Special::nan_minus_0 && sign != 0 && magnitude == 0;
    ASSERT_EQ(std::isfinite(value), magnitude <= static_cast<unsigned>(s.max_finite()) && !minus_0)
        << bits;
  }
  const unsigned payloads = (1u << s.mantissa_bits) - 1;
  EXPECT_EQ(nans, s.special == Special::ieee ? 2 * payloads
                                             : (s.special == Special::nan_all_ones ? 2u : 1u));
  EXPECT_EQ(infinities, s.special == Special::ieee ? 2u : 0u);
  EXPECT_TRUE(is_nan(make_nan<s>()));
  EXPECT_TRUE(is_nan(make_nan<s>(1)));
}

/// The captured table with NaN codes made one; how a producer spells NaN is not a rounding.
RunTable with_one_nan(const RunTable& table) {
  return joined(table, table,
                [](unsigned code, unsigned) { return (code & 0x7Fu) == 0x7Fu ? 0x7Fu : code; });
}

TEST(MpfrTables, EqualTheGpusOnEveryFloat) {
  const struct {
    FormatSpec format;
    Overflow overflow;
    const char* capture;
    const char* table;
  } rows[] = {
      {kE4M3, Overflow::saturate, "h200_conversions", "f32_to_e4m3fn_satfinite"},
      {kE4M3, Overflow::nonfinite, "h200_conversions", "f32_to_e4m3fn_nosat"},
      {kE5M2, Overflow::saturate, "h200_conversions", "f32_to_e5m2_satfinite"},
      {kE5M2, Overflow::nonfinite, "h200_conversions", "f32_to_e5m2_nosat"},
  };
  for (const auto& row : rows) {
    const RunTable table = table_of_floats([&](std::uint64_t input) {
      return nearest_code(row.format, float_of(input), row.overflow);
    });
    EXPECT_EQ(with_one_nan(table), with_one_nan(run_table(capture(row.capture), row.table)))
        << row.table;
  }
  for (const auto& [format, name] : {std::pair{kE4M3Fnuz, "torch_cuda.f32_to_float8_e4m3fnuz"},
                                     std::pair{kE5M2Fnuz, "torch_cuda.f32_to_float8_e5m2fnuz"}}) {
    const RunTable table = table_of_floats([spec = format](std::uint64_t input) {
      return nearest_code(spec, float_of(input), Overflow::nonfinite);
    });
    EXPECT_EQ(table, run_table(capture("torch_casts"), name)) << name;
  }
}

float of(std::uint32_t word) { return bit_cast<float>(word); }

TEST(Minifloat, NansAreThoseThisLibraryWrites) {
  EXPECT_EQ(make_nan<kE4M3>().bits, 0x7F);
  EXPECT_EQ(make_nan<kE4M3>(1).bits, 0xFF);
  EXPECT_EQ(make_nan<kE5M2>().bits, 0x7F);
  EXPECT_EQ(make_nan<kE5M2>(1).bits, 0xFF);
  EXPECT_EQ(make_nan<kE4M3Fnuz>(1).bits, 0x80);
  EXPECT_EQ(make_nan<kE5M2Fnuz>().bits, 0x80);
  EXPECT_EQ(make_nan<kF16>().bits, 0x7E00);
  EXPECT_EQ(make_nan<kBF16>(1).bits, 0xFFC0);
}

TEST(Minifloat, NanOperandsKeepTheirSignWhereAsked) {
  for (const std::uint32_t nan : {0x7F800001u, 0x7FFFFFFFu}) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      const float operand = of(nan | sign);
      const auto signed_nan = encode<kE4M3>(operand, Overflow::nonfinite, NanSign::of_operand);
      EXPECT_EQ(signed_nan.bits, sign != 0 ? 0xFF : 0x7F);
      EXPECT_EQ(encode<kE4M3>(operand).bits, 0x7F);
      EXPECT_EQ(encode<kE4M3>(operand, Overflow::saturate).bits, 0x7F);
      EXPECT_EQ(encode<kE5M2Fnuz>(operand).bits, 0x80);
    }
  }
}

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
