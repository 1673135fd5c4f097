// Finders in their turn, where causes of lists read and what they make of outputs; causes tried on
// small calls: run, combined in pairs, confirmed and placed.
#include <set>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/explain/confirm/altered_call_runner.h"
#include "golden/explain/finders.h"
#include "golden/museum/operands.h"
#include "tests/golden/planted.h"

namespace mxo::confirm_test {
namespace {

using Value = std::function<float(Index row, Index column)>;

Tensor of_values(Index rows, Index columns, const Value& value) {
  return filled<float>(Dtype::f32, {rows, columns},
                       [&](Index i) { return value(i / columns, i % columns); });
}

NamedTensors only_y(Tensor y) {
  NamedTensors out{{"y", std::move(y)}};
  return out;
}

/// A call, one output of it as it is expected and as it came, and the bench of both.
struct Bench {
  Bench(Call c, Tensor e, Tensor a, const char* name = "y")
      : call(std::move(c)), expected(std::move(e)), actual(std::move(a)) {
    outputs.push_back(make_output(call, name, expected, actual));
    runner = std::make_unique<AlteredCallRunner>(*backend, call, outputs);
  }
  Bench(const Bench&) = delete;  // the bench refers to the rest
  Bench& operator=(const Bench&) = delete;
  Output& output() { return outputs.front(); }
  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call;
  Tensor expected;
  Tensor actual;
  std::vector<Output> outputs;
  std::unique_ptr<AlteredCallRunner> runner;
};

/// x [rows, k] and w [1, n, k] of bytes: every line begins with its number, low byte first.
Call numbered(const char* op, Index rows, Index n, Index k = 2) {
  const auto lines_of = [k](std::vector<Index> shape) {
    return filled<std::uint8_t>(Dtype::u8, std::move(shape), [k](Index i) {
      return i % k == 0 ? i / k % 256 : i % k == 1 ? i / k / 256 : 0;
    });
  };
  Call call{op, {}, {}};
  call.replace("x", lines_of({rows, k}));
  call.replace("w", lines_of({1, n, k}));
  call.replace("group_ends", ends_at({rows}));
  return call;
}

/// The numbers of the lines of an operand that was cut, in its first group.
std::vector<Index> numbers_of(const Tensor& t) {
  const Index k = t.shape().back();
  std::vector<Index> numbers;
  for (Index i = 0; i < t.extent(t.rank() - 2) * k; i += k)
    numbers.push_back(t.as<std::uint8_t>()[i] + 256 * t.as<std::uint8_t>()[i + 1]);
  return numbers;
}

/// A cause that gives value(row, column) of the numbered lines that it is run on.
Hypothesis that_gives(const std::string& name, Value value, Stage stage = Stage::rule) {
  Hypothesis h{name, "it is " + name, stage};
  h.on_host = true;
  h.run = [value = std::move(value)](Backend&, const Call& call) {
    const std::vector<Index> rows = numbers_of(call.input("x"));
    const std::vector<Index> columns = numbers_of(call.input("w"));
    const auto at = [](const std::vector<Index>& lines, Index i) {
      return lines[static_cast<std::size_t>(i)];
    };
    return only_y(of_values(std::ssize(rows), std::ssize(columns),
                            [&](Index r, Index c) { return value(at(rows, r), at(columns, c)); }));
  };
  return h;
}

float one(Index, Index) { return 1; }
float none(Index, Index) { return 0; }

/// A numbered call that expects zeros, of which value(row, column) came.
Bench of_zeros(const char* op, Index rows, Index n, const Value& value, Index k = 2) {
  return {numbered(op, rows, n, k), Tensor(Dtype::f32, {rows, n}), of_values(rows, n, value)};
}

/// A call that is run whole, and the causes that are searched.
struct Searched {
  Searched(Index rows, Index columns, const Value& got) : b(of_zeros("any", rows, columns, got)) {}
  std::vector<Claim> claims(const Progress& progress = {}) {
    Nearest nearest;
    return search(*b.backend, b.call, b.outputs, list, progress, nearest, Extent::part);
  }
  Bench b;
  std::vector<Hypothesis> list;
};

TEST(Search, TheCauseThatGivesAllIsNamed) {
  Searched s(3, 8, one);
  s.list = {that_gives("a", none), that_gives("b", one)};
  std::vector<std::pair<double, std::string>> said;
  const auto claims =
      s.claims([&](double part, std::string_view name) { said.emplace_back(part, name); });
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "b");
  EXPECT_EQ(claims[0].sentence, "it is b");
  EXPECT_EQ(claims[0].elements, 24);
  EXPECT_EQ(s.b.output().left, 0);
  EXPECT_EQ(said, (std::vector<std::pair<double, std::string>>{{0.0, "a"}, {0.5, "b"}}));
}

/// Another sum is that of every element: not of those that another cause leaves.
TEST(Search, SumsExplainNoRest) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::rule}) {
    Searched s(2, 64, [](Index r, Index) { return static_cast<float>(r + 1); });
    s.list = {that_gives("a", [](Index r, Index) { return r == 0 ? 1.0f : 0.0f; }),
              that_gives(
                  "b", [](Index r, Index) { return r == 1 ? 2.0f : 0.0f; }, stage)};
    EXPECT_EQ(s.claims().size(), stage == Stage::rule ? 2u : 1u);
  }
}

