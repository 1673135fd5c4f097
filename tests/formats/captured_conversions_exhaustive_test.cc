// Every float there is through every conversion a GPU and torch were asked for.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mxo::test
