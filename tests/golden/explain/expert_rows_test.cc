// Rows of other experts and other rows of x at the edges: which are looked at, and what they show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/golden/rows_made.h"

namespace mxo {
namespace {

using List = std::vector<Hypothesis>;

std::string first_phrase(const List& list) { return list.empty() ? "none" : list[0].phrase; }

/// y of which rows [4, 8) are made of the row after.
Tensor four_late(const Call& call) {
  return made_of(call, [](Index r, Index) { return Made{r >= 4 && r < 8 ? r + 1 : r, 0}; });
}

TEST(ExpertRows, AreHeldUpToTwelveColumns) {
  const Call call = forward_call({12}, 24, 32);
  const auto with_wrong = [&](Index column) {
    Tensor y = four_late(call);
    for (Index r = 4; r < 8; ++r) y.as<float>()[r * 24 + column] += 1000.0f;
    return measured_rows(call, y).size();
  };
  for (Index c = 0; c < 24; ++c) EXPECT_EQ(with_wrong(c), c % 2 == 0 ? 0u : 1u) << c;
}

TEST(ExpertRows, AreNoNegativesNorErrorsThatCancel) {
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

TEST(ExpertRows, FitWhereElementsThatVanishedSayNothing) {
  // The first two columns are nearly nothing beside the others.
  Call call = forward_call({12}, 6, 32);
  Tensor scales = call.input("w.scales");
  for (Index j = 0; j < 2; ++j) scales.as<std::uint8_t>()[j] = 107;
  call.replace("w.scales", std::move(scales));
  Tensor y = four_late(call);
  for (Index r = 4; r < 8; ++r) std::fill_n(y.as<float>() + r * 6, 2, 0.0f);
  EXPECT_EQ(measured_rows(call, y).size(), 1u);
  Tensor turned = four_late(call);
  for (Index r = 4; r < 8; ++r) turned.as<float>()[r * 6] *= -1.0f;
  EXPECT_EQ(measured_rows(call, turned).size(), 1u) << "the first element has another sign";
}

TEST(ExpertRows, MayBeMadeOfRowsOfNobody) {
  const Call call = [] {
    Call of_ten = forward_call({6, 12}, 6, 32);
    of_ten.replace("group_ends", ends_at({6, 10}));
    return of_ten;
  }();
  const Product p = *product_of(call);
  Tensor y = sums_of(p);
  for (Index r = 7; r < 10; ++r) {
    const std::vector<double> x = p.line_a(1, r + 2);
    for (Index j = 0; j < 6; ++j) {
      const std::vector<double> w = p.line_b(1, j);
      double sum = 0.0;
      for (std::size_t d = 0; d < x.size(); ++d) sum += x[d] * w[d];
      y.as<float>()[r * 6 + j] = static_cast<float>(sum);
    }
  }
  EXPECT_EQ(in_lines(measured_rows(call, y)),
            "x=shifted: rows are made of the rows of x 2 after them\n");
}

TEST(ExpertRows, BeginAtTheFirst) {
  const Call call = forward_call({12}, 6, 32);
  const auto count = [&](Index first, Index last, Index by) {
    return measured_rows(call, made_of(call,
                                       [&](Index r, Index) {
                                         return Made{r >= first && r < last ? r + by : r, 0};
                                       }))
        .size();
  };
  EXPECT_EQ(count(0, 2, 1), 1u) << "the first fails";
  EXPECT_EQ(count(1, 3, -1), 1u) << "the first is taken";
  EXPECT_EQ(count(9, 11, 1), 1u) << "the last is taken";
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

TEST(ExpertRows, AreLookedForBesideThoseSeen) {
  // Of 192 that fail every fourth is looked at.
  EXPECT_EQ(of_second(192, [](Index i) { return i < 3; }), ends_at_row(4));
  EXPECT_EQ(of_second(192, [](Index i) { return i < 51; }), ends_at_row(52));
  EXPECT_EQ(of_second(192, [](Index i) { return i < 51 && i != 5 && i != 45; }), ends_at_row(52))
      << "those between do not stop it";
  EXPECT_EQ(of_second(192, [](Index i) { return i < 51 && i != 50; }), ends_at_row(51));
  EXPECT_EQ(of_second(96, [](Index i) { return i % 2 == 1; }), "none") << "none of them seen";
}

TEST(ExpertRows, BesideThoseSeenHaveFourElementsToo) {
  const Call call = forward_call({1, 193}, 6, 32);
  const Tensor right = sums_of(*product_of(call));
  const auto with = [&](Index columns) {
    Tensor y = made_of(call, [](Index r, Index g) { return Made{r, r > 0 && r < 52 ? 0 : g}; });
    for (Index i = 52 * 6; i < 193 * 6; ++i) y.as<float>()[i] += 1000.0f;
    std::copy_n(right.as<float>() + 51 * 6, 6 - columns, y.as<float>() + 51 * 6);
    return first_phrase(measured_rows(call, y));
  };
  EXPECT_EQ(with(4), ends_at_row(52));
  EXPECT_EQ(with(3), ends_at_row(51));
}

TEST(ExpertRows, OfAnExpertAreNotOfRowsNearThem) {
  // Expert 1 is twice expert 0, and every odd row of x twice the one before.
  Call call = forward_call({6, 12}, 6, 32);
  Tensor codes = call.input("w.codes");
  std::copy_n(codes.data(), 6 * 32, codes.data() + 6 * 32);
  call.replace("w.codes", std::move(codes));
  Tensor rows = call.input("x.codes");
  for (Index r = 1; r < 12; ++r) std::copy_n(rows.data(), 32, rows.data() + r * 32);
  call.replace("x.codes", std::move(rows));
  call.replace("w.scales",
               filled<std::uint8_t>(Dtype::u8, {2, 6, 1}, [](Index i) { return 126 + i / 6; }));
  call.replace("x.scales",
               filled<std::uint8_t>(Dtype::u8, {12, 1}, [](Index i) { return 126 + i % 2; }));
  const Tensor y = made_of(call, [](Index r, Index g) {
    return Made{r, r == 0 || r == 2 || r == 4 ? 1 : g};
  });
  EXPECT_EQ(in_lines(measured_rows(call, y)),
            "w=other_expert: group 0 is multiplied by the weights of expert 1\n");
}

TEST(ExpertRows, ShowTheFirstOfTwoAndOneOfSome) {
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

/// The call after the first hypothesis, found where group 0 has the weights of expert 1.
Call with_expert_of(Call altered) {
  const Call call = forward_call({6, 12}, 6, 32);
  const List list = measured_rows(call, made_of(call, [](Index r, Index) { return Made{r, 1}; }));
  EXPECT_EQ(list.size(), 1u);
  EXPECT_TRUE(list.empty() || list[0].alter(altered));
  return altered;
}

TEST(ExpertRows, AreExchangedInTensorsOfExperts) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("w", counted({2, 3}));
  call.replace("w.codes", Tensor(Dtype::u8, {0, 4}));
  call.replace("w.scales", counted({2}));
  const Call altered = with_expert_of(call);
  EXPECT_TRUE(same_bytes(altered.input("w"),
                         taken(counted({2, 3}), [](Index i) { return i < 3 ? i + 3 : i; })));
  EXPECT_EQ(altered.input("w.codes").elements(), 0);
  EXPECT_TRUE(same_bytes(altered.input("w.scales"), counted({2}))) << "no axis of experts";
  Call shared{"grouped_matmul", {}, {}};
  shared.replace("w", counted({0}));
  EXPECT_EQ(with_expert_of(shared).inputs.size(), 1u) << "of what there is";
}

TEST(ExpertRows, OfXAreTakenOfWhatThereIs) {
  const Call call = forward_call({12}, 6, 32);
  const List list = measured_rows(call, four_late(call));
  ASSERT_EQ(list.size(), 1u);
  Call empty{"grouped_matmul", {}, {}};
  empty.replace("x.codes", Tensor(Dtype::u8, {0, 32}));
  EXPECT_TRUE(list[0].alter(empty));
  EXPECT_EQ(empty.inputs.size(), 1u);
}

TEST(ExpertRows, OfOtherOperatorsAreMeasuredToo) {
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