TEST(Search, NamesNoRuleOfScalesWhereAnotherGivesMore) {
  for (const bool two : {false, true}) {
    Searched s(32, 8, [](Index r, Index) { return static_cast<float>(r + 1); });
    s.list = {that_gives("a", [](Index r, Index) { return r == 0 ? 1.0f : 0.0f; })};
    const Value every_2nd = [](Index r, Index) { return static_cast<float>(r % 2 ? -1 : r + 1); };
    if (two) s.list.push_back(that_gives("b", every_2nd));
    for (Hypothesis& h : s.list) h.target = Target::scale_rule;
    EXPECT_EQ(s.claims().empty(), two);
  }
}

/// What two causes of these names and stages are named as together, where both are needed.
std::string together(const char* a, Stage of_a, const char* b, Stage of_b,
                     Target of_both = Target::any, bool resets = false) {
  Searched s(2, 16, [](Index, Index) { return 4.0f; });
  const auto add = [&](const char* name, Stage stage, double by) {
    Hypothesis h{name, std::string("it is ") + name, stage};
    h.target = of_both;
    h.alter = [=](Call& call) {
      const double sum = call.set.real("sum", 0);  // 3 resets it after another
      call.set.set("sum", std::to_string(resets && by > 1 && sum > 0 ? 7 : sum + by));
      return true;
    };
    h.run = [](Backend&, const Call& call) {
      const auto sum = static_cast<float>(call.set.real("sum", 0));
      return only_y(of_values(2, 16, [sum](Index, Index) { return sum; }));
    };
    s.list.push_back(std::move(h));
  };
  add(a, of_a, 1);
  add(b, of_b, 3);
  const auto claims = s.claims();
  return claims.size() == 1 ? claims[0].sentence : std::to_string(claims.size()) + " claims";
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
  EXPECT_EQ(together("b=1", Stage::rule, "c=1", Stage::rule, Target::any, true), "0 claims");
}

/// What a cause that gives `model` explains of a product of which `came` came, and the windows.
struct Settled {
  Settled(Index rows, Index n, const Value& came, const Value& model, Stage stage = Stage::rule,
          Index k = 2, int runs = 1000)
      : b(of_zeros("grouped_matmul", rows, n, came, k)) {
    Hypothesis h = that_gives("a", model, stage);
    h.local = true;
    h.alter = [&](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return static_cast<int>(windows.size()) <= runs;
    };
    claims = mark_explained(*b.runner, {{&h}, {}});
  }
  std::string sentence() const { return claims.empty() ? "" : claims[0].sentence; }
  Bench b;
  std::vector<Window> windows;
  std::vector<Claim> claims;
};

