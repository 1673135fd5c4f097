// Which expert's weights and which row of x a row was made of, from what came.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/golden/came.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// What a row of the output is made of.
struct Made {
  Index source;  ///< row of x
  Index expert;
};

Index group_with(const Product& p, Index row) {
  Index g = 0;
  while (row >= p.end(g)) ++g;
  return g;
}

/// y of `call` where row r is made as made(r, its group) says.
template <typename From>
Tensor made_of(const Call& call, const From& made) {
  const Product p = *product_of(call);
  Tensor y(Dtype::f32, {p.a_lines, p.n});
  for (Index r = 0; r < p.a_lines; ++r) {
    const Made m = made(r, group_with(p, r));
    const std::vector<double> x = p.line_a(0, m.source);
    for (Index j = 0; j < p.n; ++j) {
      const std::vector<double> w = p.line_b(m.expert, j);
      double sum = 0.0;
      for (std::size_t d = 0; d < x.size(); ++d) sum += x[d] * w[d];
      y.as<float>()[r * p.n + j] = static_cast<float>(sum);
    }
  }
  return y;
}

std::vector<Hypothesis> measured_rows(const Call& call, Tensor actual,
                                      const std::string& name = "y") {
  Came came(sums_of(*product_of(call)), std::move(actual), call, name);
  std::vector<Hypothesis> list;
  add_measured_rows(call, came.output, list);
  return list;
}

std::string in_lines(const std::vector<Hypothesis>& list) {
  std::string text;
  for (const Hypothesis& h : list) {
    EXPECT_EQ(h.stage, Stage::input);
    text += h.name + ": " + h.phrase + "\n";
  }
  return text;
}

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

TEST(Ends, OfTheLastGroupIsWhereZerosBegin) {
  Tensor y = made_of(three(), [](Index r, Index g) { return Made{r, r == 5 ? 1 : g}; });
  std::fill_n(y.as<float>() + 16 * 12, 2 * 12, 0.0f);
  const List list = measured_rows(three(), y);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].phrase,
            "group 0 ends at row 5 rather than 6 and group 2 ends at row 16 rather than 18");
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

TEST(Experts, AreOfForwardProducts) {
  const Call call = three();
  const Tensor y = made_of(call, [](Index r, Index g) { return Made{r, (g + 1) % 3}; });
  EXPECT_EQ(measured_rows(call, y).size(), 1u);
  EXPECT_EQ(measured_rows(call, y, "z").size(), 0u);
  const Call gradient = gradient_call({32, 64}, 8, 8);
  EXPECT_EQ(measured_rows(gradient, Tensor(Dtype::f32, {2, 8, 8}), "y").size(), 0u);
}

std::string first_phrase(const List& list) { return list.empty() ? "none" : list[0].phrase; }

/// y of which rows [4, 8) are made of the row after.
Tensor four_late(const Call& call) {
  return made_of(call, [](Index r, Index) { return Made{r >= 4 && r < 8 ? r + 1 : r, 0}; });
}

TEST(Experts, AreNoNegativesNorErrorsThatCancel) {
  const Call call = forward_call({12}, 6, 32);
  const Tensor right = sums_of(*product_of(call));
  const Tensor late = four_late(call);
  Tensor negative = late;
  Tensor cancelling = late;
  for (Index r = 4; r < 8; ++r) {
    double square = 0.0;
    for (Index c = 0; c < 6; ++c) {
      const auto v = static_cast<double>(late.as<float>()[r * 6 + c]);
      square += v * v / 6.0;
    }
    const auto off = static_cast<float>(std::sqrt(square) / 4.0);
    for (Index c = 0; c < 6; ++c) {
      negative.as<float>()[r * 6 + c] *= -1.0f;
      cancelling.as<float>()[r * 6 + c] += c == 0 ? 1.0001f * off : c % 2 == 0 ? off : -off;
    }
  }
  EXPECT_EQ(measured_rows(call, late).size(), 1u);
  EXPECT_EQ(measured_rows(call, negative).size(), 0u);
  EXPECT_EQ(measured_rows(call, cancelling).size(), 0u);
}

/// What is said where rows of the second group (1 to n) fail: of the first's weights where first(i)
/// says, of nothing known elsewhere.
template <typename First>
std::string of_second(Index n, const First& first) {
  const Call call = forward_call({1, n + 1}, 6, 32);
  Tensor y = made_of(call, [&](Index r, Index g) {
    return Made{r, r > 0 && first(r - 1) ? 0 : g};
  });
  for (Index r = 1; r <= n; ++r) {
    if (first(r - 1)) continue;
    for (Index c = 0; c < 6; ++c) y.as<float>()[r * 6 + c] += 1000.0f;
  }
  return first_phrase(measured_rows(call, y));
}

std::string ends_at_row(Index row) {
  return "group 0 ends at row " + std::to_string(row) + " rather than 1";
}

TEST(Experts, AreLookedForBesideThoseSeen) {
  // Of 192 that fail every fourth is looked at.
  EXPECT_EQ(of_second(192, [](Index i) { return i < 3; }), ends_at_row(4));
  EXPECT_EQ(of_second(192, [](Index i) { return i < 51; }), ends_at_row(52));
  EXPECT_EQ(of_second(192, [](Index i) { return i < 51 && i != 5 && i != 45; }), ends_at_row(52))
      << "those between do not stop it";
  EXPECT_EQ(of_second(192, [](Index i) { return i < 51 && i != 50; }), ends_at_row(51));
  EXPECT_EQ(of_second(96, [](Index i) { return i % 2 == 1; }), "none") << "none of them seen";
}

TEST(Experts, ShowTheFirstOfTwoAndOneOfSome) {
  const Call call = forward_call({6, 12, 18}, 12, 32);
  const auto last = [&](const auto& expert) {
    const List list = measured_rows(call, made_of(call, [&](Index r, Index g) {
                                      return Made{r, expert(r, g)};
                                    }));
    return list.empty() ? "none" : list.back().phrase;
  };
  EXPECT_EQ(last([](Index r, Index g) { return g != 1  ? g
                                               : r < 9 ? 2
                                                       : Index{0}; }),
            "group 1 is multiplied by the weights of expert 0");
  EXPECT_EQ(last([](Index, Index) { return 2; }),
            "groups are multiplied by the weights of expert 2");
}

TEST(Experts, OfOtherOperatorsAreMeasuredToo) {
  Call sum{"column_sum", {}, {}};
  const auto at = [](Index i) { return 1 << i; };
  sum.replace("x", filled<float>(Dtype::f32, {4, 3}, at));
  const auto without = [&](Index row) {
    return filled<float>(Dtype::f32, {3}, [&](Index c) {
      int all = 0;
      for (Index r = 0; r < 4; ++r) all += r == row ? 0 : at(r * 3 + c);
      return all;
    });
  };
  Came came(without(-1), without(2), sum, "sum");
  List list;
  add_measured_rows(sum, came.output, list);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list[0].phrase, "row 2 is left out of the sum");

  Call bias{"bias", {}, {}};
  bias.replace("group_ends", ends_at({4, 8}));
  Came moved(
      counted({8, 2}),
      filled<std::int32_t>(Dtype::i32, {8, 2}, [](Index i) { return i / 4 == 1 ? 100 + i : i; }),
      bias);
  moved.output.group = "group";
  moved.output.ends = {4, 8};
  list.clear();
  add_measured_rows(bias, moved.output, list);
  EXPECT_EQ(first_phrase(list), "group 0 ends at row 2 rather than 4");
}

}  // namespace
}  // namespace mxo
