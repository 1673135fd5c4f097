// Every float into the 16-bit formats, against the table that MPFR's rounding gives.
#include <gtest/gtest.h>

#include "tests/support/formats_under_test.h"
#include "tests/support/oracle.h"
#include "tests/support/sweep.h"

namespace mxo::test {
namespace {

template <typename Format>
class EveryFloat : public testing::Test {};
using Formats16 = testing::Types<F16, BF16>;
TYPED_TEST_SUITE(EveryFloat, Formats16, FormatName);

TYPED_TEST(EveryFloat, RoundsAsMpfrDoes) {
  const RunTable table = table_of_floats([](std::uint64_t input) {
    return nearest_code(TypeParam::spec, float_of(input), Overflow::nonfinite);
  });
  EXPECT_GT(table.start.size(), 60000u);
  EXPECT_TRUE(agrees_everywhere(table, [](std::uint64_t input) -> unsigned {
    return encode<TypeParam::spec>(float_of(input)).bits;
  }));
}

}  // namespace
}  // namespace mxo::test
