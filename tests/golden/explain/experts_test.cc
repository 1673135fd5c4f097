// Which expert's weights and which row of x a row was made of, from what came.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/golden/rows_made.h"

namespace mxo {
namespace {

using List = std::vector<Hypothesis>;

Call three() { return forward_call({6, 12, 18}, 12, 32); }

/// What is said where row r is multiplied by the weights of expert(r, its group).
template <typename Expert>
std::string by_experts(const Expert& expert, const Call& call = three()) {
  return in_lines(measured_rows(call, made_of(call, [&](Index r, Index g) {
                                  return Made{r, expert(r, g)};
                                })));
}

TEST(Experts, OfOneGroupIsAnother) {
  const std::string is = "w=other_expert: group 1 is multiplied by the weights of expert ";
  EXPECT_EQ(by_experts([](Index, Index g) { return g == 1 ? Index{2} : g; }), is + "2\n");
  EXPECT_EQ(by_experts([](Index, Index g) { return g == 1 ? Index{0} : g; }), is + "0\n");
  EXPECT_EQ(by_experts([](Index, Index g) { return g; }), "");
}

TEST(Experts, OfAllGroupsAreTheNextOrPrevious) {
  const std::string next = "w=other_expert: groups are multiplied by the next expert's weights\n";
  const std::string previous =
      "w=other_expert: groups are multiplied by the previous expert's weights\n";
  EXPECT_EQ(by_experts([](Index, Index g) { return (g + 1) % 3; }), next);
  EXPECT_EQ(by_experts([](Index, Index g) { return (g + 2) % 3; }), previous);
  EXPECT_EQ(by_experts([](Index, Index g) { return std::max<Index>(g - 1, 0); }), previous);
  EXPECT_EQ(by_experts([](Index, Index g) { return std::min<Index>(g + 1, 2); }), next);
  const Call five = forward_call({4, 8, 12, 16, 20}, 12, 32);
  const auto by = [&](const std::vector<Index>& experts) {
    return by_experts([&](Index, Index g) { return experts[static_cast<std::size_t>(g)]; }, five);
  };
  EXPECT_EQ(by({1, 2, 3, 4, 0}), next);
  EXPECT_EQ(by({4, 0, 1, 2, 3}), previous);
  EXPECT_EQ(by({2, 2, 2, 2, 2}),
            "w=other_expert: groups are multiplied by the weights of expert 2\n");
  EXPECT_EQ(by({2, 3, 4, 0, 1}),
            "w=other_expert: group 0 is multiplied by the weights of expert 2 and group 1 is "
            "multiplied by the weights of expert 3 and group 2 is multiplied by the weights of "
            "expert 4 and group 3 is multiplied by the weights of expert 0 and group 4 is "
            "multiplied by the weights of expert 1\n");
  EXPECT_EQ(by({0, 2, 1, 3, 4}),
            "w=other_expert: group 1 is multiplied by the weights of expert 2 and group 2 is "
            "multiplied by the weights of expert 1\n");
}

TEST(Experts, AreExchangedInCodesAndScales) {
  for (const bool one_scale : {false, true}) {
    Call call = three();
    if (one_scale) call.replace("w.scales", some_scales({1}, 9));
    const List list = measured_rows(call, made_of(call, [](Index r, Index g) {
                                      return Made{r, g == 1 ? 2 : g == 2 ? 1 : 0};
                                    }));
    ASSERT_EQ(list.size(), 1u);
    EXPECT_TRUE(list[0].local);
    Call altered = call;
    ASSERT_TRUE(list[0].alter(altered));
    const Product was = *product_of(call);
    const Product is = *product_of(altered);
    for (Index j = 0; j < 12; ++j) {
      EXPECT_EQ(is.line_b(0, j), was.line_b(0, j));
      EXPECT_EQ(is.line_b(1, j), was.line_b(2, j));
      EXPECT_EQ(is.line_b(2, j), was.line_b(1, j));
    }
  }
}

/// Sentence of ends that moved, and the ends it gives.
template <typename Expert>
std::pair<std::string, std::vector<Index>> ends(const Expert& expert, const Call& call = three()) {
  const List list = measured_rows(call, made_of(call, [&](Index r, Index g) {
                                    return Made{r, expert(r, g)};
                                  }));
  if (list.empty() || list[0].name != "group_ends=moved") return {"", {}};
  EXPECT_EQ(list.size(), 2u);
  EXPECT_EQ(list[1].name, "w=other_expert");
  Call altered = call;
  EXPECT_TRUE(list[0].alter(altered));
  return {list[0].phrase, product_of(altered)->ends};
}
using Ends = std::pair<std::string, std::vector<Index>>;

TEST(Ends, AreMovedWhereRowsBesideThemHaveTheNeighboursWeights) {
  EXPECT_EQ(ends([](Index r, Index g) { return r == 5 ? 1 : g; }),
            (Ends{"group 0 ends at row 5 rather than 6", {5, 12, 18}}));
  EXPECT_EQ(ends([](Index r, Index g) { return r == 6 || r == 7 ? 0 : g; }),
            (Ends{"group 0 ends at row 8 rather than 6", {8, 12, 18}}));
  EXPECT_EQ(ends([](Index r, Index g) { return r == 5               ? 1
                                               : r == 10 || r == 11 ? 2
                                                                    : g; }),
            (Ends{"group 0 ends at row 5 rather than 6 and group 1 ends at row 10 rather than 12",
                  {5, 10, 18}}));
  EXPECT_EQ(ends([](Index r, Index g) { return r == 5    ? 1
                                               : r == 11 ? 2
                                                         : g; }),
            (Ends{"groups end 1 row early", {5, 11, 18}}));
  EXPECT_EQ(ends([](Index r, Index g) {
              return r == 6 || r == 7 ? 0 : r == 12 || r == 13 ? 1 : g;
            }),
            (Ends{"groups end 2 rows late", {8, 14, 18}}));
  EXPECT_EQ(ends([](Index r, Index g) { return r == 9   ? 0
                                               : r == 7 ? 2
                                                        : g; }),
            (Ends{"group 0 ends at row 10 rather than 6 and group 1 ends at row 7 rather than 12",
                  {10, 10, 18}}))
      << "ends never fall";
}

TEST(Ends, OfEmptyGroupsMoveAlong) {
  const Call call = forward_call({6, 6, 18}, 12, 32);
  EXPECT_EQ(ends([](Index r, Index g) { return r == 4 || r == 5 ? 2 : g; }, call),
            (Ends{"groups end 2 rows early", {4, 4, 18}}));
  EXPECT_EQ(ends([](Index r, Index g) { return r == 6 ? 0 : g; }, call),
            (Ends{"groups end 1 row late", {7, 7, 18}}));
}

TEST(Ends, AreFoundToTheRowWhereManyFail) {
  const Call call = forward_call({100, 220}, 6, 32);
  EXPECT_EQ(ends([](Index r, Index g) { return r >= 100 && r < 161 ? 0 : g; }, call),
            (Ends{"group 0 ends at row 161 rather than 100", {161, 220}}));
  EXPECT_EQ(ends([](Index r, Index g) { return r >= 39 && r < 100 ? 1 : g; }, call),
            (Ends{"group 0 ends at row 39 rather than 100", {39, 220}}));
  // Rows at both sides of those fail otherwise.
  Tensor y = made_of(call, [](Index r, Index g) { return Made{r, r >= 38 && r < 100 ? 1 : g}; });
  for (Index i = 0; i < 38 * 6; ++i) y.as<float>()[i] += 1000.0f;
  for (Index i = 100 * 6; i < 220 * 6; ++i) y.as<float>()[i] += 1000.0f;
  const List list = measured_rows(call, y);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].phrase, "group 0 ends at row 38 rather than 100");
}

