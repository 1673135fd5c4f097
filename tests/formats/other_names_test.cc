// What people of other stacks type leads to what is here.
#include "formats/other_names.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

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
