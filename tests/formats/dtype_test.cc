// Element types by their names, sizes and ranges; other stacks' words, and slips of the finger.
#include <gtest/gtest.h>

#include <set>

#include "formats/aliases.h"
#include "formats/dtype.h"
#include "formats/nearest_name.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

TEST(DtypeTable, IsInTheOrderOfTheEnumeration) {
  ASSERT_EQ(dtypes().size(), static_cast<std::size_t>(Dtype::boolean) + 1);
  for (std::size_t i = 0; i < dtypes().size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(dtypes()[i].dtype), i) << dtypes()[i].name;
    EXPECT_EQ(row_of(dtypes()[i].dtype).dtype, dtypes()[i].dtype);
  }
}

TEST(DtypeTable, GivesEveryTypeItsOwnNames) {
  std::set<std::string_view> names;
  std::set<std::string_view> container_names;
  for (const DtypeRow& row : dtypes()) {
    names.insert(row.name);
    container_names.insert(row.safetensors);
    EXPECT_EQ(dtype_named(row.name), row.dtype);
  }
  EXPECT_EQ(names.size(), dtypes().size());
  EXPECT_EQ(container_names.size(), dtypes().size());
}

TEST(DtypeTable, NamesTheFormatsThereAreWhenAskedForAnother) {
  const std::string said = refusal([] { dtype_named("e3m4"); }, Fault::argument);
  for (const char* part : {"e3m4", "e4m3fnuz", "e8m0"})
    EXPECT_NE(said.find(part), std::string::npos) << said;
  EXPECT_EQ(said.find("i16"), std::string::npos) << said;
}

TEST(DtypeTable, SizesAreThoseOfTheTypesTheVisitorsName) {
  for (const DtypeRow& row : dtypes()) {
    if (is_minifloat8(row.dtype)) {
      visit_minifloat8(row.dtype, [&](auto tag) {
        EXPECT_EQ(sizeof(typename decltype(tag)::type), row.bytes) << row.name;
      });
    } else if (is_wide_float(row.dtype)) {
      visit_wide_float(row.dtype, [&](auto tag) {
        EXPECT_EQ(sizeof(typename decltype(tag)::type), row.bytes) << row.name;
      });
    } else {
      EXPECT_THROW(visit_minifloat8(row.dtype, [](auto) {}), Error) << row.name;
      EXPECT_THROW(visit_wide_float(row.dtype, [](auto) {}), Error) << row.name;
    }
  }
}

TEST(DtypeTable, SizesAreThoseOfTheirNames) {
  for (const DtypeRow& row : dtypes()) {
    const std::size_t digit = row.name.find_first_of("123456789");
    const bool byte = row.name.starts_with('e') || row.dtype == Dtype::boolean;
    EXPECT_EQ(row.bytes, byte ? 1 : std::stoul(std::string(row.name.substr(digit))) / 8)
        << row.name;
  }
}

struct Said {
  FormatSpec spec;
  int bits;
  int min_exponent;
  int quantum_exponent;
  int max_finite;
  int max_exponent;
};

// OCP OFP8 table 2; arXiv:2206.02915; IEEE 754-2019 table 3.5; the upper half of a float.
constexpr Said kSaid[] = {{kE4M3, 8, -6, -9, 0x7E, 8},      {kE5M2, 8, -14, -16, 0x7B, 15},
                          {kE4M3Fnuz, 8, -7, -10, 0x7F, 7}, {kE5M2Fnuz, 8, -15, -17, 0x7F, 15},
                          {kF16, 16, -14, -24, 0x7BFF, 15}, {kBF16, 16, -126, -133, 0x7F7F, 127}};

TEST(FormatSpec, RangesAreThoseOfTheStandards) {
  for (const Said& said : kSaid) {
    EXPECT_EQ(said.spec.bits(), said.bits) << said.max_finite;
    EXPECT_EQ(said.spec.sign_shift(), said.bits - 1) << said.max_finite;
    EXPECT_EQ(said.spec.min_exponent(), said.min_exponent) << said.max_finite;
    EXPECT_EQ(said.spec.quantum_exponent(), said.quantum_exponent) << said.max_finite;
    EXPECT_EQ(said.spec.max_finite(), said.max_finite) << said.bits;
    EXPECT_EQ(said.spec.max_exponent(), said.max_exponent) << said.max_finite;
  }
}

const std::vector<std::string_view> kNames{"quantize", "dequantize", "e4m3", "e5m2", "x"};

TEST(NearestName, ASlipHasOneNearestName) {
  EXPECT_EQ(nearest_name("quantise", kNames), "quantize");
  EXPECT_EQ(nearest_name("dequantise", kNames), "dequantize");
  EXPECT_EQ(nearest_name("QUANTIZE", kNames), "quantize");
  EXPECT_EQ(nearest_name("e4m", kNames), "e4m3");
}