TEST(Ends, OfTwoGroupsAreToldByRow) {
  EXPECT_EQ(ends([](Index r, Index g) { return r == 5 ? 1 : g; }, forward_call({6, 12}, 12, 32)),
            (Ends{"group 0 ends at row 5 rather than 6", {5, 12}}));
}

TEST(Ends, AreNotMovedOverWholeGroups) {
  EXPECT_EQ(ends([](Index r, Index g) { return r == 4 || r == 5 ? 2 : g; }).first, "");
  EXPECT_EQ(ends([](Index, Index g) { return g == 0 ? 1 : g; }).first, "");
}

TEST(Experts, AreTheOneThatMostRowsShow) {
  const std::string text = by_experts([](Index r, Index g) {
    return g != 1 ? g : r < 8 ? 2 : Index{0};
  });
  EXPECT_NE(text.find("group 1 is multiplied by the weights of expert 0"), std::string::npos);
}

/// Rows [first, last) made of the rows `by` on.
List shifted(const Call& call, Index first, Index last, Index by) {
  return measured_rows(call, made_of(call, [&](Index r, Index g) {
                         return Made{r >= first && r < last ? r + by : r, g};
                       }));
}

TEST(RowsOfX, AreThoseBeforeOrAfter) {
  const Call call = forward_call({140}, 6, 32);
  const Tensor given = call.input("x.codes");
  const Tensor scales = call.input("x.scales");
  for (const Index by : {-1, 1, -2, 2, -4, 4, -8, 8, -16, 16, -32, 32, -64, 64, -128, 128}) {
    const Index first = by < 0 ? -by : 0;
    const List list = shifted(call, first, first + 4, by);
    EXPECT_EQ(in_lines(list), "x=shifted: rows are made of the rows of x " +
                                  std::to_string(std::abs(by)) + (by < 0 ? " before" : " after") +
                                  " them\n");
    ASSERT_EQ(list.size(), 1u);
    Call altered = call;
    ASSERT_TRUE(list[0].alter(altered));
    for (Index r = 0; r < 140; ++r) {
      const Index from = std::clamp<Index>(r + by, 0, 139);
      EXPECT_EQ(altered.input("x.codes").as<std::uint8_t>()[r * 32 + 7],
                given.as<std::uint8_t>()[from * 32 + 7]);
      EXPECT_EQ(altered.input("x.scales").as<std::uint8_t>()[r], scales.as<std::uint8_t>()[from]);
    }
  }
  EXPECT_EQ(shifted(call, 10, 14, 3).size(), 0u);
  EXPECT_EQ(shifted(call, 10, 11, 2).size(), 0u) << "one row is chance";
  EXPECT_EQ(shifted(call, 10, 12, 2).size(), 1u);
}

