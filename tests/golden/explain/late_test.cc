// All of an output some elements late or early.
#include <gtest/gtest.h>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

/// counted(shape) of which element i holds that `by` after it, and -1 - i where there is none.
Tensor moved(std::vector<Index> shape, Index by) {
  Tensor t = counted(std::move(shape));
  const Index n = t.elements();
  for (Index i = 0; i < n; ++i) {
    t.as<std::int32_t>()[i] =
        static_cast<std::int32_t>(i + by < 0 || i + by >= n ? -1 - i : i + by);
  }
  return t;
}

std::string sentence_of(Came& came) {
  const std::vector<Claim> claims = recover_late(came.output);
  return claims.empty() ? "none" : claims.front().sentence;
}

std::string of(const std::vector<Index>& shape, Index by) {
  Came came(counted(shape), moved(shape, by));
  return sentence_of(came);
}

TEST(Late, ElementsAreCountedWithTheirBytes) {
  Came came(counted({5, 9}), moved({5, 9}, -2));
  const std::vector<Claim> claims = recover_late(came.output);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].id, "elements.shifted");
  EXPECT_EQ(claims[0].sentence,
            "all of y is written 2 elements late (8 bytes), across rows and tiles");
  EXPECT_EQ(claims[0].where.tensor, "y");
  EXPECT_EQ(claims[0].elements, 45.0);
  EXPECT_EQ(came.output.left, 0);
  EXPECT_EQ(of({5, 9}, 1), "all of y is written 1 element early (4 bytes), across rows and tiles");
  EXPECT_EQ(of({5, 9}, -1), "all of y is written 1 element late (4 bytes), across rows and tiles");
  const auto bytes = [](Index by) {
    return filled<std::uint8_t>(Dtype::u8, {4, 10}, [by](Index i) { return 100 + i + by; });
  };
  Came byte(bytes(0), bytes(1));
  EXPECT_EQ(sentence_of(byte),
            "all of y is written 1 element early (1 byte), across rows and tiles");
  Came two(bytes(0), bytes(-2));
  EXPECT_EQ(sentence_of(two),
            "all of y is written 2 elements late (2 bytes), across rows and tiles");
}

TEST(Late, ByWholeRowsIsAnotherCause) {
  EXPECT_EQ(of({6, 9}, 9), "none");
  EXPECT_EQ(of({6, 9}, -18), "none");
  EXPECT_EQ(of({6, 9}, 10),
            "all of y is written 10 elements early (40 bytes), across rows and tiles");
}

TEST(Late, BySixtyFourElementsAtMost) {
  EXPECT_NE(of({3, 100}, 64), "none");
  EXPECT_NE(of({3, 100}, -64), "none");
  EXPECT_EQ(of({3, 100}, 65), "none");
}

TEST(Late, IsToldByTwentyFourElements) {
  EXPECT_NE(of({1, 25}, 1), "none");
  EXPECT_EQ(of({1, 24}, 1), "none");
  Tensor own_end = moved({1, 25}, 1);
  own_end.as<std::int32_t>()[24] = 24;
  Came came(counted({1, 25}), std::move(own_end));
  ASSERT_EQ(came.output.differing, 24);
  EXPECT_NE(sentence_of(came), "none");
  EXPECT_NE(of({1, 28}, -4), "none");
  EXPECT_EQ(of({1, 27}, -4), "none");
}

TEST(Late, IsEveryElementThatHasASource) {
  for (const Index at : {0, 20, 41}) {
    Tensor actual = moved({4, 11}, 2);
    actual.as<std::int32_t>()[at] = -7;
    Came came(counted({4, 11}), std::move(actual));
    EXPECT_EQ(sentence_of(came), "none") << at;
    EXPECT_EQ(came.output.left, 44);
  }
  Tensor same_ends = moved({4, 11}, -3);
  for (Index i = 0; i < 3; ++i) same_ends.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  Came came(counted({4, 11}), std::move(same_ends));
  EXPECT_NE(sentence_of(came), "none") << "ends may hold anything";
}

TEST(Late, IsNotLookedForWhereSomethingIsExplained) {
  Came came(counted({5, 9}), moved({5, 9}, -2));
  came.output.settle(3);
  EXPECT_EQ(sentence_of(came), "none");
}

TEST(Late, EndsWithTheRowsOfGroups) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {1}, [](Index) { return 4; }));
  Tensor actual = moved({6, 9}, 2);
  std::fill_n(actual.as<std::int32_t>() + 34, 20, -1);
  Came came(counted({6, 9}), std::move(actual), call);
  ASSERT_EQ(came.output.owed, 4);
  EXPECT_NE(sentence_of(came), "none");
}

}  // namespace
}  // namespace mxo