TEST(NearestName, AnotherWordIsNoSlip) {
  EXPECT_EQ(nearest_name("e3m4", kNames), "");
  EXPECT_EQ(nearest_name("y", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
  EXPECT_EQ(nearest_name("quantize", {}), "");
}

TEST(NearestName, EveryEditCostsOne) {
  EXPECT_EQ(nearest_name("exmx", {"exmy"}), "exmy");           // a letter replaced
  EXPECT_EQ(nearest_name("abcdefghij", {"ghij"}), "");         // six left out, three are allowed
  EXPECT_EQ(nearest_name("abcdefghi", {"abcdef"}), "abcdef");  // three
  EXPECT_EQ(nearest_name("ab", {"ac"}), "ac");                 // one, however short
}

TEST(NearestName, TheChoiceFollowsInEitherCase) {
  EXPECT_EQ(unknown_name("format", "e4m", {"e4m3", "bf16"}),
            "unknown format 'e4m', did you mean e4m3? There are e4m3, bf16");
  EXPECT_EQ(unknown_name("format", "int4", {"e4m3"}), "unknown format 'int4'; there are e4m3");
  EXPECT_EQ(with_nearest("sum: found 'h100'", "h100", {"exact"}, "needs one of"),
            "sum: found 'h100', needs one of exact");
  EXPECT_EQ(with_nearest("cast: unknown parameter 'to'", "to", {}, "it takes"),
            "cast: unknown parameter 'to'; it takes none");
}

TEST(OtherNames, AreReadWhateverTheirCaseAndModule) {
  EXPECT_EQ(canonical_name(Word::format, "torch.float8_e4m3fn"), "e4m3");
  EXPECT_EQ(canonical_name(Word::format, "jnp.float8_e5m2"), "e5m2");
  EXPECT_EQ(canonical_name(Word::format, "UE8M0"), "e8m0");
  EXPECT_EQ(canonical_name(Word::scale_layout, "SWIZZLE_32_4_4"), "blocked");
  EXPECT_EQ(canonical_name(Word::block, "per_token"), "1xK");
  EXPECT_EQ(canonical_name(Word::operation, "silu_and_mul"), "swiglu");
  EXPECT_EQ(canonical_name(Word::parameter, "renormalize"), "normalize");
  EXPECT_EQ(canonical_name(Word::operation, "SILU_AND_MUL"), "swiglu");
  EXPECT_EQ(canonical_name(Word::sum, "DeepGEMM"), "deepgemm_sm90");
  EXPECT_EQ(canonical_name(Word::recipe, "MXFP8_EMULATED_RCEIL"), "mxfp8_rceil");
}

TEST(OtherNames, OfOneKindAreNotOfAnother) {
  EXPECT_EQ(canonical_name(Word::format, "swizzled"), "");
  EXPECT_EQ(canonical_name(Word::scale_layout, "float8_e5m2"), "");
  EXPECT_EQ(canonical_name(Word::block, ""), "");
  EXPECT_EQ(canonical_name(Word::format, "float8_e4m3"),
            "");  // of JAX: another format, with infinities
  EXPECT_EQ(canonical_name(Word::format, "e4m3."), "");
}

TEST(OtherNames, ThatMeanSeveralThingsAreAnswered) {
  const auto says = [](Word kind, std::string_view typed, std::string_view part) {
    return advice_on(kind, typed).find(part) != std::string::npos;
  };
  EXPECT_TRUE(says(Word::rule, "MXFP8", "scale_mode=rceil"));
  EXPECT_TRUE(says(Word::rule, "fp8", "format=e4m3"));
  EXPECT_TRUE(says(Word::rule, "nvfp4", "4 bits"));
  EXPECT_TRUE(says(Word::rule, "rowwise", "block=1xK"));
  EXPECT_TRUE(says(Word::rule, "torch.float8_e5m2", "format=e5m2"));
  EXPECT_TRUE(says(Word::rule, "ue8m0", "scale=e8m0"));
  EXPECT_TRUE(says(Word::block, "per_channel", "Rx1"));
  EXPECT_TRUE(says(Word::block, "64", "1x64 for 64 along a row, 64x64"));
  EXPECT_TRUE(says(Word::block, "90", "1x90 for 90 along a row, 90x90"));
  EXPECT_TRUE(says(Word::format, "torch.float4_e2m1fn_x2", "4 bits"));
  for (const char* typed : {"", "vllm", "12a", ".", "0"}) {
    EXPECT_EQ(advice_on(Word::rule, typed), "") << typed;
    EXPECT_EQ(advice_on(Word::block, typed), "") << typed;
    EXPECT_EQ(advice_on(Word::sum, typed), "") << typed;
  }
}

}  // namespace
}  // namespace mxo
