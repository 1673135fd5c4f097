// Column sums in another order or type, or not begun anew: which are seen in a sum, and what comes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/operands_where.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using Rows = std::vector<float>;

float bf16(float v) { return decode(encode<kBF16>(v)); }

/// Sums of x over all rows, or over groups of them, that came as another sum of the same rows.
struct Summed {
  template <typename Of>
  Summed(Tensor x, const std::vector<Index>& ends, bool groups, const Of& of) {
    call.replace("x", std::move(x));
    if (!ends.empty()) call.replace("group_ends", ends_at(ends));
    if (groups) call.set.set("over", "groups");
    expected = run_call(*make_reference_backend(), call).at("sum");
    actual = expected;
    for (Index i = 0; i < actual.elements(); ++i) store_wide(actual, i, of(i));
  }
  std::vector<Hypothesis> list() const {
    std::vector<Hypothesis> causes;
    add_column_sums(call, make_output(call, "sum", expected, actual), causes);
    return causes;
  }
  Words names() const {
    Words all;
    for (const Hypothesis& h : list()) all.push_back(h.name);
    return all;
  }
  /// The phrases of all causes that give what came, each in the shape of the operator.
  Words that_give_it() const {
    Words all;
    for (const Hypothesis& h : list()) {
      NamedTensors out;
      out.emplace("sum", expected);
      Call other = call;
      EXPECT_EQ(h.stage, Stage::sum);
      EXPECT_TRUE(h.alter(other));
      EXPECT_TRUE(h.rewrite(call, out));
      if (plain_numbers(out.at("sum")) == plain_numbers(actual)) all.push_back(h.phrase);
      out.clear();
      EXPECT_FALSE(h.rewrite(call, out)) << "of no sum";
    }
    return all;
  }
  Call call{"column_sum", {}, {}};
  Tensor expected;
  Tensor actual;
};

/// Numbers of many magnitudes and both signs: another order is another sum.
Tensor uneven(Index rows, Index columns) {
  Tensor t(Dtype::f32, {rows, columns});
  std::uint32_t seed = 7;
  for (Index i = 0; i < t.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const auto size = static_cast<float>(1 << (seed >> 29));
    t.as<float>()[i] = (static_cast<float>(seed >> 8) * 0x1p-24f - 0.25f) * size;
  }
  return t;
}

Rows column(const Tensor& x, Index c, Index first, Index end) {
  Rows rows;
  for (Index r = first; r < end; ++r) rows.push_back(x.as<float>()[r * x.extent(1) + c]);
  return rows;
}

float in_turn(const Rows& rows, std::size_t first, std::size_t end, std::size_t step = 1) {
  float sum = 0.0f;
  for (std::size_t r = first; r < std::min(end, rows.size()); r += step) sum += rows[r];
  return sum;
}

float in_bf16(const Rows& rows) {
  float sum = 0.0f;
  for (const float v : rows) sum = bf16(sum + v);
  return sum;
}

float in_f64(const Rows& rows) {
  double sum = 0.0;
  for (const float v : rows) sum += static_cast<double>(v);
  return static_cast<float>(sum);
}

float backwards(const Rows& rows) { return in_turn({rows.rbegin(), rows.rend()}, 0, rows.size()); }

float in_parts(const Rows& rows, std::size_t every, bool narrow) {
  float sum = 0.0f;
  for (std::size_t at = 0; at < rows.size(); at += every) {
    const float part = in_turn(rows, at, at + every);
    sum += narrow ? bf16(part) : part;
  }
  return sum;
}

float by_turns(const Rows& rows, std::size_t lanes) {
  float sum = 0.0f;
  for (std::size_t lane = 0; lane < std::min(lanes, rows.size()); ++lane) {
    sum += in_turn(rows, lane, rows.size(), lanes);
  }
  return sum;
}

float in_pairs(const Rows& rows) {
  if (rows.size() == 1) return rows[0];
  Rows sums;
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    sums.push_back(i + 1 < rows.size() ? rows[i] + rows[i + 1] : rows[i]);
  }
  return in_pairs(sums);
}

/// All rows of x [rows, 12] in one sum that is of(rows).
template <typename Of>
Summed sums_of(Index rows, const Of& of) {
  const Tensor x = uneven(rows, 12);
  return {x, {}, false, [&](Index c) { return of(column(x, c, 0, rows)); }};
}

TEST(AlteredColumnSums, AreInWords) {
  struct Row {
    std::function<float(const Rows&)> of;
    const char* name;
    std::string phrase;
    Index rows = 43;
  };
  std::vector<Row> rows{
      {in_bf16, "sum=bf16", "rows are added up in bf16"},
      {in_f64, "sum=f64", "rows are added up in f64"},
      {backwards, "sum=reversed", "rows are added up from the last to the first"},
      {in_pairs, "sum=pairs", "rows are added up in pairs, and pairs of pairs"},
      {in_pairs, "sum=pairs", "rows are added up in pairs, and pairs of pairs", 40}};
  for (const std::size_t n : {2u, 8u, 32u, 512u}) {
    const std::string every = "every " + std::to_string(n) + " rows are added up first";
    const std::string turns = "rows are added up in " + std::to_string(n) + " sums by turns";
    const Index of = n == 512 ? 1100 : 77;
    rows.push_back({[n](const Rows& r) { return in_parts(r, n, false); }, "sum=parts", every, of});
    rows.push_back({[n](const Rows& r) { return in_parts(r, n, true); }, "sum=bf16_parts",
                    every + ", and rounded to bf16", of});
    rows.push_back({[n](const Rows& r) { return by_turns(r, n); }, "sum=lanes", turns, of});
  }
  for (const Row& row : rows) {
    const Summed sums = sums_of(row.rows, row.of);
    EXPECT_EQ(sums.names(), Words{row.name}) << row.phrase;
    EXPECT_EQ(sums.that_give_it(), Words{row.phrase});
  }
  EXPECT_EQ(sums_of(40, [](const Rows&) { return 12.5f; }).names(), Words{});
}

