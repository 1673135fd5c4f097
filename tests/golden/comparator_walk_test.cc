// How the comparator reads elements, cuts a tensor, and what it says of its parts.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "golden/judge/comparator.h"
#include "golden/judge/elements.h"
#include "golden/reports/reports.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

ExpectedOutput owe(const Tensor& expected) {
  ExpectedOutput expected_output;
  expected_output.expected = &expected;
  expected_output.format = expected.dtype();
  return expected_output;
}

CompareOptions blocks_of(Index rows, Index columns, std::string_view gate = "bits") {
  CompareOptions options;
  options.gate = parse_gate(gate);
  options.row_block = rows;
  options.column_block = columns;
  return options;
}

using Cut = std::tuple<Index, Index, Index, Index>;  // index, begin, end, differing

std::vector<Cut> cuts(const std::vector<Slice>& slices) {
  std::vector<Cut> list;
  for (const Slice& s : slices) list.emplace_back(s.index, s.begin, s.end, s.measures.differing);
  return list;
}

/// Ones, with zeros where something fails.
Tensor with_zeros(std::vector<Index> shape, std::initializer_list<Index> at) {
  Tensor t(Dtype::f32, std::move(shape));
  std::fill_n(t.as<float>(), t.elements(), 1.0f);
  for (const Index i : at) t.as<float>()[i] = 0.0f;
  return t;
}

TEST(ComparatorWalk, CutsBlocksOfRowsAndColumns) {
  const Tensor x = with_zeros({5, 7}, {});
  const Tensor y = with_zeros({5, 7}, {2, 13, 18, 19, 34});
  const TensorVerdict v = compare_tensor("y", owe(x), y, blocks_of(2, 3));
  EXPECT_EQ(cuts(v.row_blocks), (std::vector<Cut>{{0, 0, 2, 2}, {1, 2, 4, 2}, {2, 4, 5, 1}}));
  EXPECT_EQ(cuts(v.column_blocks), (std::vector<Cut>{{0, 0, 3, 1}, {1, 3, 6, 2}, {2, 6, 7, 2}}));
  EXPECT_EQ(v.row_blocks[0].measures.elements, 14);
  EXPECT_EQ(v.row_blocks[2].measures.elements, 7);
  EXPECT_EQ(v.column_blocks[2].measures.elements, 5);
  EXPECT_TRUE(v.groups.empty());
  EXPECT_EQ(v.worst_group, -1);
  EXPECT_EQ(v.heat.rows, 3);
  EXPECT_EQ(v.heat.columns, 3);
  EXPECT_EQ(v.heat.row_step, 2);
  EXPECT_EQ(v.heat.column_step, 3);
  EXPECT_EQ(v.heat.differing, (std::vector<Index>{1, 0, 1, 0, 2, 0, 0, 0, 1}));
  EXPECT_EQ(v.reason, "5 of 35 refused");
}

TEST(ComparatorWalk, HasSixtyFourCellsAtMost) {
  const auto heat = [](Index rows, Index columns, Index row_block, Index column_block) {
    const Tensor x = with_zeros({rows, columns}, {});
    const Tensor y = with_zeros({rows, columns}, {rows * columns - 1});
    return compare_tensor("y", owe(x), y, blocks_of(row_block, column_block)).heat;
  };
  HeatMap h = heat(64, 128, 1, 2);
  EXPECT_EQ(std::tuple(h.rows, h.columns, h.row_step, h.column_step), std::tuple(64, 64, 1, 2));
  h = heat(65, 131, 1, 2);
  EXPECT_EQ(std::tuple(h.rows, h.columns, h.row_step, h.column_step), std::tuple(33, 33, 2, 4));
  EXPECT_EQ(h.differing.size(), 33u * 33u);
  EXPECT_EQ(h.differing.back(), 1);
  h = heat(130, 64, 1, 1);
  EXPECT_EQ(std::tuple(h.rows, h.columns, h.row_step, h.column_step), std::tuple(44, 64, 3, 1));
  EXPECT_EQ(h.differing.back(), 1);
}

