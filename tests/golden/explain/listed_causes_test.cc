// Causes of a list that must not stand in it twice, or say too much.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "golden/explain/hypotheses.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

/// What the machine that stands for all could have been set to in parts of K: "split=2".
std::string variants_of(Index k) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x", Tensor(Dtype::bf16, {4, k}));
  call.replace("w", Tensor(Dtype::bf16, {1, 4, k}));
  call.replace("group_ends", ends_at({4}));
  std::vector<Hypothesis> list;
  add_sum_hypotheses(call, list);
  std::string words;
  for (const Hypothesis& h : list) {
    const std::size_t at = h.name.find(" sum.");
    if (at == h.name.npos || h.name.find("bits") != h.name.npos) continue;
    if (h.name.find("chunk") == h.name.npos) words += h.name.substr(at + 5) + " ";
  }
  return words;
}

/// Tiles of 64 k: two splits whose parts are as long are one, and parts of one tile are what four
/// instructions are, where every fourth is promoted.
TEST(ListedCauses, OfAMachineAreEachASumOfItsOwn) {
  EXPECT_EQ(variants_of(16), "");
  EXPECT_EQ(variants_of(64), "promote=1 promote=2 ");
  EXPECT_EQ(variants_of(128), "promote=1 promote=2 promote=4 ");
  EXPECT_EQ(variants_of(640), "split=2 split=3 split=4 split=5 promote=1 promote=2 promote=4 ");
  EXPECT_EQ(variants_of(1024),
            "split=2 split=3 split=4 split=6 split=8 promote=1 promote=2 promote=4 ");
}

/// The ends of a call of groups under the cause of that name.
std::string moved(const std::vector<Index>& ends, const char* name) {
  Call call{"cast", {}, {}};
  call.replace("group_ends", ends_at(ends));
  std::vector<Hypothesis> list;
  add_input_hypotheses(call, list);
  const auto h =
      std::find_if(list.begin(), list.end(), [&](const auto& c) { return c.name == name; });
  if (h == list.end() || !h->alter(call)) return "none";
  std::string words;
  for (std::size_t i = 0; i < ends.size(); ++i)
    words += std::to_string(call.input("group_ends").as<std::int32_t>()[i]) + " ";
  return words;
}

TEST(ListedCauses, OfEndsStayWithinTheRows) {
  EXPECT_EQ(moved({2, 4, 6}, "group_ends-1"), "1 3 6 ");
  EXPECT_EQ(moved({2, 4, 6}, "group_ends+1"), "3 5 6 ");
  EXPECT_EQ(moved({0, 4, 6}, "group_ends-1"), "0 3 6 ");
  EXPECT_EQ(moved({2, 6, 6}, "group_ends+1"), "3 6 6 ");
  EXPECT_EQ(moved({2, 6, 6}, "group_ends-1"), "1 5 6 ");
  EXPECT_EQ(moved({32, 64}, "group_ends+32"), "64 64 ");
  EXPECT_EQ(moved({31, 63}, "group_ends-32"), "none");
  EXPECT_EQ(moved({}, "group_ends-1"), "none");
}

}  // namespace
}  // namespace mxo
