// Single causes and pairs: the best is explained, those alike share its sentence, both of a pair
// matter.
#include <gtest/gtest.h>

#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Value = std::function<float(Index row, Index column)>;

Tensor of_values(Index rows, Index columns, const Value& value) {
  Tensor t(Dtype::f32, {rows, columns});
  for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = value(i / columns, i % columns);
  return t;
}

/// A call that is run whole: it expects zeros, and value(row, column) came.
struct Searched {
  Searched(Index rows, Index columns, const Value& got)
      : b(Call{"any", {}, {}}, Tensor(Dtype::f32, {rows, columns}), of_values(rows, columns, got)) {
  }
  /// A cause that gives value(row, column).
  Hypothesis& add(const std::string& name, Value value, Stage stage = Stage::rule) {
    Hypothesis h{name, "it is " + name, stage};
    const Output& y = b.output();
    h.run = [this, name, &y, value = std::move(value)](Backend&, const Call&) {
      ran.push_back(name);
      NamedTensors out;
      out.emplace("y", of_values(y.rows, y.columns, value));
      return out;
    };
    list.push_back(std::move(h));
    return list.back();
  }
  std::vector<Claim> claims(Extent extent = Extent::part) {
    return search(*b.backend, b.call, b.outputs, list, progress, nearest, extent);
  }
  /// The sentence of the only claim.
  std::string sentence(Extent extent = Extent::part) {
    const auto found = claims(extent);
    return found.size() == 1 ? found[0].sentence : std::to_string(found.size()) + " claims";
  }
  SmallBench b;
  std::vector<Hypothesis> list;
  std::vector<std::string> ran;
  Progress progress;
  Nearest nearest;
};

using Names = std::vector<std::string>;

float one(Index, Index) { return 1; }
float none(Index, Index) { return 0; }

/// `value` in one row, zeros elsewhere.
Value in_row(Index row, float value = 1) {
  return [=](Index r, Index) { return r == row ? value : 0; };
}

TEST(Search, TheCauseThatGivesAllIsNamed) {
  Searched s(3, 8, one);
  s.add("a", none);
  s.add("b", one);
  std::vector<std::pair<double, std::string>> said;
  s.progress = [&](double part, std::string_view name) { said.emplace_back(part, name); };
  const auto claims = s.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "b");
  EXPECT_EQ(claims[0].sentence, "it is b");
  EXPECT_EQ(claims[0].elements, 24);
  EXPECT_EQ(s.b.output().left, 0);
  EXPECT_EQ(s.ran, (Names{"a", "b"}));
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].first, 0.0);
  EXPECT_EQ(said[1].first, 0.5);
  EXPECT_EQ(said[1].second, "b");
}

/// Another sum is that of every element: not of those that another cause leaves.
TEST(Search, SumsExplainNoRest) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::rule}) {
    Searched s(2, 64, [](Index r, Index) { return static_cast<float>(r + 1); });
    s.add("a", in_row(0, 1));
    s.add("b", in_row(1, 2), stage);
    EXPECT_EQ(s.claims().size(), stage == Stage::rule ? 2u : 1u);
  }
}

/// Causes that each alter a value by 1 where all of `came` are needed; each alone comes nearer.
struct Pairs {
  explicit Pairs(float got) : s(2, 16, [=](Index, Index) { return got; }) {}
  Pairs(const Value& got, Index rows, Index columns = 16) : s(rows, columns, got) {}
  /// A cause that adds `by` to every value.
  Hypothesis& add(const std::string& name, float by, Stage stage = Stage::rule) {
    Hypothesis h{name, "it is " + name, stage};
    h.alter = [this, name, by](Call& call) {
      altered.push_back(name);
      const double sum = call.set.real("sum", 0) + static_cast<double>(by);
      call.set.set("sum", std::to_string(sum));
      return true;
    };
    h.run = [this](Backend&, const Call& call) {
      const Output& y = s.b.output();
      const auto value = static_cast<float>(call.set.real("sum", 0));
      NamedTensors out;
      out.emplace("y", of_values(y.rows, y.columns, [=](Index, Index) { return value; }));
      return out;
    };
    s.list.push_back(std::move(h));
    return s.list.back();
  }
  Searched s;
  Names altered;
};

/// What two causes of these names and stages are named as together.
std::string together(const char* a, Stage of_a, const char* b, Stage of_b,
                     Target of_both = Target::any) {
  Pairs p(4);
  p.add(a, 1, of_a).target = of_both;
  p.add(b, 3, of_b).target = of_both;
  return p.s.sentence();
}

TEST(SearchPairs, CausesOfOneKindExcludeEachOther) {
  EXPECT_EQ(together("a=1", Stage::rule, "a=2", Stage::rule), "0 claims");
  EXPECT_EQ(together("x=1", Stage::input, "x.codes=2", Stage::input), "0 claims");
  EXPECT_EQ(together("x=1", Stage::input, "w=1", Stage::input), "it is w=1 and it is x=1");
  EXPECT_EQ(together("a", Stage::sum, "b", Stage::sum), "0 claims");
  EXPECT_EQ(together("a", Stage::output, "b", Stage::output), "0 claims");
  EXPECT_EQ(together("rule=te", Stage::rule, "scale_mode=floor", Stage::rule, Target::scale_rule),
            "0 claims");
  EXPECT_EQ(together("rule=te", Stage::rule, "b=1", Stage::rule), "it is b=1 and it is rule=te");
  EXPECT_EQ(together("b=1", Stage::rule, "rule=te", Stage::rule), "it is rule=te and it is b=1");
}

}  // namespace
}  // namespace mxo
