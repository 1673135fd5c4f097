// Names that an operator does not know: refused, with what it knows.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace mxo
