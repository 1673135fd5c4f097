// What one altered call gives as a whole, and a factor of all of an output.

#include "golden/explain/finders.h"
#include "tests/golden/planted.h"

namespace mxo::explained_wholes_test {
namespace {

/// A product of 16 rows whose codes are code(element), and what comes where x is of another format.
struct Formats {
  template <typename Code>
  explicit Formats(const Code& code) {
    Call call = mx_product(*backend, 3, {{16}, 16, 32, 64});
    call.replace("x.codes", filled<std::uint8_t>(Dtype::u8, {16, 64}, code));
    call.set.set("out", "f32");
    Call other = call;
    other.set.set("format_x", "e4m3fnuz");
    p = planted(*backend, call, other);
  }
  std::unique_ptr<Backend> backend = make_cpu_backend();
  Planted p;
};

/// Codes in no order, with a negative zero that another format has for NaN in rows 8 to 11.
int code_of(Index i) {
  if (i % 64 == 3 && i / 64 >= 8 && i / 64 < 12) return 0x80;
  return 0x30 + static_cast<int>(i * i * 37 % 19);
}

/// Rows with a code that is NaN in another format, among zeros that are zeros in any.
TEST(ExplainedWholes, AreNoFormatOfSomeRows) {
  const Formats f([](Index i) { return i / 64 >= 8 && i / 64 < 12 ? code_of(i) : 0; });
  const Explanation e = explained(f.p);
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u);
  EXPECT_EQ(e.causes[0].id, "x.codes=nan") << "negative zeros";
  EXPECT_EQ(e.causes[0].where.rows, "8-11");
}

/// The same among numbers that the other format halves.
TEST(ExplainedWholes, AreAFormatOfAllRows) {
  const Formats f(code_of);
  const Explanation e = explained(f.p);
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].id, "format_x=e4m3fnuz");
  EXPECT_EQ(e.causes[0].where.rows, "");
}

TEST(ExplainedWholes, AreMoreThanOneElement) {
  const Call call = of_x("swiglu", floats({1, 2}, {0.7f, 1.9f}));
  const auto exchanged = [](Call& c) { c.replace("x", floats({1, 2}, {1.9f, 0.7f})); };
  EXPECT_TRUE(said_with(call, exchanged).starts_with("no known cause"));
}

/// A claim whose call gives none of the elements, beside a pair.
TEST(ExplainedWholes, ThatGiveNothingKeepTheirName) {
  const auto backend = make_cpu_backend();
  const Call call = of_x("swiglu", random_bf16({4, 64}, 5));
  const Planted p =
      spoiled(*backend, call, [](NamedTensors& out) { store_wide(out.at("y"), 0, 3.0f); });
  std::vector<Output> outputs{make_output(call, "y", p.expected.at("y"), p.actual.at("y"))};
  std::vector<Claim> claims(2);
  claims[0].sentence = "one";
  claims[0].made_by = {{"one", "one"}};
  claims[1].made_by = {{"a", "a"}, {"b", "b"}};
  name_by_fewest_causes({*backend, call, p.expected, p.actual, outputs}, claims);
  EXPECT_EQ(claims[0].sentence, "one");
}

/// Router weights left out and a gate rounded to bf16: amax before the weights gives the scales
/// alone, and is no cause beside what gives the codes and them.
TEST(ExplainedWholes, OfAPairAreNoCauseOfEachOutput) {
  const auto backend = make_cpu_backend();
  NamedTensors in{{"x", random_floats({128, 320}, 3)}};
  in.emplace("probs", filled<float>(Dtype::f32, {128}, [](Index i) {
               return 0.05f + static_cast<float>(i * 37 % 128) / 140.0f;
             }));
  const Call call = make_call("swiglu_quantize", in, {});
  Call wrong = call;
  wrong.inputs.erase("probs");
  wrong.set.set("rounding", "bf16");
  const Explanation e = explained(planted(*backend, call, wrong));
  EXPECT_EQ(e.verdict, ExplainVerdict::explained) << e.sentence();
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_NE(e.causes[0].sentence.find("router weights are left out"), std::string::npos)
      << e.sentence();
  EXPECT_EQ(e.causes[0].where.tensor, "codes, scales");
}

/// Sixteen rows of one group, and 16 columns of f32.
ProductSize size_of_depth(Index k) { return {{16}, 16, 16, k}; }

constexpr const char* kDivided = "explained: all of y: every value is 1/96 times what is expected";

/// Of sums of many scales a factor of all of y needs no altered calls; where a line has one scale,
/// another one may be the cause.
TEST(ExplainedFactors, OfOneScaleALineAreLookedForInCalls) {
  const auto b = make_cpu_backend();
  const std::pair<Call, bool> products[] = {{mx_product(*b, 3, size_of_depth(64)), false},
                                            {bf16_product(3, size_of_depth(64)), false},
                                            {bf16_product(3, size_of_depth(32)), false},
                                            {mx_product(*b, 3, size_of_depth(32)), true}};
  for (auto [call, altered] : products) {
    call.set.set("out", "f32");
    const Planted p = spoiled(*b, call, [](NamedTensors& out) {
      Tensor& y = out.at("y");
      for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] /= 96.0f;
    });
    std::vector<std::string> steps;
    const Explanation e = explain(*b, p.call, p.expected, p.actual,
                                  [&](double, std::string_view what) { steps.emplace_back(what); });
    EXPECT_EQ(e.sentence(), kDivided);
    EXPECT_EQ(steps != std::vector<std::string>{"differences"}, altered);
  }
}

/// What is said of y where scales `name`, all 0.7, are left out.
std::string said_without(Call call, const char* name) {
  const auto all = [name](Call& c, float scale) {
    c.replace(name, mapped(c.input(name), [scale](Index, float) { return scale; }));
  };
  call.set.set("out", "f32");
  all(call, 0.7f);
  return said_with(call, [&](Call& c) { all(c, 1.0f); });
}

TEST(ExplainedFactors, MayBeScalesThatWereLeftOut) {
  const auto b = make_cpu_backend();
  const std::string both =
      "explained: the scales of {} are left out; equivalently, the scales of "
      "{} are rounded up to powers of two";
  Call call = rowwise_product(*b, 3, size_of_depth(32));
  for (const Call& of : {call, rowwise_product(*b, 3, size_of_depth(128))})
    EXPECT_EQ(said_without(of, "x.scales"), filled(both, "x", "x"));
  // x has none.
  call.inputs.erase("x.codes");
  call.inputs.erase("x.scales");
  call.replace("x", random_bf16({16, 32}, 4));
  EXPECT_EQ(said_without(call, "w.scales"), filled(both, "w", "w"));
}

}  // namespace
}  // namespace mxo::explained_wholes_test
