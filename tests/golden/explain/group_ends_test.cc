// Ends of groups that moved, from the rows beside them that differ.
#include <gtest/gtest.h>

#include "golden/explain/hypotheses.h"
#include "tests/golden/differing.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Ends = std::vector<std::int32_t>;
using Words = std::vector<std::string>;

/// What is shown by an output of eight rows of two, of which one element differs in those named.
std::vector<Hypothesis> shown(const Ends& ends, const std::vector<Index>& differing,
                              const std::function<void(Call&, Output&)>& change = {}) {
  Call call{"bias", {}, {}};
  call.replace("group_ends",
               filled<std::int32_t>(Dtype::i32, {static_cast<Index>(ends.size())},
                                    [&](Index g) { return ends[static_cast<std::size_t>(g)]; }));
  Differing got(Tensor(Dtype::i32, {8, 2}),
                filled<std::int32_t>(Dtype::i32, {8, 2},
                                     [&](Index i) {
                                       return i / 2 % 2 == i % 2 &&
                                              std::count(differing.begin(), differing.end(),
                                                         i / 2) > 0;
                                     }),
                call);
  got.output.group = "group";
  got.output.ends.assign(ends.begin(), ends.end());
  got.output.compared_rows = ends.back();
  if (change) change(call, got.output);
  std::vector<Hypothesis> list;
  add_measured_ends(call, got.output, list);
  return list;
}

TEST(GroupEnds, LieWhereRowsBesideThemBeginToDiffer) {
  struct Row {
    Ends ends;
    std::vector<Index> differing;
    Words said;
  };
  const Row rows[] = {
      {{4, 8}, {2, 3}, {"group 0 ends at row 2 rather than 4"}},
      {{1, 4, 8}, {2, 3}, {"group 1 ends at row 2 rather than 4"}},
      {{4, 8}, {4}, {"group 0 ends at row 5 rather than 4"}},
      {{1, 8}, {1, 2}, {"group 0 ends at row 3 rather than 1"}},
      {{4, 4, 8}, {4}, {"group 1 ends at row 5 rather than 4"}},
      {{3, 6, 8},
       {2, 6},
       {"group 0 ends at row 2 rather than 3", "group 1 ends at row 7 rather than 6",
        "group 0 ends at row 2 rather than 3 and group 1 ends at row 7 rather than 6"}},
      {{4, 8}, {3, 4}, {}},        // on both sides
      {{4, 8}, {0, 1, 2, 3}, {}},  // all of a group
      {{4, 8}, {4, 5, 6, 7}, {}},  // all of the next
      {{2, 4, 8}, {2, 3, 4}, {}},  // beyond an end
      {{4, 8}, {1}, {}},           // beside no end
      {{8}, {7}, {}},              // the last end
      {{0, 4, 8}, {0}, {}},        // of an empty group
      {{4, 4, 8}, {3}, {}},
      {{4, 8}, {}, {}}};
  for (const Row& row : rows) {
    Words said;
    for (const Hypothesis& h : shown(row.ends, row.differing)) {
      EXPECT_EQ(h.name, "group_ends=moved");
      EXPECT_EQ(h.target, Target::group_ends);
      said.push_back(h.phrase);
    }
    EXPECT_EQ(said, row.said);
  }
}

}  // namespace
}  // namespace mxo
