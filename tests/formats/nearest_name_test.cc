// Names that are slips of others.
#include "formats/nearest_name.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mxo