TEST(AlteredColumnSums, AreOfTheRowsOfTheirGroup) {
  const Tensor x = uneven(70, 3);
  const std::vector<Index> first{0, 20, 20};
  const std::vector<Index> end{20, 20, 60};
  const Summed groups(x, {20, 20, 60}, true, [&](Index i) {
    const auto g = static_cast<std::size_t>(i / 3);
    return in_parts(column(x, i % 3, first[g], end[g]), 8, false);
  });
  EXPECT_EQ(groups.that_give_it(), Words{"every 8 rows are added up first"});
  const Summed all(x, {20, 60}, false,
                   [&](Index i) { return in_parts(column(x, i, 0, 60), 8, false); });
  EXPECT_EQ(all.that_give_it(), Words{"every 8 rows are added up first"})
      << "rows behind the last group are nobody's";
  const Summed one(x, {60}, true, [&](Index i) { return in_parts(column(x, i, 0, 60), 8, false); });
  EXPECT_EQ(one.that_give_it(), Words{"every 8 rows are added up first"});
}

/// x of bf16 is read, and a sum of bf16 compared, in its own type.
TEST(AlteredColumnSums, OfNarrowTypes) {
  const Tensor wide = uneven(40, 4);
  Tensor x(Dtype::bf16, {40, 4});
  Tensor read(Dtype::f32, {40, 4});
  for (Index i = 0; i < 160; ++i) {
    store_wide(x, i, wide.as<float>()[i]);
    read.as<float>()[i] = wide_value(x, i);
  }
  Summed sums(x, {}, false, [&](Index c) { return in_bf16(column(read, c, 0, 40)); });
  EXPECT_EQ(sums.that_give_it(), Words{"rows are added up in bf16"});
  sums.expected = Tensor(Dtype::bf16, {4});
  sums.actual = Tensor(Dtype::bf16, {4});
  for (Index c = 0; c < 4; ++c) store_wide(sums.actual, c, in_bf16(column(read, c, 0, 40)));
  EXPECT_EQ(sums.that_give_it(), Words{"rows are added up in bf16"});
}

/// Where one of the first that differ is something else, the order is none of these; the rest is
/// left to the trial.
TEST(AlteredColumnSums, AreOfAllTheFirstThatDiffer) {
  const Tensor x = uneven(40, 24);
  for (const Index other : {0, 10, 16, 23}) {
    const Summed sums(x, {}, false,
                      [&](Index c) { return c == other ? 99.0f : in_bf16(column(x, c, 0, 40)); });
    EXPECT_EQ(sums.names(), other < 16 ? Words{} : Words{"sum=bf16"}) << other;
  }
}

TEST(AlteredColumnSums, AreOfColumnSums) {
  const Summed sums = sums_of(40, in_bf16);
  Summed other = sums;
  other.actual = other.expected;
  EXPECT_EQ(other.names(), Words{}) << "nothing differs";
  other = sums;
  other.call.op = "cast";
  EXPECT_EQ(other.names(), Words{});
  for (const std::vector<Index>& shape : {std::vector<Index>{12}, {40, 5}, {40, 0}}) {
    other = sums;
    other.call.replace("x", Tensor(Dtype::f32, shape));
    EXPECT_EQ(other.names(), Words{}) << "of other columns";
  }
}

/// Sums of four groups of two rows, some of which begin with those of the group before.
Summed carried(const std::vector<bool>& carries) {
  Tensor x(Dtype::f32, {8, 2});
  for (Index i = 0; i < 16; ++i) x.as<float>()[i] = static_cast<float>(1 << i);
  const auto groups = static_cast<Index>(carries.size());
  std::vector<Index> ends;
  std::vector<Index> first;
  for (Index g = 0; g < groups; ++g) {
    ends.push_back(2 * g + 2);
    first.push_back(carries[static_cast<std::size_t>(g)] && g > 0 ? first.back() : 2 * g);
  }
  return {x, ends, true, [&](Index i) {
            const Index g = i / 2;
            const float more = i == 0 && carries[0] ? 1.0f : 0.0f;
            return in_turn(column(x, i % 2, first[static_cast<std::size_t>(g)], 2 * g + 2), 0, 8) +
                   more;
          }};
}

TEST(AlteredColumnSums, OfSumsThatAreNotReset) {
  EXPECT_EQ(carried({false, false, true, false}).that_give_it(),
            Words{"the sum is not set to zero before group 2: it begins with that of the group "
                  "before"});
  EXPECT_EQ(carried({false, true, true, false}).that_give_it().size(), 1u) << "one after another";
  EXPECT_EQ(carried({false, true, false, true}).names(), Words{"sum=not_reset"});
  EXPECT_EQ(carried({false, true, true, true}).names(), Words{}) << "that is a running total";
  EXPECT_EQ(carried({true, false, true, false}).names(), Words{}) << "nothing is before group 0";
  EXPECT_EQ(carried({false, false, false, false}).names(), Words{});
}

TEST(AlteredColumnSums, OfSumsThatAreNotResetNeedGroups) {
  Summed sums = carried({false, false, true, false});
  sums.call.inputs.erase("group_ends");
  EXPECT_EQ(sums.names(), Words{});
  sums.call.replace("group_ends", ends_at({2, 4, 8}));
  EXPECT_EQ(sums.names(), Words{}) << "of as many sums";
}

}  // namespace
}  // namespace mxo
