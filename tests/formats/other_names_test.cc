// What people of other stacks type leads to what is here.
#include "formats/other_names.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

TEST(OtherNames, AreReadWhateverTheirCaseAndModule) {
  EXPECT_EQ(name_here(Word::format, "torch.float8_e4m3fn"), "e4m3");
  EXPECT_EQ(name_here(Word::format, "jnp.float8_e5m2"), "e5m2");
  EXPECT_EQ(name_here(Word::format, "UE8M0"), "e8m0");
  EXPECT_EQ(name_here(Word::scale_layout, "SWIZZLE_32_4_4"), "blocked");
  EXPECT_EQ(name_here(Word::block, "per_token"), "1xK");
  EXPECT_EQ(name_here(Word::operation, "silu_and_mul"), "swiglu");
  EXPECT_EQ(name_here(Word::parameter, "renormalize"), "normalize");
  EXPECT_EQ(name_here(Word::sum, "DeepGEMM"), "deepgemm_sm90");
}

TEST(OtherNames, OfOneKindAreNotOfAnother) {
  EXPECT_EQ(name_here(Word::format, "swizzled"), "");
  EXPECT_EQ(name_here(Word::scale_layout, "float8_e5m2"), "");
  EXPECT_EQ(name_here(Word::block, ""), "");
  EXPECT_EQ(name_here(Word::format, "float8_e4m3"), "");  // of JAX: another format, with infinities
  EXPECT_EQ(name_here(Word::format, "e4m3."), "");
}

}  // namespace
}  // namespace mxo
