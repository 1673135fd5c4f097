// Two causes at once: both have to matter, and neither excludes the other.
#include <gtest/gtest.h>

#include "tests/golden/searched.h"

namespace mxo {
namespace {

using Names = std::vector<std::string>;

/// Causes that each alter a value by 1 where all of `came` are needed; each alone comes nearer.
struct Pairs {
  explicit Pairs(float came) : s(2, 16, [=](Index, Index) { return came; }) {}
  Pairs(const Value& came, Index rows, Index columns = 16) : s(rows, columns, came) {}
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

TEST(SearchPairs, TwoCausesGiveWhatNeitherGives) {
  Pairs p(4);
  p.add("a=1", 1);
  p.add("b=1", 3);
  const auto claims = p.s.claims();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "b=1+a=1") << "what is nearer goes first";
  EXPECT_EQ(claims[0].sentence, "it is b=1 and it is a=1");
  EXPECT_EQ(claims[0].elements, 32);
  EXPECT_EQ(p.s.b.output().left, 0);
}

TEST(SearchPairs, OfEquallyNearTheFirstGoesFirst) {
  Pairs p(4);
  p.add("a=1", 2);
  p.add("b=1", 2);
  EXPECT_EQ(p.s.sentence(), "it is a=1 and it is b=1");
}

TEST(SearchPairs, StagesGoInTheirOrder) {
  EXPECT_EQ(together("a", Stage::rule, "b", Stage::output), "it is a and it is b");
  EXPECT_EQ(together("a", Stage::output, "b", Stage::rule), "it is b and it is a");
  EXPECT_EQ(together("a", Stage::sum, "b", Stage::input), "it is b and it is a");
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

/// A format is that of all: row 7 is right, and would not be.
TEST(SearchPairs, ACauseThatCannotBeIsInNone) {
  for (const int format : {0, 1, 2}) {
    Pairs p([](Index r, Index) { return r < 7 ? 4.0f : 0.0f; }, 8);
    p.add("a=1", 1).target = format == 0 ? Target::format : Target::any;
    p.add("b=1", 3).target = format == 1 ? Target::format : Target::any;
    EXPECT_EQ(p.s.sentence(),
              format == 2 ? "it is b=1 and it is a=1, in rows 0 to 6 of y" : "0 claims");
  }
}

}  // namespace
}  // namespace mxo
