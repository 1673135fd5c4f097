// Codes that are read early or late along the depth, and what is read beyond its ends.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/golden/depth_shifts.h"

namespace mxo {
namespace {

constexpr const char* kBeyond[] = {"", ", coming round at the end of the tensor",
                                   ", zeros beyond the end", ", coming round at the end"};

TEST(DepthShift, OfEachSideIsFoundBothWays) {
  const Call call = forward_call({2, 4}, 12, 256);
  for (const std::string side : {"x", "w"}) {
    const std::string name = side + ".codes";
    for (const Index by : {-2, 1}) {
      const auto list = found(call, with(call, name, columns_on(call.input(name), by, 3)));
      ASSERT_EQ(list.size(), 4u) << by;
      for (int beyond = 0; beyond < 4; ++beyond) {
        const Hypothesis& h = list[static_cast<std::size_t>(beyond)];
        EXPECT_EQ(h.name, name + "=depth_shifted");
        EXPECT_EQ(h.phrase, "the codes of " + side + " are read " + std::to_string(std::abs(by)) +
                                (std::abs(by) == 1 ? " element " : " elements ") +
                                (by < 0 ? "before" : "after") +
                                " their place along K, their scales are not" + kBeyond[beyond]);
        Call altered = call;
        ASSERT_TRUE(h.alter(altered));
        EXPECT_TRUE(same_bytes(altered.input(name), columns_on(call.input(name), by, beyond)));
      }
    }
  }
}

TEST(DepthShift, IsFoundWhateverIsReadBeyond) {
  const Call call = forward_call({2, 4}, 12, 256);
  for (int beyond = 0; beyond < 4; ++beyond) {
    const Tensor wrong = columns_on(call.input("x.codes"), 2, beyond);
    EXPECT_EQ(found(call, with(call, "x.codes", wrong)).size(), 4u);
  }
}

TEST(DepthShift, OfPlainOperandsHasNoScales) {
  Call call = forward_call({4}, 12, 256);
  call.inputs.erase("x.scales");
  const auto list = found(call, with(call, "x.codes", columns_on(call.input("x.codes"), -1, 2)));
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[0].phrase, "x are read 1 element before their place along K");
}

TEST(DepthShift, OfAGradientIsOfTheRowsOfGroups) {
  const std::vector<Index> ends{192, 194, 194, 450};
  const Call call = gradient_call(ends, 5, 6);
  for (const std::string side : {"dy", "x"}) {
    const std::string name = side + ".codes";
    for (const Index by : {-3, 1}) {
      const auto list = found(call, with(call, name, rows_on(call.input(name), by, 2, ends)));
      ASSERT_EQ(list.size(), 4u) << by;
      for (int beyond = 0; beyond < 4; ++beyond) {
        const Hypothesis& h = list[static_cast<std::size_t>(beyond)];
        EXPECT_EQ(h.phrase, "the codes of " + side + " are read " + std::to_string(std::abs(by)) +
                                (by == 1 ? " row after" : " rows before") +
                                " their place along the rows, their scales are not" +
                                kBeyond[beyond]);
        Call altered = call;
        ASSERT_TRUE(h.alter(altered));
        EXPECT_TRUE(same_bytes(altered.input(name), rows_on(call.input(name), by, beyond, ends)));
      }
    }
  }
}

}  // namespace
}  // namespace mxo
