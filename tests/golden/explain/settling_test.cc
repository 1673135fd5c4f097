// Causes confirmed by a run of the whole, and the words for them.
#include "golden/explain/confirm/settling.h"

#include <gtest/gtest.h>

#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

using Indices = std::vector<Index>;

Hypothesis named(std::string name) {
  Hypothesis h{name, ""};
  h.phrase = "it is " + name;
  return h;
}

/// A call that is run whole: zeros are owed, and `came` is an output for each.
struct WholeRun {
  explicit WholeRun(std::vector<Tensor> c) : came(std::move(c)) {
    for (const Tensor& t : came) owed.emplace_back(Dtype::f32, t.shape());
    const char* const names[] = {"a", "b", "c"};
    for (std::size_t i = 0; i < came.size(); ++i) {
      outputs.push_back(make_output(call, names[i], owed[i], came[i]));
    }
    bench = std::make_unique<Bench>(*backend, call, outputs);
  }
  /// Settles a cause that is credited so.
  std::vector<Claim> settled(std::vector<VariantMatch> credits) {
    RunResult trial;
    trial.credits = std::move(credits);
    return settle(*bench, {{&first, &second}, std::move(trial)});
  }
  Hypothesis first = named("a");
  Hypothesis second = named("b");
  std::unique_ptr<Backend> backend = make_reference_backend();
  Call call{"any", {}, {}};
  std::vector<Tensor> came;
  std::vector<Tensor> owed;
  std::vector<Output> outputs;
  std::unique_ptr<Bench> bench;
};

VariantMatch of(std::vector<std::uint8_t> mask) {
  VariantMatch c;
  for (const std::uint8_t m : mask) c.fixed += m;
  c.mask = std::move(mask);
  return c;
}

TEST(Settling, PartsOfAWholeRunHavePlaces) {
  WholeRun part({floats({2, 2}, {1, 0, 2, 3})});
  const auto claims = part.settled({of({0, 0, 1, 1})});
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].sentence, "it is a and it is b, in row 1 of a");
  EXPECT_EQ(claims[0].where.rows, "1");
  EXPECT_EQ(part.outputs[0].left, 1);
  EXPECT_EQ(part.outputs[0].mark(0, 0), Mark::differs);
  for (Index VariantMatch::*beside : {&VariantMatch::broken, &VariantMatch::astray}) {
    WholeRun run({floats({2, 2}, {0, 0, 2, 3})});
    VariantMatch c = of({0, 0, 1, 1});
    c.*beside = 1;
    EXPECT_EQ(run.settled({c})[0].sentence, "it is a and it is b, in row 1 of a");
  }
}

TEST(Settling, OutputsOfAWholeRunAreNamedTogether) {
  WholeRun run(
      {floats({2, 2}, {1, 0, 0, 0}), floats({2, 2}, {1, 1, 0, 0}), floats({2, 2}, {0, 1, 1, 1})});
  const auto claims = run.settled({of({1, 0, 0, 0}), of({0, 0, 0, 0}), of({0, 0, 1, 1})});
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].where.tensor, "a, c");
  EXPECT_EQ(claims[0].sentence, "it is a and it is b, in row 1 of c");
  EXPECT_EQ(claims[0].elements, 3);
  WholeRun two({floats({2, 2}, {1, 1, 1, 1}), floats({2, 2}, {1, 1, 1, 1})});
  EXPECT_EQ(two.settled({of({1, 1, 0, 0}), of({1, 0, 1, 0})})[0].sentence,
            "it is a and it is b, in row 0 of a and column 0 of b");
}

TEST(Settling, RowsThatNobodyOwnsAreNoPlace) {
  Call call{"unpad_groups", {}, {}};
  call.replace("group_ends", ends_at({1}));
  const Tensor y(Dtype::f32, {3, 2});
  const Tensor came = floats({3, 2}, {1, 1, 5, 5, 5, 5});
  SmallBench b{call, y, came, "x"};
  ASSERT_EQ(b.output().owed, 1);
  const Hypothesis h = named("a");
  RunResult trial;
  trial.credits = {of({1, 0})};
  const auto claims = settle(*b.bench, {{&h}, std::move(trial)});
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 1);
  EXPECT_EQ(claims[0].where.rows, "");
  EXPECT_EQ(claims[0].where.columns, "0");
}

/// Some rows were run: the claim is of the whole, or there is none.
TEST(Settling, RowsThatStandAloneAreRunWhole) {
  Call call{"cast", {}, {}};
  call.replace("x", Tensor(Dtype::f32, {256, 256}));
  const Tensor y(Dtype::f32, {256, 256});
  SmallBench b{call, y, with_other(y, {7, 9}, {3})};
  ASSERT_TRUE(b.bench->by_rows());
  Hypothesis h = named("a");
  Indices shape;
  h.run = [&](Backend&, const Call& altered) {
    shape = altered.input("x").shape();
    NamedTensors out;
    out.emplace("y", with_other(y, {7, 9}, {3}));
    return out;
  };
  b.bench->choose(2, 2);
  const auto claims = settle(*b.bench, {{&h}, {}});
  EXPECT_EQ(shape, (Indices{256, 256}));
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 2);
  EXPECT_EQ(claims[0].sentence, "it is a");
  h.rewrite = [](const Call&, NamedTensors&) { return false; };
  EXPECT_TRUE(settle(*b.bench, {{&h}, {}}).empty());
}

}  // namespace
}  // namespace mxo
