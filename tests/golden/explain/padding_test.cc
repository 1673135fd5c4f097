// Rows that are zero because nobody fills them, and hold something else.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/golden/padding_case.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// Groups of 2, 3 and 1 rows at rows 0, 4 and 8 of 12.
PaddingCase padded() {
  PaddingCase c;
  c.call.op = "pad_groups";
  c.call.replace("group_ends", ends_at({2, 5, 6}));
  c.expected.emplace("padded_starts", ints({0, 4, 8}));
  c.expected.emplace("padded_ends", ints({4, 8, 12}));
  return c;
}
bool is_pad(Index row) { return row == 2 || row == 3 || row == 7 || row > 8; }
Tensor padded_rows() {
  return ones({12, 8}, [](Index i) { return is_pad(i / 8); });
}

TEST(Padding, OfGroupsIsOld) {
  const PaddingCase c = padded();
  const Tensor y = padded_rows();
  EXPECT_EQ(c.said(y, [](Index) { return false; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return is_pad(i / 8); }),
            old("rows 2 to 3, 7 and 9 to 11 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 7; }), old("row 7 of y", "pad rows", true));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 > 8; }), old("rows 9 to 11 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 1 || i / 8 == 4 || i / 8 == 6; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 0 || i / 8 == 5 || i / 8 == 8; }), "");
}

TEST(Padding, OfGroupsIsThatOfTheCall) {
  const auto said = [](const auto& change) {
    PaddingCase c = padded();
    change(c);
    return c.said(padded_rows(), [](Index i) { return is_pad(i / 8); });
  };
  EXPECT_NE(said([](PaddingCase&) {}), "");
  EXPECT_EQ(said([](PaddingCase& c) { c.call.op = "unpad_groups"; }), "");
  EXPECT_EQ(said([](PaddingCase& c) { c.name = "z"; }), "");
  EXPECT_EQ(said([](PaddingCase& c) { c.expected.erase("padded_starts"); }), "");
  EXPECT_EQ(said([](PaddingCase& c) { c.expected.erase("padded_ends"); }), "");
}

TEST(Padding, ThatLastsToTheEndOfTheOutput) {
  PaddingCase c = padded();
  c.expected.insert_or_assign("padded_starts", ints({0, 4, 11}));
  c.call.replace("group_ends", ends_at({2, 5, 9}));  // more rows than there are
  EXPECT_EQ(
      c.said(ones({12, 8}, [](Index i) { return i / 8 == 7; }), [](Index i) { return i / 8 == 7; }),
      "")
      << "a quarter of rows 7 to 10";
  EXPECT_EQ(c.said(ones({12, 8}, [](Index i) { return i / 8 == 7; }),
                   [](Index i) { return i / 8 >= 7 && i / 8 < 11; }),
            old("rows 7 to 10 of y", "pad rows"));
}

TEST(Padding, IsOldAltogether) {
  const PaddingCase c = padded();
  const Tensor y = padded_rows();
  // Rows 2 and 3 are next to each other: three in four of their elements, from the start or not.
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 2 || (i / 8 == 3 && i % 8 < 4); }),
            old("rows 2 to 3 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 2 || (i / 8 == 3 && i % 8 < 3); }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 2; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 3; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 10 || i / 8 == 11; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 9 || i / 8 == 10; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 9 || i / 8 == 11; }), "");
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 7 && i % 8 < 6; }),
            old("columns 0 to 5 of row 7 of y", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 7 && i % 8 < 5; }), "");
}

TEST(Padding, IsNoPlaceWhereMostDiffers) {
  // 48 elements belong to somebody: 24 of them may differ.
  const PaddingCase c = padded();
  const auto with = [&](Index n) {
    Index seen = 0;
    return c.said(padded_rows(), [&](Index i) { return is_pad(i / 8) || seen++ < n; });
  };
  EXPECT_EQ(with(24), old("rows 2 to 3, 7 and 9 to 11 of y", "pad rows"));
  EXPECT_EQ(with(25), "");
}