TEST(SettlingPieces, LeaveWhatDoesNotFit) {
  const Value twos = [](Index r, Index c) { return r == 1 && c == 1 ? 2.0f : 1.0f; };
  Settled s(3, 4, twos, one);
  EXPECT_EQ(s.sentence(), "it is a, in rows 0 and 2 of y") << "row 1 is no unit";
  EXPECT_EQ(s.b.output().left, 4);
  Settled nothing(3, 4, one, [](Index, Index) { return 3.0f; });
  EXPECT_TRUE(nothing.claims.empty());
  EXPECT_EQ(nothing.b.output().left, 12);
  EXPECT_EQ(nothing.windows.size(), 1u) << "each was computed: nothing is extended";
}

TEST(SettlingPieces, OfSumsFitAllOrNoneTogether) {
  const Value diagonal = [](Index r, Index c) { return r == c ? 1.0f : 0.0f; };
  const Value got = [](Index r, Index c) { return r != c ? 0.0f : r == 70 ? 2.0f : 1.0f; };
  const Settled sum(72, 80, got, diagonal, Stage::sum);
  EXPECT_EQ(sum.windows.size(), 9u);
  EXPECT_TRUE(sum.claims.empty()) << "the last does not fit";
  EXPECT_FALSE(Settled(72, 80, got, diagonal).claims.empty());
}

/// Of a cause that gives nearly all, the others of a unit are a rest of single elements.
TEST(SettlingPieces, OfNearlyAllLeaveSingleElements) {
  const Settled s(
      64, 64, [](Index r, Index c) { return r == 30 && c == 1 ? 2.0f : 1.0f; }, one);
  EXPECT_EQ(s.sentence(), "it is a, in all of y");
  EXPECT_EQ(s.b.outputs.front().left, 1);
}

/// Columns from 32 on of row 1 are right: a cause that alters them is not that of the whole.
TEST(SettlingPieces, ThatAlterWhatIsRightArePlaces) {
  const Value got = [](Index r, Index c) { return r == 0 || c < 32 ? 1.0f : 0.0f; };
  EXPECT_EQ(Settled(2, 64, got, got).sentence(), "it is a");
  EXPECT_EQ(Settled(2, 64, got, one).sentence(), "it is a, in all of y");
}

/// Fewer than 64 elements are what many sums give: it may alter none that is right.
TEST(SettlingPieces, OfFewElementsAreLookedAtBeside) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::input}) {
    for (const Index height : {7, 8}) {
      const Value got = [=](Index r, Index c) { return r < height && c < 9 ? 1.0f : 0.0f; };
      const Value more = [](Index r, Index c) { return r < 8 && c < 10 ? 1.0f : 0.0f; };
      const Settled wide(20, 16, got, more, stage);
      EXPECT_EQ(wide.claims.empty(), stage != Stage::input && height == 7);
      const Settled same(20, 16, got, got, stage);
      EXPECT_FALSE(same.claims.empty());
      if (stage == Stage::input || height == 8) {
        EXPECT_EQ(same.windows.size(), 1u);
      } else {
        ASSERT_EQ(same.windows.size(), 2u);
        EXPECT_EQ(same.windows[1].rows, range_of(20));
        EXPECT_EQ(same.windows[1].columns, range_of(16));
      }
    }
  }
}

constexpr Index kDeep = 1 << 16;  ///< 64 rows by 64 columns are more than is computed

/// Elements that were computed and are not claimed do not count: rows from 60 on hold something
/// else, and so do columns from 32 on but every fourth.
TEST(SettlingWindows, NoMoreIsConfirmedThanClaimed) {
  const Value got = [](Index r, Index c) { return r < 60 && (c < 32 || c % 4 == 0) ? 1.0f : 2.0f; };
  const Settled s(64, 128, got, one, Stage::rule, kDeep / 2);
  ASSERT_EQ(s.claims.size(), 1u);
  EXPECT_EQ(s.claims[0].elements, 60 * 32);
  EXPECT_EQ(s.claims[0].confirmed, 60 * 8 + 16 * 24);
}

