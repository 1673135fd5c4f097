// Calls by name: what is unknown, what a call would say, and what an operator is forwarded as.
#include <gtest/gtest.h>

#include <string>

#include "ops/catalogue.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

std::string refusal(std::string_view op, const NamedViews& views, const Parameters& set = {}) {
  Bare bare;
  return check_refusal([&] { call_operator(bare, op, views, set); });
}

Parameters with(std::string_view key, std::string_view value) {
  Parameters set;
  set.set(key, value);
  return set;
}

TEST(CatalogueNames, ThatAreUnknownAreRefused) {
  const Tensor x(Dtype::f32, {4, 64});
  Tensor y(Dtype::bf16, {4, 64});
  NamedViews views{{"x", x}};
  EXPECT_EQ(refusal("cast", views), "") << "past its names it comes to a backend that has nothing";
  EXPECT_TRUE(refusal("swigl", views).starts_with("unknown operator 'swigl', did you mean swiglu?"))
      << refusal("swigl", views);
  EXPECT_NE(refusal("cast", views, with("colour", "red")).find("colour"), std::string::npos);
  views.write_to("z", y);
  EXPECT_EQ(refusal("cast", views), "cast: unknown output 'z'; it has y");
  views = {{"x", x}, {"w", x}};
  EXPECT_EQ(refusal("cast", views), "cast: unknown operand 'w'; it takes x");
  EXPECT_EQ(refusal("cast", {}).substr(0, 22), "cast: x: missing; need");
}

TEST(CatalogueNames, OfOperatorsAreAllKnown) {
  for (const CatalogueEntry& entry : catalogue()) {
    EXPECT_EQ(&catalogue_entry(entry.name), &entry);
    EXPECT_NE(refusal(entry.name, {}, with("colour", "red")).find("colour"), std::string::npos)
        << entry.name;
  }
}

std::string word(std::string_view op, const NamedViews& views, const Parameters& set = {}) {
  return mxo::refusal([&] { check_call(op, views, set); });
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