TEST(RowsOfX, AreSoughtInTheFirstEightThatFail) {
  const Call call = forward_call({40}, 6, 32);
  const auto from = [&](Index right) {
    // The first rows that fail are made of nothing known.
    Tensor y = made_of(call, [&](Index r, Index g) { return Made{r >= right ? r - 1 : r, g}; });
    for (Index i = 6; i < right * 6; ++i) y.as<float>()[i] += 1000.0f;
    return measured_rows(call, y).size();
  };
  EXPECT_EQ(from(7), 1u) << "the seventh and eighth that fail";
  EXPECT_EQ(from(8), 0u);
  EXPECT_EQ(from(9), 0u);
  // Rows that fail in their first element alone are of the eight.
  Tensor y = made_of(call, [](Index r, Index g) { return Made{r >= 9 ? r - 1 : r, g}; });
  for (Index r = 1; r < 9; ++r) y.as<float>()[r * 6] += 1000.0f;
  EXPECT_EQ(measured_rows(call, y).size(), 0u);
}

TEST(RowsOfX, OfPlainOperandsAreTaken) {
  Call call = forward_call({12}, 6, 32);
  call.inputs.erase("x.scales");
  const List list = shifted(call, 4, 8, 1);
  ASSERT_EQ(list.size(), 1u);
  Call altered = call;
  ASSERT_TRUE(list[0].alter(altered));
  EXPECT_EQ(altered.input("x.codes").as<std::uint8_t>()[0],
            call.input("x.codes").as<std::uint8_t>()[32]);
}

