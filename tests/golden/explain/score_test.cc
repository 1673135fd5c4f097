// What a model is credited with: NaN, how far outputs are off, news that exceeds choices; a trial
// that gives enough; operands that make a product; least squares against numbers that are known.
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "golden/explain/case/output.h"
#include "golden/explain/case/product.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "tests/golden/planted.h"

namespace mxo::score_test {
namespace {

Tensor row(const std::vector<float>& values) {
  Tensor t(Dtype::f32, {1, static_cast<Index>(values.size())});
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

TEST(Score, NeighboursTellLittle) {
  std::vector<float> values(64);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1.0f + static_cast<float>(i);
  const Tensor expected = row(values);
  const auto gain = [&](bool far) {
    std::vector<float> got = values;
    for (int i = 0; i < 8; ++i) {
      float& v = got[static_cast<std::size_t>(i)];
      v = far ? -3.5f * v : std::nextafter(v, 100.0f);
    }
    const Tensor actual = row(got);
    std::vector<Output> outputs{make_output(Call{"op", {}, {}}, "y", expected, actual)};
    const Weighing before(outputs);
    for (Index i = 0; i < 8; ++i) outputs[0].mark_explained(i);
    return before.gain(outputs);
  };
  EXPECT_NEAR(gain(false), 8 * std::log2(3.0), 1e-9);
  EXPECT_NEAR(gain(true), 8 * std::log2(65.0), 1e-9);
}

TEST(Chance, TellsWhereNewsExceedsChoices) {
  std::vector<float> values(1024);
  std::iota(values.begin(), values.end(), 1.0f);
  const Tensor t = row(values);
  const Output y = make_output(Call{"op", {}, {}}, "y", t, t);
  const Chance chance(y);
  const double each = std::log2(1025.0);
  // Of k pieces of w elements: k w each > k log2(e failing / k) + log2(places) + 20.
  for (const Index width : {1, 2}) {
    for (const std::size_t failing : {4u, 40u}) {
      for (const std::size_t k : {3u, 4u}) {
        std::vector<Index> pieces(k);
        std::iota(pieces.begin(), pieces.end(), 7);
        const double n = static_cast<double>(k);
        const double room = n * static_cast<double>(width) * each -
                            n * std::log2(std::exp(1.0) * static_cast<double>(failing) / n) - 20.0;
        for (int p = 0; p < 60; ++p)
          EXPECT_EQ(chance.tells(pieces, width, failing, std::size_t{1} << p), room > p)
              << width << " " << failing << " " << k << " " << p;
      }
    }
  }
}

TEST(LeastSquares, UnknownsAreFoundFromWeightedEquations) {
  // 3 a - 2 b + 0 c, off by +-1/16 in turns, of very different weights.
  LeastSquares equations(3);
  for (int i = 0; i < 64; ++i) {
    const double a = 1.0 + i % 7;
    const double b = 1e6 * (1.0 + i % 5);
    const double off = i % 2 == 0 ? 0x1p-4 : -0x1p-4;
    equations.add(std::array{a, b, 0.0}, 3.0 * a - 2.0 * b + off, i % 3 == 0 ? 4.0 : 1.0);
  }
  const auto fit = equations.solved();
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->x[0], 3.0, 3.0 * fit->sigma[0] * fit->misfit);
  EXPECT_NEAR(fit->x[1], -2.0, 3.0 * fit->sigma[1] * fit->misfit);
  EXPECT_LT(fit->sigma[0], 0.1);
  EXPECT_LT(fit->sigma[1], 1e-6);
  EXPECT_EQ(fit->x[2], 0.0);
  EXPECT_TRUE(std::isinf(fit->sigma[2]));
  // 22 equations are off by 1/4, 42 by 1/16.
  EXPECT_NEAR(fit->misfit, std::sqrt((22 * 16 + 42) / 64.0) / 16.0, 5e-3);
  EXPECT_NEAR(fit->left, fit->misfit * fit->misfit * 64.0, 1e-9);
}

/// A trial of some rows of an output with four columns: '.' holds nothing that differs, 'g' differs
/// and is given, 'm' differs and is missed, 'b' the model alters though it came right.
struct Made {
  explicit Made(const std::string& rows) {
    VariantMatch c;
    Variant patch;
    for (const char kind : rows) {
      patch.rows.push_back(std::ssize(patch.rows));
      c.seen += kind == 'g' || kind == 'm' ? 4 : 0;
      c.fixed += kind == 'g' ? 4 : 0;
      c.broken += kind == 'm' || kind == 'b' ? 4 : 0;
      c.hits += kind == 'g';
      c.misses += kind == 'm' || kind == 'b';
      c.mask.insert(c.mask.end(), 4, kind == 'g');
    }
    patch.columns = {0, 1, 2, 3};
    add(std::move(patch), std::move(c));
  }
  void add(Variant patch, VariantMatch c) {
    trial.seen += c.seen;
    trial.fixed += c.fixed;
    trial.broken += c.broken;
    trial.patches.push_back(std::move(patch));
    trial.credits.push_back(std::move(c));
  }
  RunResult trial;
};

bool promises(const std::string& rows) { return worth_running(Made(rows).trial); }

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(Plausible, ManyTurnsAreNoPlace) {
  EXPECT_TRUE(promises(repeated("ggggm", 6)));
  EXPECT_FALSE(promises(repeated("ggggm", 7))) << "fourteen turns, and a fifth is missed";
  EXPECT_TRUE(promises(repeated("gggggggggm", 8))) << "nine of ten are given";
  EXPECT_TRUE(promises(repeated("gggggggggmmmmmmmmm", 2))) << "half";
  EXPECT_FALSE(promises(repeated("gggggggg" + repeated("mmmm", 10), 2))) << "far between";
}

/// Some rows among more that a cause misses are no place, where these are all that differ.
TEST(Plausible, FewRowsAmongOthersAreNoPlace) {
  Made made("mmmgmmmgmmmgmmmm");
  for (Index& row : made.trial.patches.front().rows) row *= 2;
  EXPECT_FALSE(is_a_place(made.trial, Rows::all));
  EXPECT_TRUE(is_a_place(made.trial));
}

bool impossible(Target target, const RunResult& trial) {
  Hypothesis h{"id", "", Stage::rule};
  h.target = target;
  const Tensor scales(Dtype::f32, {1});
  std::vector<Output> outputs(trial.credits.size());
  for (Output& o : outputs) o.expected = &scales;
  return contradicts(h, trial, outputs);
}

TEST(Plausible, RulesOfScalesGiveTheScalesThatCame) {
  Made codes("ggm");
  EXPECT_FALSE(impossible(Target::scale_rule, codes.trial)) << "one output only";
  const Made right("..");
  codes.add(right.trial.patches.front(), right.trial.credits.front());
  EXPECT_FALSE(impossible(Target::scale_rule, codes.trial)) << "scales as they came";
  Made others("ggm");
  const Made broken("bb");
  others.add(broken.trial.patches.front(), broken.trial.credits.front());
  EXPECT_TRUE(impossible(Target::scale_rule, others.trial)) << "other scales, and not all codes";
  EXPECT_FALSE(impossible(Target::any, others.trial)) << "no rule of scales";
  Made all("ggg");
  all.add(broken.trial.patches.front(), broken.trial.credits.front());
  EXPECT_FALSE(impossible(Target::scale_rule, all.trial)) << "every code";
  all.trial.credits[0].seen += 1;
  EXPECT_TRUE(impossible(Target::scale_rule, all.trial)) << "every code but one";
  all.trial.credits[1].broken = 1;
  EXPECT_TRUE(impossible(Target::scale_rule, all.trial)) << "one other scale";
}

/// Two groups with MX scales, and the gradient of two.
Call product() {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", Tensor(Dtype::u8, {5, 96}));
  call.replace("x.scales", Tensor(Dtype::u8, {5, 3}));
  call.replace("w.codes", Tensor(Dtype::u8, {2, 4, 96}));
  call.replace("w.scales", Tensor(Dtype::u8, {2, 4, 3}));
  call.replace("group_ends", ends_at({2, 5}));
  return call;
}
Call gradient() {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", Tensor(Dtype::u8, {64, 6}));
  call.replace("dy.scales", Tensor(Dtype::u8, {2, 6}));
  call.replace("x.codes", Tensor(Dtype::u8, {64, 4}));
  call.replace("x.scales", Tensor(Dtype::u8, {2, 4}));
  call.replace("group_ends", ends_at({32, 64}));
  return call;
}

/// Whether `call` is a product where this operand is bytes of another shape.
bool is_product(Call call, const std::string& name, std::vector<Index> shape) {
  call.replace(name, Tensor(Dtype::u8, std::move(shape)));
  return product_of(call).has_value();
}

TEST(Product, IsNoneOfOtherOperands) {
  EXPECT_TRUE(product_of(product()) && product_of(gradient()));
  for (const char* name : {"group_ends", "x.codes", "w.codes"}) {
    Call call = product();
    call.inputs.erase(name);
    EXPECT_FALSE(product_of(call)) << name;
  }
  Call other = product();
  other.op = "fused_dot";
  EXPECT_FALSE(product_of(other));
  for (const Index end : {4, 6}) {
    Call call = product();
    call.replace("group_ends", ends_at({2, end}));
    EXPECT_EQ(product_of(call).has_value(), end == 4);
  }
}

TEST(Product, IsNoneOfOtherShapes) {
  EXPECT_TRUE(is_product(product(), "w.scales", {1}));
  EXPECT_TRUE(is_product(product(), "w.scales", {2, 1, 3}));
  struct Row {
    const char* name;
    std::vector<Index> shape;
  };
  for (const Row& row :
       {Row{"x.codes", {5, 96, 1}}, Row{"w.codes", {2, 96}}, Row{"w.codes", {2, 4, 95}},
        Row{"w.codes", {3, 4, 96}}, Row{"x.scales", {4, 3}}, Row{"x.scales", {5, 3, 1}},
        Row{"w.scales", {3, 4, 3}}, Row{"w.scales", {2, 0, 3}}, Row{"w.scales", {2}}}) {
    EXPECT_FALSE(is_product(product(), row.name, row.shape)) << row.name;
  }
  for (const Row& row : {Row{"x.codes", {32, 4}}, Row{"x.codes", {64, 4, 1}},
                         Row{"dy.scales", {2, 5}}, Row{"dy.scales", {12}}}) {
    EXPECT_FALSE(is_product(gradient(), row.name, row.shape)) << row.name;
  }
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor all(std::vector<Index> shape, float value) {
  return filled<float>(Dtype::f32, std::move(shape), [value](Index) { return value; });
}

/// What a model of an output is credited with, where all of the output was run.
VariantMatch credited(const Tensor& want, const Tensor& got, const Tensor& model, Unit least) {
  const Variant patch{range_of(want.extent(0)), range_of(want.extent(1)), model};
  return credit(make_output(Call{"op", {}, {}}, "y", want, got), patch, least);
}

TEST(Credits, NanIsOneValue) {
  const Tensor ones = all({1, 4}, 1);
  const Tensor got = floats({1, 4}, {kNaN, kNaN, 2, 1});
  const auto of = [&](std::initializer_list<float> model) {
    return credited(ones, got, floats({1, 4}, model), Unit::whole);
  };
  EXPECT_EQ(of({-kNaN, kNaN, 2, 1}).fixed, 3);
  EXPECT_EQ(of({-kNaN, 1, 2, 1}).broken, 1);
  EXPECT_EQ(of({-kNaN, kNaN, kNaN, 1}).broken, 1);
}

TEST(Credits, NanThatIsExpectedIsAlteredByNone) {
  const Tensor want = floats({2, 4}, {kNaN, kNaN, kNaN, kNaN, 1, 1, 1, 1});
  const Tensor got = floats({2, 4}, {2, kNaN, kNaN, kNaN, 3, 1, 1, 1});
  const auto of = [&](float first) {
    const Tensor model = floats({2, 4}, {2, -kNaN, -kNaN, -kNaN, first, 1, 1, 1});
    return credited(want, got, model, Unit::row);
  };
  const VariantMatch both = of(3);
  EXPECT_EQ(both.fixed, 2);
  EXPECT_EQ(std::count(both.mask.begin(), both.mask.end(), 1), 2);
  EXPECT_EQ(of(4).fixed, 0) << "one altered of four";
}

std::vector<Output> only(const Tensor& expected, const Tensor& actual) {
  std::vector<Output> list;
  list.push_back(make_output(Call{"op", {}, {}}, "y", expected, actual));
  return list;
}

/// Of 1, 1, 2, NaN, -1, 0, 0 and 1 the second came as 2; then NaN as 1, too.
TEST(Credits, DistancesOfCodesAreOfTheirValues) {
  const auto codes = [](std::uint8_t second, std::uint8_t fourth) {
    return tensor_from<std::uint8_t>(Dtype::e4m3, {2, 4},
                                     {0x38, second, 0x40, fourth, 0xB8, 0, 0, 0x38});
  };
  const Tensor expected = codes(0x38, 0x7F), near = codes(0x40, 0x7F), far = codes(0x40, 0x38);
  EXPECT_NEAR(sqnr_of(only(expected, near)), 10 * std::log10(8.0), 1e-12);
  EXPECT_EQ(left_of(only(expected, near)), 1);
  std::vector<Output> both = only(expected, near);
  both.push_back(only(expected, far).front());
  EXPECT_EQ(left_of(both), 3);
  EXPECT_EQ(sqnr_of(both), -kInf);
}

/// 3 of 1, 2 and 3 in bf16 came as 2; 2^-127 as 2^-126; a zero with the other sign is no farther.
TEST(Credits, DistancesOfOtherTypesAreOfNumbers) {
  const auto sqnr = [](const Tensor& expected, const Tensor& actual) {
    return sqnr_of(only(expected, actual));
  };
  EXPECT_NEAR(sqnr(tensor_from<std::uint16_t>(Dtype::bf16, {3}, {0x3F80, 0x4000, 0x4040}),
                   tensor_from<std::uint16_t>(Dtype::bf16, {3}, {0x3F80, 0x4000, 0x4000})),
              10 * std::log10(14.0), 1e-12);
  EXPECT_NEAR(sqnr(tensor_from<std::uint8_t>(Dtype::e8m0, {2}, {0, 0}),
                   tensor_from<std::uint8_t>(Dtype::e8m0, {2}, {0, 1})),
              10 * std::log10(2.0), 1e-12);
  EXPECT_EQ(sqnr(floats({2}, {0, 0}), floats({2}, {0, -0.0f})), kInf);
}

TEST(Credits, TheFirstStepToDifferIsKept) {
  struct Row {
    std::vector<std::string> differ;
    std::vector<std::string> kept;
    const char* later;
  };
  for (const Row& row : {
           Row{{"y"}, {"y"}, "the first step to differ is y"},
           Row{{"rank1.h.codes", "y"},
               {"h.scales", "rank0.h.codes", "rank1.h.codes"},
               "the first step to differ is h; 1 later output differs, too"},
           Row{{"h.scales", "rank0.expert_out", "y"},
               {"h.scales", "rank0.h.codes", "rank1.h.codes"},
               "the first step to differ is h; 2 later outputs differ, too"},
           Row{{}, {"h.scales", "rank0.expert_out", "rank0.h.codes", "rank1.h.codes", "y"}, ""},
       }) {
    NamedTensors expected, actual;
    for (const char* name :
         {"h.scales", "rank0.expert_out", "rank0.h.codes", "rank1.h.codes", "y"}) {
      const bool differs =
          std::find(row.differ.begin(), row.differ.end(), name) != row.differ.end();
      expected.emplace(name, all({2}, 1));
      actual.emplace(name, all({2}, differs ? 2 : 1));
    }
    const Call call{"moe_layer", {}, {}};
    Outputs outputs = outputs_of(call, expected, actual);
    keep_first_step(call, outputs);
    std::vector<std::string> names;
    for (const Output& o : outputs.list) names.push_back(o.name);
    EXPECT_EQ(names, row.kept) << row.later;
    EXPECT_EQ(outputs.later, row.later);
  }
}

}  // namespace
}  // namespace mxo::score_test