TEST(SettlingWindows, WhatFitsNowhereInFullIsNoClaim) {
  const Value odd = [](Index, Index c) { return c % 4 == 1 ? 2.0f : 1.0f; };
  Settled s(64, 128, odd, one, Stage::rule, kDeep / 2);
  EXPECT_TRUE(s.claims.empty());
  EXPECT_EQ(s.windows.size(), 2u);
  EXPECT_EQ(s.b.output().left, 8192);
  for (const int runs : {0, 1}) {
    Settled cut(64, 64, one, one, Stage::rule, kDeep, runs);
    EXPECT_TRUE(cut.claims.empty()) << runs;
    EXPECT_EQ(static_cast<int>(cut.windows.size()), runs + 1);
    EXPECT_EQ(cut.b.output().left, 4096);
  }
}

/// Two codes of a block whose scale differs, too, are one bit away.
TEST(Finders, CodesOfOtherScalesLookLikeNothing) {
  const auto backend = make_cpu_backend();
  for (const std::uint8_t step : {std::uint8_t{0}, std::uint8_t{3}}) {
    const Planted p = spoiled(*backend, quantize_call("1x32"), [&](NamedTensors& out) {
      out.at("scales").as<std::uint8_t>()[77] += step;
      for (const Index i : {77 * 32 + 3, 77 * 32 + 9})
        out.at("codes").as<std::uint8_t>()[i] ^= 0x10;
    });
    const Explanation e = explain(*backend, p.call, p.expected, p.actual);
    const bool flipped = std::any_of(e.causes.begin(), e.causes.end(),
                                     [](const Cause& c) { return c.id == "bit.flipped"; });
    EXPECT_EQ(flipped, step == 0) << e.sentence();
  }
}

TEST(Finders, AreNamedOnceAndInOrder) {
  std::set<std::string_view> ids;
  Turn turn = Turn::rule;
  for (const Finder& finder : finders()) {
    EXPECT_TRUE(ids.insert(finder.id).second) << finder.id;
    EXPECT_NE(finder.find == nullptr, finder.propose == nullptr) << finder.id;
    EXPECT_LE(turn, finder.turn) << finder.id;
    EXPECT_TRUE(!finder.of_all || finder.find != nullptr) << finder.id;
    turn = finder.turn;
  }
}

Tensor counted(std::vector<Index> shape) {
  Tensor t(Dtype::u16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i * 40503);
  return t;
}

std::string bytes_of(const Tensor& t) {
  return {reinterpret_cast<const char*>(t.data()), t.bytes()};
}

TEST(Readings, LinesAreThoseOfTheWholeTensor) {
  Call call;
  call.op = "grouped_matmul";
  call.replace("group_ends", Tensor(Dtype::i32, {3}));
  call.replace("x", counted({40, 72}));
  call.replace("w", counted({3, 34, 72}));
  int seen = 0;
  for (const Hypothesis& h : hypotheses_about(call)) {
    for (const Reading& reading : h.readings) {
      Call whole = call;
      if (!read_whole(whole, reading)) continue;
      const Tensor& read = whole.input(reading.operand);
      const Tensor& given = call.input(reading.operand);
      for (int axis = 0; axis < given.rank(); ++axis) {
        const std::vector<Index> kept = axis == 0 && given.rank() == 3
                                            ? std::vector<Index>{0, 2}
                                            : std::vector<Index>{1, 6, 33};
        EXPECT_EQ(bytes_of(read_gathered(reading, given, axis, kept)),
                  bytes_of(gathered(read, axis, kept)))
            << h.name << ", axis " << axis;
      }
      seen += bytes_of(read) != bytes_of(given);
    }
  }
  EXPECT_GT(seen, 60);
}

}  // namespace
}  // namespace mxo::confirm_test
