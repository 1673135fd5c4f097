// What people type: other stacks' words, and slips of the finger.
#include <gtest/gtest.h>

#include "formats/aliases.h"
#include "formats/nearest_name.h"

namespace mxo {
namespace {

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
  for (const char* typed : {"", "vllm", "12a", "."}) {
    EXPECT_EQ(advice_on(Word::rule, typed), "") << typed;
    EXPECT_EQ(advice_on(Word::block, typed), "") << typed;
    EXPECT_EQ(advice_on(Word::sum, typed), "") << typed;
  }
}

}  // namespace
}  // namespace mxo