TEST(Padding, OfRanksHasNoToken) {
  PaddingCase c;
  c.name = "rank1.x";
  c.expected.emplace("rank1.indices", ints({-1, 3, -1, 0}));
  c.expected.emplace("indices", ints({-1, 3, -1, 0}));
  const Tensor y = ones({4, 8}, [](Index i) { return i / 8 % 2 == 0; });
  const auto idle = [](Index i) { return i / 8 % 2 == 0; };
  EXPECT_EQ(c.said(y, idle), old("rows 0 and 2 of rank1.x", "pad rows"));
  EXPECT_EQ(c.said(y, [](Index i) { return i / 8 == 3; }), "") << "token 0 is one";
  EXPECT_EQ(c.said(y, [](Index i) { return i < 5; }), "") << "not old altogether";
  const auto other = [&](const auto& change) {
    PaddingCase changed = c;
    change(changed);
    return changed.said(y, idle);
  };
  EXPECT_EQ(other([](PaddingCase& o) { o.name = "x"; }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.name = "rank1.indices"; }), "");
  EXPECT_EQ(other([](PaddingCase& o) { o.name = "rank2.x"; }), "");
  EXPECT_EQ(other([](PaddingCase& o) {
              o.expected.insert_or_assign("rank1.indices", ints({-1, 3, -1}));
            }),
            "");
}

TEST(Padding, OfOneRowIsNoPlaceWhereMostDiffers) {
  PaddingCase c;
  c.name = "rank1.x";
  c.expected.emplace("rank1.indices", ints({-1, 0}));
  const Tensor y = ones({2, 7}, [](Index i) { return i < 7; });
  EXPECT_EQ(c.said(y, [](Index i) { return i < 7 + 3; }),
            old("row 0 of rank1.x", "pad rows", true));
  EXPECT_EQ(c.said(y, [](Index i) { return i < 7 + 4; }), "");
  const Tensor one = ones({2, 1}, [](Index i) { return i == 0; });
  EXPECT_EQ(c.said(one, [](Index i) { return i == 0; }), old("row 0 of rank1.x", "pad rows", true));
}

/// Ends of groups of rank 0 that came as `came`.
std::string ends_of(const std::vector<Index>& came, const std::string& name = "rank0.group_ends",
                    Dtype type = Dtype::i32) {
  PaddingCase c;
  c.name = name;
  c.expected.emplace("rank0.indices", filled<std::int32_t>(type, {8}, [](Index i) {
                       return i == 1 || i == 2 || i == 6 ? -1 : i;
                     }));
  const auto said = c.claims(ints({3, 5, 8, 20}), ints(came));
  return said.empty() ? "" : said.front();
}

TEST(GroupEnds, CountRowsWithoutPadding) {
  EXPECT_EQ(ends_of({1, 3, 5, 5}),
            "group_ends.unpadded: rank0.group_ends counts rows without the padding of groups");
  EXPECT_EQ(ends_of({1, 3, 5, 6}), "");
  EXPECT_EQ(ends_of({2, 3, 5, 5}), "");
  EXPECT_EQ(ends_of({3, 5, 8, 5}), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "group_ends"), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "rank0.ends"), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "rank1.group_ends"), "");
  EXPECT_EQ(ends_of({1, 3, 5, 5}, "rank0.group_ends", Dtype::u32), "");
}

TEST(GroupEnds, OfWhichOneDiffersAreNotTold) {
  PaddingCase c;
  c.name = "rank0.group_ends";
  c.expected.emplace("rank0.indices", ints({0, 1, 2, -1}));
  EXPECT_TRUE(c.claims(ints({2, 4}), ints({2, 3})).empty());
  c.expected.insert_or_assign("rank0.indices", ints({0, -1, 2, -1}));
  EXPECT_EQ(c.claims(ints({2, 4}), ints({1, 2})).size(), 1u);
  PaddingCase floats;
  floats.name = "rank0.group_ends";
  floats.expected = c.expected;
  const auto as_floats = [](const std::vector<Index>& v) {
    return filled<std::int32_t>(Dtype::f32, {2},
                                [&](Index i) { return v[static_cast<std::size_t>(i)]; });
  };
  EXPECT_TRUE(floats.claims(as_floats({2, 4}), as_floats({1, 2})).empty());
}

}  // namespace
}  // namespace mxo
