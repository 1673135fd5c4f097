// Calls by name, and --set key=value: what is unknown or refused, and in which words.
#include <gtest/gtest.h>

#include "ops/catalogue.h"
#include "tests/support/refusal.h"

namespace mxo::catalogue_test {
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

constexpr ParameterSpec kSpecs[] = {
    {"format", "e4m3|e5m2", "of codes"},
    {"scale_layout", "row_major|blocked", "of scales"},
    {"mode", "rceil|floor", "of scales"},
    {"ends", "az|blocked", "letters, and a word of layouts"},
    {"out", "bf16|f32", "type of y"},
    {"block", "", "rows x columns"},
    {"group", "any", "one word is open, too"},
};

/// What check() says; empty if it is content.
std::string said(const char* key, const char* value) {
  return mxo::refusal([&] { with(key, value).check("op", kSpecs); }, Fault::argument);
}

TEST(Parameters, WhatIsRefusedIsNamedWithTheChoice) {
  EXPECT_EQ(said("mode", "flor"),
            "op: mode: found flor, did you mean floor? Needs one of rceil, floor");
  EXPECT_EQ(said("mode", "xyz"), "op: mode: found xyz, needs one of rceil, floor");
  EXPECT_EQ(
      said("modes", "floor"),
      "op: unknown parameter 'modes', did you mean mode? It takes format, scale_layout, mode, "
      "ends, out, block, group");
  EXPECT_NE(said("format", "fp8").find("op: format: found fp8, "), std::string::npos);
  EXPECT_EQ(said("format", "fp8").find("needs one of e4m3, e5m2"), std::string::npos)
      << "advice in place of a list: " << said("format", "fp8");
  EXPECT_EQ(said("format", "xyz"), "op: format: found xyz, needs one of e4m3, e5m2");
}

TEST(Parameters, ValuesBecomeThoseListed) {
  Parameters p;
  p.set("mode", "FLOOR");
  p.set("format", "e4m3fn");
  p.set("block", "1X32");
  p.set("unknown", "FLOOR");
  p.set("out", "xyz");
  const Parameters listed = p.as_listed(kSpecs);
  EXPECT_EQ(listed.text("mode", ""), "floor");
  EXPECT_EQ(listed.text("format", ""), "e4m3");
  EXPECT_EQ(listed.text("block", ""), "1X32");
  EXPECT_EQ(listed.text("unknown", ""), "FLOOR");
  EXPECT_EQ(listed.text("out", ""), "xyz") << "check() refuses it";
  EXPECT_EQ(p.text("mode", ""), "FLOOR");
}

TEST(Parameters, NumbersAreWholeWords) {
  EXPECT_EQ(with("n", "-12").integer("n", 3), -12);
  EXPECT_EQ(with("m", "1").integer("n", 3), 3);
  EXPECT_EQ(with("n", "0.25").real("n", 3), 0.25);
  EXPECT_EQ(with("m", "1").real("n", 3.5), 3.5);
  for (const char* wrong : {"", "x", "1x", "1 ", "99999999999999999999"}) {
    EXPECT_EQ(mxo::refusal([&] { (void)with("n", wrong).integer("n", 3); }),
              std::string("n: found ") + wrong + ", needs a whole number");
  }
  EXPECT_EQ(mxo::refusal([] { (void)with("n", "1.5f").real("n", 3); }),
            "n: found 1.5f, needs a number");
}

TEST(Parameters, FormatsAreTypes) {
  EXPECT_EQ(with("format", "e5m2").format("format", "e4m3"), Dtype::e5m2);
  EXPECT_EQ(with("x", "e5m2").format("format", "e4m3"), Dtype::e4m3);
}

}  // namespace
}  // namespace mxo::catalogue_test