TEST(RowsOfX, NeedFourElementsThatDiffer) {
  const Call call = forward_call({12}, 6, 32);
  const Tensor right = sums_of(*product_of(call));
  const auto columns = [&](Index n) {
    Tensor y = made_of(call, [](Index r, Index g) { return Made{r < 8 ? r + 1 : r, g}; });
    for (Index i = 0; i < 72; ++i) {
      if (i % 6 >= n) y.as<float>()[i] = right.as<float>()[i];
    }
    return measured_rows(call, y).size();
  };
  EXPECT_EQ(columns(3), 0u);
  EXPECT_EQ(columns(4), 1u);
}

TEST(RowsOfX, AreNumbersThatFit) {
  const Call call = forward_call({12}, 6, 32);
  const auto with = [&](float odd, bool add) {
    Tensor y = made_of(call, [](Index r, Index g) { return Made{r < 8 ? r + 1 : r, g}; });
    for (Index r = 0; r < 8; ++r) {
      float& v = y.as<float>()[r * 6 + 5];
      v = add ? v + odd : odd;
    }
    return measured_rows(call, y).size();
  };
  EXPECT_EQ(with(0.001f, true), 1u);
  EXPECT_EQ(with(20.0f, true), 0u);
  EXPECT_EQ(with(std::numeric_limits<float>::quiet_NaN(), false), 0u);
  EXPECT_EQ(with(std::numeric_limits<float>::infinity(), false), 0u);
  const auto times = [&](float by) {
    Tensor y = made_of(call, [](Index r, Index g) { return Made{r < 8 ? r + 1 : r, g}; });
    for (Index i = 0; i < 8 * 6; ++i) y.as<float>()[i] *= by;
    return measured_rows(call, y).size();
  };
  EXPECT_EQ(times(1.019f), 1u);
  EXPECT_EQ(times(0.977f), 0u);
  EXPECT_EQ(times(1.05f), 0u);
  Tensor zeros(Dtype::f32, {12, 6});
  EXPECT_EQ(measured_rows(call, zeros).size(), 0u);
}

TEST(RowsOfX, AreNotToldByZeros) {
  // Rows 5 and 9 of x are zero, and rows 4 and 8 of the output came as zero.
  Call call = forward_call({12}, 6, 32);
  Tensor codes = call.input("x.codes");
  for (const Index r : {5, 9}) std::fill_n(codes.as<std::uint8_t>() + r * 32, 32, std::uint8_t{0});
  call.replace("x.codes", std::move(codes));
  Tensor y = sums_of(*product_of(call));
  for (const Index r : {4, 8}) std::fill_n(y.as<float>() + r * 6, 6, 0.0f);
  EXPECT_EQ(measured_rows(call, y).size(), 0u);
}

TEST(Experts, AreLookedForInRowsSpreadOverTheOutput) {
  // 100 rows of group 0 are made of nothing known; the first three of group 1 of expert 0.
  const Call call = forward_call({100, 110}, 6, 32);
  Tensor y = made_of(call, [](Index r, Index g) { return Made{r, g == 1 && r < 103 ? 0 : g}; });
  for (Index i = 0; i < 600; ++i) y.as<float>()[i] += 1000.0f;
  const std::string text = in_lines(measured_rows(call, y));
  EXPECT_EQ(text.substr(0, text.find('\n')),
            "group_ends=moved: group 0 ends at row 103 rather than 100");
}

TEST(Experts, AreOfForwardProducts) {
  const Call call = three();
  const Tensor y = made_of(call, [](Index r, Index g) { return Made{r, (g + 1) % 3}; });
  EXPECT_EQ(measured_rows(call, y).size(), 1u);
  EXPECT_EQ(measured_rows(call, y, "z").size(), 0u);
  const Call gradient = gradient_call({32, 64}, 8, 8);
  EXPECT_EQ(measured_rows(gradient, Tensor(Dtype::f32, {2, 8, 8}), "y").size(), 0u);
}

}  // namespace
}  // namespace mxo
