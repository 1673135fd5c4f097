// Padding that was never written: what a cause makes of an output, where a finder speaks first.
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/explain/hypotheses.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

/// Groups of 1, 0 and 3 rows, each padded to two, or to four.
TEST(RewrittenOutputs, OfPaddingHoldTheRowsThatFollow) {
  Call call{"pad_groups", {}, {}};
  call.replace("x", floats({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  call.replace("group_ends", ends_at({1, 1, 4}));
  NamedTensors out;
  out.emplace("y", floats({8, 2}, {1, 2, 0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8, 0, 0}));
  out.emplace("padded_starts", ends_at({0, 2, 4}));
  out.emplace("padded_ends", ends_at({2, 4, 8}));
  std::vector<Hypothesis> list;
  add_index_hypotheses(call, list);
  const auto stale = std::find_if(list.begin(), list.end(),
                                  [](const auto& h) { return h.name == "padding=stale"; });
  ASSERT_TRUE(stale != list.end() && stale->rewrite(call, out));
  // Behind the last row nothing follows.
  const Tensor held = floats({8, 2}, {1, 2, 3, 4, 3, 4, 5, 6, 3, 4, 5, 6, 7, 8, 0, 0});
  EXPECT_TRUE(std::equal(held.data(), held.data() + held.bytes(), out.at("y").data()));
  call.replace("x", Tensor(Dtype::f32, {0, 2}));
  EXPECT_FALSE(stale->rewrite(call, out));
}

}  // namespace
}  // namespace mxo