TEST(ComparatorWalk, CutsGroupsWithinBlocks) {
  const Tensor x = with_zeros({6, 2}, {});
  const Tensor y = with_zeros({6, 2}, {0, 2, 3, 8});
  ExpectedOutput expected_output = owe(x);
  expected_output.groups.ends = {1, 1, 5};  // the last row is of none
  const TensorVerdict v = compare_tensor("y", expected_output, y, blocks_of(4, 4));
  EXPECT_EQ(cuts(v.groups), (std::vector<Cut>{{0, 0, 1, 1}, {1, 1, 1, 0}, {2, 1, 5, 3}}));
  EXPECT_EQ(v.groups[2].measures.elements, 8);
  EXPECT_EQ(v.all.elements, 12);
  EXPECT_EQ(cuts(v.row_blocks), (std::vector<Cut>{{0, 0, 4, 3}, {1, 4, 6, 1}}));
}

TEST(ComparatorWalk, NamesPlacesOfEveryRank) {
  const auto first = [](std::vector<Index> shape, Index at) {
    const Tensor x = with_zeros(shape, {});
    const Tensor y = with_zeros(shape, {at});
    const TensorVerdict v = compare_tensor("y", owe(x), y);
    EXPECT_EQ(v.first.size(), 1u);
    EXPECT_EQ(v.first[0].expected, 0x3F800000u);
    EXPECT_EQ(v.first[0].actual, 0u);
    return v.first[0].at;
  };
  using At = std::vector<Index>;
  EXPECT_EQ(first({}, 0), At{});
  EXPECT_EQ(first({3}, 2), At{2});
  EXPECT_EQ(first({3, 4}, 7), (At{1, 3}));
  EXPECT_EQ(first({2, 3, 4}, 17), (At{1, 1, 1}));
}

/// Blocks of columns come one after the other: the list is of rows first.
TEST(ComparatorWalk, KeepsTheFirstEightOfAllTiles) {
  const Tensor x = with_zeros({2, 6}, {});
  const Tensor y = with_zeros({2, 6}, {0, 1, 2, 3, 5, 6, 7, 8, 9, 11});
  const TensorVerdict v = compare_tensor("y", owe(x), y, blocks_of(2, 2));
  std::vector<Index> flat;
  for (const Difference& d : v.first) flat.push_back(d.at[0] * 6 + d.at[1]);
  EXPECT_EQ(flat, (std::vector<Index>{0, 1, 2, 3, 5, 6, 7, 8}));
}

/// Enough elements to be shared, groups that end inside blocks, differences of every size.
TEST(ComparatorWalk, SaysTheSameForAnyNumberOfThreads) {
  Tensor x(Dtype::f32, {1033, 517});
  std::mt19937 random(3);
  std::normal_distribution<float> draw;
  for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = draw(random);
  Tensor y = x;
  for (Index i = 0; i < y.elements(); i += 1 + static_cast<Index>(random() % 5)) {
    y.as<float>()[i] *= 1 + draw(random) * 0x1p-20f;
  }
  y.as<float>()[777] = std::numeric_limits<float>::quiet_NaN();
  ExpectedOutput expected_output = owe(x);
  expected_output.groups.ends = {100, 100, 641, 1000};
  for (const char* gate : {"bits", "ulp=3", "sqnr=130"}) {
    CompareOptions options = blocks_of(32, 32, gate);
    std::set<std::string> said;
    for (const int threads : {1, 2, 3, 7, 16}) {
      options.threads = threads;
      Report report;
      report.cases.push_back({"case", "", Outcome::fail, {}, {}});
      report.cases[0].outputs.push_back(compare_tensor("y", expected_output, y, options));
      said.insert(json_report(report));
    }
    EXPECT_EQ(said.size(), 1u) << gate;
  }
}

