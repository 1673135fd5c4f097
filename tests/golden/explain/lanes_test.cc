// Codes of one side that lie in another order along K, the same in every run of so many.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

/// Codes of which each run of `order` along K is taken in that order, `unit` at a time.
Planted laned(Backend& b, const Call& call, const char* name, const std::vector<Index>& order,
              Index unit = 1) {
  return altered(b, call, {name}, [&](Tensor& t, const Tensor& given) {
    const Index run = static_cast<Index>(order.size()) * unit;
    const std::size_t size = size_of(given.dtype());
    for (Index i = 0; i < t.elements(); ++i) {
      const Index lane = i % run / unit;
      const Index from = i - i % run + order[static_cast<std::size_t>(lane)] * unit + i % unit;
      std::copy_n(given.data() + static_cast<std::size_t>(from) * size, size,
                  t.data() + static_cast<std::size_t>(i) * size);
    }
  });
}

/// What the output shows, and whether the call that it alters gives what came.
std::string said(Backend& b, const Planted& p) {
  const Output y = make_output(p.call, "y", p.expected.at("y"), p.actual.at("y"));
  std::vector<Hypothesis> list;
  add_measured_lanes(p.call, y, list);
  if (list.empty()) return "none";
  Call other = p.call;
  EXPECT_TRUE(list[0].alter(other));
  const NamedTensors made = run_call(b, other);
  EXPECT_EQ(make_output(p.call, "y", made.at("y"), p.actual.at("y")).differing, 0);
  EXPECT_EQ(list.size(), 1u);
  return list[0].phrase;
}

const std::vector<Index> kFragment = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 14, 15, 6, 7, 12, 13};

TEST(Lanes, OfAFragmentAreNamedByTheirOrder) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 11, {{24}, 24, 32, 64});
  const Planted p = laned(*b, call, "x.codes", kFragment);
  EXPECT_EQ(
      said(*b, p),
      "the codes of x are taken in runs of 16 along K in the order 0, 4, 1, 5, 2, 7, 3, 6, 2 at a "
      "time");
}

TEST(Lanes, AreNamedWhereNothingElseIsKnown) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 11, {{24}, 24, 32, 64});
  const Planted p = laned(*b, call, "x.codes", {1, 1, 2, 0});
  const Explanation e = explain(*b, p.call, p.expected, p.actual);
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].id, "x.codes=lanes");
  EXPECT_EQ(e.verdict, ExplainVerdict::explained);
}

TEST(Lanes, MayBeTakenTwice) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 11);
  EXPECT_EQ(said(*b, laned(*b, call, "x.codes", {0, 0, 2, 2})),
            "the codes of x are taken in runs of 2 along K in the order 0, 0");
  EXPECT_EQ(said(*b, laned(*b, call, "w.codes", {0, 1, 2, 2})),
            "the codes of w are taken in runs of 4 along K in the order 0, 1, 2, 2");
}

TEST(Lanes, MayBeOfSeveralElementsEach) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 11);
  EXPECT_EQ(said(*b, laned(*b, call, "w.codes", {0, 2, 3, 3}, 8)),
            "the codes of w are taken in runs of 32 along K in the order 0, 2, 3, 3, 8 at a time");
  EXPECT_EQ(said(*b, laned(*b, call, "x.codes", {0, 2, 3, 1}, 16)),
            "the codes of x are taken in runs of 64 along K in the order 0, 2, 3, 1, 16 at a time")
      << "beyond a block, whose scales stay";
}

TEST(Lanes, OfPlainOperandsAreNamed) {
  const auto b = make_cpu_backend();
  EXPECT_EQ(said(*b, laned(*b, bf16_product(11), "x", {0, 3, 1, 2})),
            "x is taken in runs of 4 along K in the order 0, 3, 1, 2");
}

TEST(Lanes, OfOneGroupAreEnough) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 11);
  Planted p = laned(*b, call, "x.codes", {3, 1, 1, 0});
  // Group 1 alone: rows 70 to 120.
  Tensor y = p.expected.at("y");
  std::copy_n(row_of(p.actual.at("y"), 70), 51 * row_bytes(y), row_of(y, 70));
  const Output output = make_output(call, "y", p.expected.at("y"), y);
  std::vector<Hypothesis> list;
  add_measured_lanes(call, output, list);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].phrase,
            "the codes of x are taken in runs of 4 along K in the order 3, 1, 1, 0");
}

TEST(Lanes, OfFewElementsAreNotMeasured) {
  const auto b = make_cpu_backend();
  const Call call = mx_product(*b, 11);
  Planted p = laned(*b, call, "x.codes", {3, 1, 1, 0});
  const auto rows = [&](Index count) {
    Tensor y = p.expected.at("y");
    std::copy_n(row_of(p.actual.at("y"), 130), static_cast<std::size_t>(count) * row_bytes(y),
                row_of(y, 130));
    const Output output = make_output(call, "y", p.expected.at("y"), y);
    std::vector<Hypothesis> list;
    add_measured_lanes(call, output, list);
    return list.size();
  };
  EXPECT_EQ(rows(11), 0u) << "11 rows and 32 columns are fewer than 384 equations";
  EXPECT_EQ(rows(14), 1u);
}

TEST(Lanes, OfOtherValuesAreNone) {
  const auto b = make_cpu_backend();
  const Planted p = spoiled(*b, mx_product(*b, 11), [](NamedTensors& out) {
    out.at("y") = random_bf16(out.at("y").shape(), 99);
  });
  EXPECT_EQ(said(*b, p), "none");
  const Planted zeros = spoiled(*b, mx_product(*b, 11), [](NamedTensors& out) {
    out.at("y") = Tensor(Dtype::bf16, out.at("y").shape());
  });
  EXPECT_EQ(said(*b, zeros), "none");
}

}  // namespace
}  // namespace mxo
