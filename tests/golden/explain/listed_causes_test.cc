// Causes of a list that must not stand in it twice, or say too much.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "golden/explain/hypotheses.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

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
