// Ends of groups that moved, from the rows beside them that differ.
#include <gtest/gtest.h>

#include "golden/explain/hypotheses.h"
#include "tests/golden/came.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Ends = std::vector<std::int32_t>;
using Words = std::vector<std::string>;

Call call_of(const Ends& ends) {
  Call call{"bias", {}, {}};
  call.replace("group_ends",
               filled<std::int32_t>(Dtype::i32, {static_cast<Index>(ends.size())},
                                    [&](Index g) { return ends[static_cast<std::size_t>(g)]; }));
  return call;
}

/// An output of rows of two, of which one element differs in those named.
struct Grouped {
  Call call;
  Came came;
  Grouped(const Ends& ends, Index rows, const std::vector<Index>& differing)
      : call(call_of(ends)),
        came(Tensor(Dtype::i32, {rows, 2}),
             filled<std::int32_t>(Dtype::i32, {rows, 2},
                                  [&](Index i) {
                                    const bool differs =
                                        std::find(differing.begin(), differing.end(), i / 2) !=
                                        differing.end();
                                    return differs && i / 2 % 2 == i % 2;
                                  }),
             call) {
    came.output.group = "group";
    came.output.ends.assign(ends.begin(), ends.end());
    came.output.owed = ends.empty() ? rows : ends.back();
  }
  std::vector<Hypothesis> shown() const {
    std::vector<Hypothesis> list;
    add_measured_ends(call, came.output, list);
    return list;
  }
  Words words() const {
    Words words;
    for (const Hypothesis& h : shown()) {
      EXPECT_EQ(h.name, "group_ends=moved");
      EXPECT_EQ(h.stage, Stage::input);
      words.push_back(h.phrase);
    }
    return words;
  }
};

Words words_of(const Ends& ends, Index rows, const std::vector<Index>& differing) {
  return Grouped(ends, rows, differing).words();
}

/// The ends that the hypothesis gives; none where it gives none.
Ends ends_of(const Hypothesis& h, Call call) {
  if (!h.alter(call)) return {};
  const Tensor& ends = call.input("group_ends");
  return {ends.as<std::int32_t>(), ends.as<std::int32_t>() + ends.elements()};
}

TEST(GroupEnds, LieEarlyWhereRowsBeforeDiffer) {
  EXPECT_EQ(words_of({4, 8}, 8, {2, 3}), Words{"group 0 ends at row 2 rather than 4"});
  EXPECT_EQ(words_of({4, 8}, 8, {3}), Words{"group 0 ends at row 3 rather than 4"});
  EXPECT_EQ(words_of({4, 8}, 8, {1, 2, 3}), Words{"group 0 ends at row 1 rather than 4"});
  EXPECT_EQ(words_of({1, 4, 8}, 8, {2, 3}), Words{"group 1 ends at row 2 rather than 4"});
}

TEST(GroupEnds, LieLateWhereRowsBehindDiffer) {
  EXPECT_EQ(words_of({4, 8}, 8, {4}), Words{"group 0 ends at row 5 rather than 4"});
  EXPECT_EQ(words_of({4, 8}, 8, {4, 5, 6}), Words{"group 0 ends at row 7 rather than 4"});
  EXPECT_EQ(words_of({1, 8}, 8, {1, 2}), Words{"group 0 ends at row 3 rather than 1"});
}

TEST(GroupEnds, StayWhereRowsSayNothing) {
  EXPECT_EQ(words_of({4, 8}, 8, {3, 4}), Words{}) << "on both sides";
  EXPECT_EQ(words_of({4, 8}, 8, {0, 1, 2, 3}), Words{}) << "all of a group";
  EXPECT_EQ(words_of({4, 8}, 8, {4, 5, 6, 7}), Words{}) << "all of the next";
  EXPECT_EQ(words_of({1, 4, 8}, 8, {1, 2, 3}), Words{});
  EXPECT_EQ(words_of({1, 4, 8}, 8, {0, 1, 2, 3}), Words{});
  EXPECT_EQ(words_of({2, 4, 8}, 8, {2, 3, 4}), Words{}) << "beyond an end";
  EXPECT_EQ(words_of({4, 8}, 8, {1}), Words{}) << "beside no end";
  EXPECT_EQ(words_of({4, 8}, 8, {}), Words{});
  EXPECT_EQ(words_of({8}, 8, {7}), Words{}) << "the last end";
  EXPECT_EQ(words_of({4, 8}, 8, {7}), Words{});
}

TEST(GroupEnds, OfEmptyGroupsStay) {
  EXPECT_EQ(words_of({0, 4, 8}, 8, {0}), Words{});
  EXPECT_EQ(words_of({4, 4, 8}, 8, {3}), Words{});
  EXPECT_EQ(words_of({4, 4, 8}, 8, {4}), Words{"group 1 ends at row 5 rather than 4"});
  EXPECT_EQ(words_of({4, 8, 8}, 10, {7}), Words{}) << "where the rows end";
}

TEST(GroupEnds, ThatMovedTogetherAreSaidTogether) {
  const Grouped g({3, 6, 9}, 9, {2, 6, 7});
  EXPECT_EQ(g.words(),
            (Words{"group 0 ends at row 2 rather than 3", "group 1 ends at row 8 rather than 6",
                   "group 0 ends at row 2 rather than 3 and group 1 ends at row 8 rather "
                   "than 6"}));
  const std::vector<Hypothesis> list = g.shown();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(ends_of(list[0], g.call), (Ends{2, 6, 9}));
  EXPECT_EQ(ends_of(list[1], g.call), (Ends{3, 8, 9}));
  EXPECT_EQ(ends_of(list[2], g.call), (Ends{2, 8, 9}));
}

TEST(GroupEnds, NeverCross) {
  const Grouped g({3, 6, 9}, 9, {6, 7});
  const std::vector<Hypothesis> list = g.shown();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(ends_of(list[0], call_of({8, 9, 9})), (Ends{8, 8, 9})) << "an empty group";
  EXPECT_EQ(ends_of(list[0], call_of({9, 9, 9})), Ends{});
  EXPECT_EQ(ends_of(list[0], call_of({3, 6, 7})), Ends{});
  Call wide = g.call;
  wide.replace("group_ends", floats({3}, {0.0f, 0.0f, 1.0f}));
  EXPECT_EQ(ends_of(list[0], wide), Ends{}) << "of another type";
}

TEST(GroupEnds, AreThoseOfTheOutput) {
  const auto words = [](const std::function<void(Grouped&)>& change) {
    Grouped g({4, 8}, 8, {3});
    change(g);
    return g.words().size();
  };
  EXPECT_EQ(words([](Grouped&) {}), 1u);
  EXPECT_EQ(words([](Grouped& g) { g.call.inputs.clear(); }), 0u);
  EXPECT_EQ(words([](Grouped& g) { g.came.output.group = "expert"; }), 0u);
  EXPECT_EQ(words([](Grouped& g) { g.came.output.ends = {4}; }), 0u);
  EXPECT_EQ(words([](Grouped& g) { g.came.output.ends = {4, 6, 8}; }), 0u);
  EXPECT_EQ(words([](Grouped& g) { g.came.output.left = 0; }), 0u);
}

}  // namespace
}  // namespace mxo
