// Codes of one side that lie in another order along K, the same in every run of so many.

#include <gtest/gtest.h>
#include <string>
#include <vector>
#include "golden/explain/find/product/finders.h"
#include "tests/golden/lines_taken.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

using Order = std::vector<Index>;

/// Runs along K in that order, `unit` at a time, as far as whole runs of 16 lanes go.
From in_order(const Order& order, Index depth, Index unit = 1) {
  return [=](Index i) {
    if (i >= depth / (16 * unit) * (16 * unit)) return i;
    const Index run = static_cast<Index>(order.size()) * unit;
    return i - i % run + order[static_cast<std::size_t>(i % run / unit)] * unit + i % unit;
  };
}

/// x and w with a scale for each element, those of odd places eight times as large.
Call laned_call(Index depth = 16) {
  Call call = forward_call({32, 32, depth, {32}, 1});
  for (const char* name : {"x.scales", "w.scales"}) {
    call = edited<float>(call, name, [&](float* scale) {
      for (Index i = 0; i < call.input(name).elements(); ++i) scale[i] *= i % 2 == 0 ? 1.0f : 8.0f;
    });
  }
  return call;
}

/// What the output shows where the product of `taken` came; the altered call has its operands.
std::string said(const Call& call, const Call& taken, Tensor actual,
                 const std::string& name = "y") {
  const Came came(multiplied(call), std::move(actual), call, name);
  std::vector<Hypothesis> list;
  add_measured_lanes(call, came.output, list);
  if (list.empty()) return "";
  EXPECT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].stage, Stage::input);
  Call altered = call;
  EXPECT_TRUE(list[0].alter(altered));
  for (const auto& [operand, tensor] : taken.inputs) {
    EXPECT_TRUE(same(altered.input(operand), *tensor)) << operand;
  }
  return list[0].phrase;
}

std::string of_x(const Order& order, Index depth = 16, Index unit = 1, const Call& call = {}) {
  const Call given = call.op.empty() ? laned_call(depth) : call;
  const Call taken = with_lines(given, {"x.codes"}, 1, in_order(order, depth, unit));
  return said(given, taken, multiplied(taken));
}

TEST(Lanes, AreNamedByTheirOrder) {
  const std::string of = "the codes of x are taken in runs of ";
  EXPECT_EQ(of_x({2, 0, 1, 2}), of + "4 along K in the order 2, 0, 1, 2");
  EXPECT_EQ(of_x({15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}),
            of + "16 along K in the order 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0");
  // Two, eight and sixteen elements at a time.
  EXPECT_EQ(of_x({2, 3, 0, 1}), of + "4 along K in the order 1, 0, 2 at a time");
  EXPECT_EQ(of_x({2, 3, 1, 0}), of + "4 along K in the order 2, 3, 1, 0");
  EXPECT_EQ(of_x({2, 0, 0, 2}), of + "4 along K in the order 2, 0, 0, 2");
  EXPECT_EQ(of_x({0, 2, 3, 3}, 128, 8), of + "32 along K in the order 0, 2, 3, 3, 8 at a time");
  // Places behind the last whole run stay, and there codes are 128 times as large.
  for (const auto& [depth, unit] : {std::pair<Index, Index>{18, 1}, {36, 2}}) {
    const Call call = edited<std::uint8_t>(laned_call(depth), "x.codes", [d = depth](auto* codes) {
      for (Index i = 0; i < 32 * d; ++i) {
        if (i % d >= d / 16 * 16) codes[i] = static_cast<std::uint8_t>(codes[i] + 0x38);
      }
    });
    EXPECT_NE(of_x({2, 0, 1, 2}, depth, unit, call), "") << depth;
  }
  const Call call = laned_call();
  const Call of_w = with_lines(call, {"w.codes"}, 2, in_order({1, 3, 3, 2}, 16));
  EXPECT_EQ(said(call, of_w, multiplied(of_w)),
            "the codes of w are taken in runs of 4 along K in the order 1, 3, 3, 2");
}

TEST(Lanes, ThatSayNothingAreSilent) {
  const Call call = laned_call();
  EXPECT_EQ(of_x({0, 1, 2, 3}), "") << "each its own";
  Tensor y = multiplied(call);
  for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= 1.001f;
  EXPECT_EQ(said(call, call, y), "");
  std::fill_n(y.as<float>(), y.elements(), 0.0f);
  EXPECT_EQ(said(call, call, y), "");
  // Elements enough for 256 unknowns: 384, some of which do not differ.
  const Call taken = with_lines(call, {"x.codes"}, 1, in_order({2, 0, 1, 2}, 16));
  for (const Index columns : {18, 32}) {
    Tensor some = multiplied(call);
    const Tensor all = multiplied(taken);
    for (Index r = 0; r < 20; ++r)
      std::copy_n(all.as<float>() + r * 32, columns, some.as<float>() + r * 32);
    EXPECT_EQ(said(call, taken, some) != "", columns == 32);
  }
  const Call gradient = gradient_call({32, 32, 16, {16}});
  const Call along = with_lines(gradient, {"dy.codes"}, 0, in_order({2, 0, 1, 2}, 16));
  EXPECT_EQ(said(gradient, along, multiplied(along), "dw"), "");
}

TEST(Lanes, AreNamedWhereNothingElseIsKnown) {
  const auto b = make_cpu_backend();
  struct Row {
    Call call;
    const char* operand;
    Order order;
    const char* words;
  };
  const Call call = mx_product(*b, 11, {{24}, 24, 32, 64});
  for (const Row& row : {Row{call,
                             "x.codes",
                             {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 14, 15, 6, 7, 12, 13},
                             "the codes of x are taken in runs of 16 along K in the order 0, 4, 1, "
                             "5, 2, 7, 3, 6, 2 at a time"},
                         Row{bf16_product(11),
                             "x",
                             {0, 3, 1, 2},
                             "x is taken in runs of 4 along K in the order 0, 3, 1, 2"}}) {
    const Index k = row.call.input(row.operand).shape().back();
    const Planted p =
        planted(*b, row.call, with_lines(row.call, {row.operand}, 1, in_order(row.order, k)));
    const Explanation e = explain(*b, p.call, p.expected, p.actual);
    EXPECT_EQ(e.sentence(), std::string("explained: ") + row.words);
  }
}

}  // namespace
}  // namespace mxo