TEST(ComparatorWalk, RefusesTheGroupBelowTheGate) {
  const Tensor x = with_zeros({4, 4}, {});
  const auto reason = [&](std::vector<Index> ends, std::initializer_list<Index> zeros,
                          const char* gate) {
    ExpectedOutput expected_output = owe(x);
    expected_output.groups.ends = std::move(ends);
    return compare_tensor("y", expected_output, with_zeros({4, 4}, zeros), blocks_of(32, 32, gate))
        .reason;
  };
  // Half of a group is 3.01 dB, a quarter 6.02 and an eighth 9.03.
  EXPECT_EQ(reason({}, {0, 1}, "sqnr=9.1"), "found 9.03 dB");
  EXPECT_EQ(reason({}, {0, 1}, "sqnr=9"), "");
  EXPECT_EQ(reason({2, 4}, {0, 1}, "sqnr=9"), "group 0 has 6.02 dB, worst group 0");
  EXPECT_EQ(reason({2, 4}, {0, 8, 9}, "sqnr=10"), "group 1 has 6.02 dB, worst group 1")
      << "not the first that is refused";
  EXPECT_EQ(reason({2, 4}, {0, 8, 9}, "sqnr=6"), "");
  EXPECT_EQ(reason({0, 2}, {12, 13}, "sqnr=20"), "") << "rows of no group";
  EXPECT_EQ(reason({0, 4}, {}, "sqnr=1000"), "") << "a group of no rows";
  const Tensor none(Dtype::f32, {0, 4});
  EXPECT_EQ(compare_tensor("y", owe(none), none, blocks_of(1, 1, "sqnr=1000")).outcome,
            Outcome::pass);
  const auto one = [](const char* gate) {
    const Tensor ten = floats({1}, {10});
    return compare_tensor("y", owe(ten), floats({1}, {11}), blocks_of(1, 1, gate)).reason;
  };
  EXPECT_EQ(one("sqnr=20"), "");
  EXPECT_EQ(one("sqnr=20.01"), "found 20.00 dB");
}

/// What a gate lets pass differs all the same.
TEST(ComparatorWalk, ShowsDifferencesThatPass) {
  const Tensor x = with_zeros({2, 2}, {});
  Tensor y = x;
  y.as<std::uint32_t>()[3] += 1;
  const TensorVerdict v = compare_tensor("y", owe(x), y, blocks_of(1, 1, "ulp=1"));
  EXPECT_EQ(v.outcome, Outcome::pass);
  ASSERT_EQ(v.first.size(), 1u);
  EXPECT_EQ(v.first[0].at, (std::vector<Index>{1, 1}));
  EXPECT_EQ(v.heat.differing, (std::vector<Index>{0, 0, 0, 1}));
}

TEST(ComparatorWalk, CutsNothingOfNoElements) {
  for (const std::vector<Index>& shape : {std::vector<Index>{3, 0}, {0, 3}, {2, 0, 3}, {2, 3, 0}}) {
    const Tensor none(Dtype::f32, shape);
    const TensorVerdict v = compare_tensor("y", owe(none), none);
    EXPECT_EQ(v.outcome, Outcome::pass);
    EXPECT_TRUE(v.row_blocks.empty());
    EXPECT_TRUE(v.column_blocks.empty());
    EXPECT_TRUE(v.groups.empty());
    EXPECT_EQ(v.heat.rows, 0);
    EXPECT_EQ(v.heat.columns, 0);
  }
}

TEST(ComparatorWalk, LeavesTheSqnrOfScalesToTheirCodes) {
  const Tensor x = with_zeros({1, 4}, {});
  const std::vector<bool> used{true, true, true, true};
  ExpectedOutput expected_output = owe(x);
  const Tensor y = with_zeros({1, 4}, {0, 1});
  EXPECT_EQ(compare_tensor("s", expected_output, y, blocks_of(1, 1, "sqnr=20")).outcome,
            Outcome::fail);
  expected_output.by_values = &used;
  EXPECT_EQ(compare_tensor("s", expected_output, y, blocks_of(1, 1, "sqnr=20")).outcome,
            Outcome::pass);
}

TEST(ComparatorWalk, SaysWhatNobodyOwes) {
  const Tensor x = with_zeros({3, 2}, {});
  ExpectedOutput expected_output = owe(x);
  const Tensor all = [] {
    Tensor mask(Dtype::u8, {3, 2});
    std::fill_n(mask.as<std::uint8_t>(), 6, std::uint8_t{1});
    return mask;
  }();
  expected_output.mask = &all;
  const TensorVerdict v = compare_tensor("y", expected_output, with_zeros({3, 2}, {0}));
  EXPECT_EQ(v.outcome, Outcome::not_compared);
  EXPECT_EQ(v.reason, "no position is compared");
  EXPECT_EQ(v.all.not_compared, 6);
  const Tensor one = floats({1}, {1});
  const Tensor hidden = tensor_from<std::uint8_t>(Dtype::u8, {1}, {1});
  ExpectedOutput masked = owe(one);
  masked.mask = &hidden;
  EXPECT_EQ(compare_tensor("y", masked, floats({1}, {2})).outcome, Outcome::not_compared);
}

