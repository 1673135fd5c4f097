// Names that an operator does not know: refused, with what it knows.
#include <gtest/gtest.h>

#include "formats/error.h"
#include "ops/catalogue.h"
#include "tests/ops/machine.h"

namespace mxo {
namespace {

std::string refusal(std::string_view op, const NamedViews& views, const Parameters& set = {}) {
  Machine machine(true);
  try {
    call_operator(machine, op, views, set);
  } catch (const Error& error) {
    return error.fault() == Fault::unsupported ? "" : error.what();
  }
  return "it ran";
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

/// Names with a question mark where they may be absent.
std::string listed(std::span<const OperandSpec> specs) {
  std::string text;
  for (const OperandSpec& spec : specs) {
    text += (text.empty() ? "" : " ") + std::string(spec.name) + (spec.optional ? "?" : "");
  }
  return text;
}

TEST(CatalogueNames, OfRanksSayWhatMayBeAbsent) {
  const auto in = [](const char* op) { return listed(catalogue_entry(op).inputs); };
  const auto out = [](const char* op) { return listed(catalogue_entry(op).outputs); };
  EXPECT_EQ(in("moe_layer"),
            "rank<p>.x router router.bias? logits.bias? w1 w2 w1.bias? w2.bias? shared.w1? "
            "shared.w2? rank<p>.dy?");
  EXPECT_EQ(out("moe_layer"),
            "rank<p>.y rank<p>.dx? drouter? logits.dbias? dw1? dw2? w1.dbias? w2.dbias? "
            "shared.dw1? shared.dw2? rank<p>.STAGE?");
  EXPECT_EQ(in("dispatch"),
            "rank<p>.x? rank<p>.codes? rank<p>.scales? rank<p>.experts rank<p>.weights?");
  EXPECT_EQ(out("dispatch"),
            "rank<p>.x? rank<p>.codes? rank<p>.scales? rank<p>.tokens_per_expert rank<p>.indices? "
            "rank<p>.group_ends?");
  EXPECT_EQ(in("dispatch_backward"), "rank<p>.dy rank<p>.experts rank<p>.weights? rank<p>.x?");
  EXPECT_EQ(out("dispatch_backward"), "rank<p>.dx rank<p>.dweights?");
  EXPECT_EQ(in("combine"), "rank<p>.y rank<p>.experts rank<p>.weights?");
  EXPECT_EQ(out("combine"), "rank<p>.out");
  EXPECT_EQ(in("combine_backward"), "rank<p>.y rank<p>.dout rank<p>.experts rank<p>.weights?");
  EXPECT_EQ(out("combine_backward"),
            "rank<p>.dy? rank<p>.dy.codes? rank<p>.dy.scales? rank<p>.dweights?");
}

}  // namespace
}  // namespace mxo
