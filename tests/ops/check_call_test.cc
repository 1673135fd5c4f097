// A call checked without being run: what it would give, and what it would say.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "ops/catalogue.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

std::string word(std::string_view op, const NamedViews& views, const Parameters& set = {}) {
  return refusal([&] { check_call(op, views, set); });
}

TEST(CheckCall, SaysWhatACallWouldSay) {
  const Tensor x(Dtype::f32, {2, 3}), codes(Dtype::u8, {2, 3}), ends(Dtype::i32, {1});
  EXPECT_TRUE(word("cst", {{"x", x}}).starts_with("unknown operator 'cst'"));
  EXPECT_EQ(word("cast", {{"w", x}}), "cast: unknown operand 'w'; it takes x");
  EXPECT_TRUE(word("cast", {}).starts_with("cast: x: missing"));
  EXPECT_TRUE(word("cast", {{"x", codes}}).starts_with("cast: x: found u8"));
  EXPECT_EQ(word("permute", {{"x", x}, {"indices", ends}}), "");
  EXPECT_TRUE(word("column_sum", {{"x", ends}}).starts_with("column_sum: x: found"));
}

TEST(CheckCall, StepsBetweenAreZeros) {
  const Tensor x(Dtype::bf16, {96, 64}), w(Dtype::bf16, {2, 32, 64}), dy(Dtype::bf16, {96, 32});
  Tensor ends(Dtype::i32, {2});
  ends.as<std::int32_t>()[1] = 90;
  Parameters set;
  set.set("pad", "true");
  set.set("sum", "h200_wgmma_fast");
  EXPECT_EQ(word("grouped_linear", {{"x", x}, {"w", w}, {"dy", dy}, {"group_ends", ends}}, set),
            "");
}

TEST(CheckCall, OfRanksIsOfNamesAlone) {
  EXPECT_TRUE(check_call("combine", {}, {}).empty());
  const Tensor x(Dtype::f32, {1});
  EXPECT_TRUE(word("combine", {{"colour", x}}).starts_with("combine: unknown operand 'colour'"));
}

}  // namespace
}  // namespace mxo