TEST(ComparatorWalk, NamesTheShapeThatItNeeds) {
  const auto reason = [](const Tensor& actual, const Tensor& expected) {
    const TensorVerdict v = compare_tensor("y", owe(expected), actual);
    EXPECT_EQ(v.outcome, Outcome::fail);
    EXPECT_EQ(v.name, "y");
    EXPECT_EQ(v.shape, expected.shape());
    EXPECT_EQ(v.format, expected.dtype());
    return v.reason;
  };
  const Tensor x(Dtype::f32, {2, 3});
  EXPECT_EQ(reason(Tensor(Dtype::f32, {}), x), "found f32 [], needs f32 [2, 3]");
  EXPECT_EQ(reason(Tensor(Dtype::bf16, {6}), x), "found bf16 [6], needs f32 [2, 3]");
  EXPECT_EQ(reason(Tensor(Dtype::bf16, {2, 3}), x),
            "the values are right, the type is BF16 rather than F32");
}

TEST(ComparatorWalk, SaysWhatIsUnwrittenBesideWhatNobodyOwns) {
  const Tensor x = with_zeros({3, 2}, {});
  Tensor y = x;
  y.as<std::uint32_t>()[1] = 0xA5A5A5A5u;
  ExpectedOutput expected_output = owe(x);
  CompareOptions options;
  options.sentinel = std::uint8_t{0xA5};
  const std::string unwritten = "1 element in row 0 still holds A5 A5 A5 A5: never written";
  EXPECT_EQ(compare_tensor("y", expected_output, y, options).note, unwritten);
  expected_output.groups.compared_rows = 2;
  EXPECT_EQ(compare_tensor("y", expected_output, y, options).note,
            "row 2 belongs to no group and holds numbers: not compared; " + unwritten);
  options.sentinel = std::uint8_t{0};
  EXPECT_EQ(compare_tensor("y", expected_output, y, options).note,
            "row 2 belongs to no group and holds numbers: not compared");
}

struct Row {
  Dtype type;
  std::uint64_t bits;
  double value;
};

TEST(Elements, IntegersAreFiniteNumbersOfTheirRange) {
  for (const Row& row :
       {Row{Dtype::u8, 255, 255}, Row{Dtype::boolean, 1, 1}, Row{Dtype::i8, 0xFF, -1},
        Row{Dtype::u16, 0xFFFF, 65535}, Row{Dtype::i16, 0x8000, -32768},
        Row{Dtype::u32, 0xFFFFFFFF, 4294967295}, Row{Dtype::i32, 0xFFFFFFFE, -2},
        Row{Dtype::i64, ~0ull, -1}, Row{Dtype::u64, 1ull << 63, 0x1p63}, Row{Dtype::u64, 0, 0}}) {
    const Element element = ElementReader(row.type)(row.bits);
    EXPECT_EQ(element.value, row.value) << name_of(row.type);
    EXPECT_FALSE(element.nan) << name_of(row.type);
    EXPECT_FALSE(element.infinite) << name_of(row.type);
  }
}

TEST(Elements, NeighboursDifferByOneStep) {
  const auto steps = [](Dtype type, std::uint64_t below, std::uint64_t above) {
    const ElementReader read(type);
    EXPECT_LE(read(below).order, read(above).order) << name_of(type);
    return ulp_distance(read(below).order, read(above).order);
  };
  EXPECT_EQ(steps(Dtype::u64, (1ull << 63) - 1, 1ull << 63), 1u);
  EXPECT_EQ(steps(Dtype::u64, 0, 1), 1u);
  EXPECT_EQ(steps(Dtype::i64, ~0ull, 0), 1u);
  EXPECT_EQ(steps(Dtype::f64, 1ull << 63, 0), 0u);
  EXPECT_EQ(steps(Dtype::f64, (1ull << 63) + 1, 1), 2u);
  EXPECT_EQ(steps(Dtype::f32, 0x80000001, 0), 1u);
  EXPECT_EQ(steps(Dtype::bf16, 0x8001, 1), 2u);
  EXPECT_EQ(steps(Dtype::e4m3, 0x81, 0), 1u);
  EXPECT_EQ(steps(Dtype::e8m0, 127, 128), 1u);
}

TEST(Elements, InfinityAndNanAreMarked) {
  const ElementReader read(Dtype::f32);
  EXPECT_TRUE(read(0x7F800000).infinite);
  EXPECT_FALSE(read(0x7F800000).nan);
  EXPECT_TRUE(read(0x7FC00000).nan);
  EXPECT_FALSE(read(0x7F7FFFFF).infinite);
}

}  // namespace
}  // namespace mxo
