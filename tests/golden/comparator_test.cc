// The comparator: its figures by hand, its gates, and that it lets no planted fault through.
#include "golden/judge/comparator.h"

#include <bit>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "golden/judge/group_rows.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo::comparator_test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TensorVerdict compare_floats(const Tensor& expected, const Tensor& actual,
                             std::string_view gate = "bits") {
  return compare_tensor("y", owe(expected), actual, gated(gate));
}

TEST(Comparator, GivesTheFiguresOfHandComputedTensors) {
  const Tensor x = floats({1, 4}, {1, 2, 3, 4});
  const Tensor y = floats({1, 4}, {1, 2, 3, 5});
  const TensorVerdict v = compare_floats(x, y);
  EXPECT_EQ(v.outcome, Outcome::fail);
  EXPECT_EQ(v.all.elements, 4);
  EXPECT_EQ(v.all.differing, 1);
  EXPECT_EQ(v.all.max_absolute, 1);
  EXPECT_EQ(v.all.max_relative, 0.25);
  EXPECT_EQ(v.all.max_ulp, 1u << 21);  // 4 to 5, a quarter of a binade
  EXPECT_DOUBLE_EQ(v.all.sqnr, 10 * std::log10(30.0));
  EXPECT_DOUBLE_EQ(v.all.calc_diff, 1 - 2 * 34.0 / (30 + 39));
  EXPECT_DOUBLE_EQ(v.all.cosine, 34 / (std::sqrt(30.0) * std::sqrt(39.0)));
  ASSERT_EQ(v.first.size(), 1u);
  EXPECT_EQ(v.first[0].at, (std::vector<Index>{0, 3}));
  EXPECT_EQ(v.first[0].expected, 0x40800000u);
  EXPECT_EQ(v.first[0].actual, 0x40A00000u);
}

TEST(Comparator, FollowsTheSqnrRulesAtTheirEdges) {
  EXPECT_EQ(compare_floats(floats({2}, {1, 2}), floats({2}, {1, 2})).all.sqnr, kInfinity);
  EXPECT_EQ(compare_floats(floats({2}, {0, 0}), floats({2}, {0, 0})).all.sqnr, kInfinity);
  EXPECT_EQ(compare_floats(floats({2}, {0, 0}), floats({2}, {0, 1})).all.sqnr, -kInfinity);
  // The same NaN or infinity on both sides is left out of the sums.
  const TensorVerdict same =
      compare_floats(floats({4}, {kNaN, kInf, 1, 1}), floats({4}, {kNaN, kInf, 1, 2}), "sqnr=2");
  EXPECT_DOUBLE_EQ(same.all.sqnr, 10 * std::log10(2.0));
  EXPECT_EQ(same.outcome, Outcome::pass);
  EXPECT_EQ(same.all.nan_both, 1);
  // On one side only it fails, whatever the rest reaches.
  for (const float bad : {kNaN, kInf}) {
    const TensorVerdict v =
        compare_floats(floats({2}, {1, 1}), floats({2}, {1, bad}), "sqnr=1e-300");
    EXPECT_EQ(v.outcome, Outcome::fail);
    EXPECT_EQ(v.all.sqnr, -kInfinity);
  }
  EXPECT_EQ(compare_floats(floats({1}, {kInf}), floats({1}, {-kInf}), "sqnr=1e-300").outcome,
            Outcome::fail);
}

TEST(Comparator, RefusesOptionsThatLetAllPass) {
  const Tensor y = floats({2}, {1, 2});
  CompareOptions options;
  using enum Gate::Kind;
  for (const Gate& gate : {Gate{sqnr, 0, 0.0}, Gate{sqnr, 0, -1.0}, Gate{sqnr, 0, -kInfinity},
                           Gate{sqnr, 0, std::nan("")}, Gate{ulp, 1 << 23}}) {  // twice the value
    options.gate = gate;
    EXPECT_THROW(compare_tensor("y", owe(y), y, options), Error) << to_text(gate);
  }
  options = {};
  options.row_block = 0;
  EXPECT_THROW(compare_tensor("y", owe(y), y, options), Error);
}

TEST(Comparator, TakesNanAsAClassUnlessAskedOtherwise) {
  const Tensor a = tensor_from<std::uint8_t>(Dtype::u8, {2}, {0x7F, 0x10});
  const Tensor b = tensor_from<std::uint8_t>(Dtype::u8, {2}, {0xFF, 0x10});
  EXPECT_EQ(compare_tensor("c", owe(a, Dtype::e4m3), b).outcome, Outcome::pass);
  CompareOptions by_bits;
  by_bits.nan = NanCompare::by_bits;
  EXPECT_EQ(compare_tensor("c", owe(a, Dtype::e4m3), b, by_bits).outcome, Outcome::fail);
  // In e4m3fnuz both bytes are numbers, and as plain bytes they differ as well.
  EXPECT_EQ(compare_tensor("c", owe(a, Dtype::e4m3fnuz), b).outcome, Outcome::fail);
  EXPECT_EQ(compare_tensor("c", owe(a, Dtype::u8), b).outcome, Outcome::fail);
}

TEST(Comparator, RefusesNanOrInfinityOnOneSideUnderEveryGate) {
  constexpr float kMost = std::numeric_limits<float>::max();
  for (const char* gate : {"bits", "ulp=8388607", "sqnr=1e-300", "bound"}) {
    for (const auto& [a, b] : {std::pair{1.0f, kNaN}, {kMost, kInf}, {-kInf, kInf}}) {
      EXPECT_EQ(compare_floats(floats({1}, {a}), floats({1}, {b}), gate).outcome, Outcome::fail);
      EXPECT_EQ(compare_floats(floats({1}, {b}), floats({1}, {a}), gate).outcome, Outcome::fail);
    }
  }
}

TEST(Comparator, CountsUlpInStepsOfTheFormat) {
  const auto distance = [](Dtype format, std::uint8_t a, std::uint8_t b) {
    const Tensor x = tensor_from<std::uint8_t>(Dtype::u8, {1}, {a});
    const Tensor y = tensor_from<std::uint8_t>(Dtype::u8, {1}, {b});
    return compare_tensor("c", owe(x, format), y).all.max_ulp;
  };
  EXPECT_EQ(distance(Dtype::e4m3, 0x00, 0x80), 0u);  // both zeros
  EXPECT_EQ(distance(Dtype::e4m3, 0x01, 0x81), 2u);
  EXPECT_EQ(distance(Dtype::e4m3, 0x7E, 0xFE), 252u);
  EXPECT_EQ(distance(Dtype::e5m2, 0x7B, 0x7C), 1u);  // largest finite to infinity
  EXPECT_EQ(distance(Dtype::e8m0, 0x00, 0xFE), 0u);  // scales have none
  const Tensor a = floats({1}, {0x1p-149f});
  const Tensor b = floats({1}, {-0x1p-149f});
  EXPECT_EQ(compare_floats(a, b).all.max_ulp, 2u);
  EXPECT_EQ(compare_floats(a, b, "ulp=2").outcome, Outcome::pass);
  EXPECT_EQ(compare_floats(a, b, "ulp=1").outcome, Outcome::fail);
}

TEST(Comparator, HoldsScalesAloneAndWholeNumbersToBits) {
  const Tensor scales[] = {tensor_from<std::uint8_t>(Dtype::u8, {2}, {127, 100}),
                           tensor_from<std::uint8_t>(Dtype::u8, {2}, {127, 101})};
  const Tensor ends[] = {tensor_from<std::int32_t>(Dtype::i32, {2}, {1000, 1001}),
                         tensor_from<std::int32_t>(Dtype::i32, {2}, {1000, 1002})};
  for (const auto& [a, b, type] :
       {std::tuple{&scales[0], &scales[1], Dtype::e8m0}, {&ends[0], &ends[1], Dtype::i32}}) {
    for (const char* gate : {"bits", "ulp=1000", "sqnr=1e-300", "bound", "sqnr=auto"}) {
      EXPECT_EQ(compare_tensor("y", owe(*a, type), *b, gated(gate)).outcome, Outcome::fail) << gate;
      EXPECT_EQ(compare_tensor("y", owe(*a, type), *a, gated(gate)).outcome, Outcome::pass) << gate;
    }
  }
}

TEST(Comparator, KnowsNoSqnrWhereSquaresLeaveDoubles) {
  const auto sqnr = [](double want, double have) {
    const Tensor a = tensor_from<double>(Dtype::f64, {2}, {want, 0});
    const Tensor b = tensor_from<double>(Dtype::f64, {2}, {have, 0});
    return compare_tensor("y", owe(a, Dtype::f64), b, gated("sqnr=40"));
  };
  for (const double scale : {0x1p-600, 0x1p-540, 0x1p600}) {
    EXPECT_EQ(sqnr(scale, scale / 2).outcome, Outcome::fail) << scale;
    EXPECT_TRUE(std::isnan(sqnr(scale, scale / 2).all.sqnr)) << scale;
  }
  EXPECT_EQ(sqnr(0x1p600, 0x1p600 + 0x1p560).outcome, Outcome::fail);
  EXPECT_EQ(sqnr(0x1p-480, 0x1p-480 * 1.0001).outcome, Outcome::pass);
}

TEST(Comparator, TellsSignedZerosApartByBits) {
  EXPECT_EQ(compare_floats(floats({1}, {0.0f}), floats({1}, {-0.0f})).outcome, Outcome::fail);
  EXPECT_EQ(compare_floats(floats({1}, {0.0f}), floats({1}, {-0.0f}), "ulp=0").outcome,
            Outcome::pass);
}

TEST(Comparator, NamesTheWorstGroupAndNeverAveragesItAway) {
  Tensor x(Dtype::f32, {96, 64});
  for (Index i = 0; i < x.elements(); ++i) x.as<float>()[i] = 1;
  Tensor y = x;
  for (Index c = 0; c < 64; ++c) y.as<float>()[40 * 64 + c] = 0;  // one row of group 1
  ExpectedOutput expected_output = owe(x);
  expected_output.groups.ends = {40, 41, 96};
  const TensorVerdict v = compare_tensor("y", expected_output, y, gated("sqnr=10"));
  EXPECT_GT(v.all.sqnr, 10);
  EXPECT_EQ(v.outcome, Outcome::fail);
  EXPECT_EQ(v.worst_group, 1);
  ASSERT_EQ(v.groups.size(), 3u);
  EXPECT_EQ(v.groups[1].measures.elements, 64);
  EXPECT_EQ(v.groups[1].measures.sqnr, 0);
  EXPECT_EQ(v.groups[0].measures.sqnr, kInfinity);
  EXPECT_EQ(v.row_blocks[1].measures.differing, 64);
  EXPECT_EQ(v.row_blocks[0].measures.differing, 0);
  EXPECT_EQ(v.column_blocks[1].measures.differing, 32);
  EXPECT_EQ(v.heat.differing, (std::vector<Index>{0, 0, 32, 32, 0, 0}));
  EXPECT_EQ(v.histogram[0], 95 * 64);
  expected_output.groups.ends = {40, 40, 41, 96};  // an empty group is no failure
  EXPECT_EQ(compare_tensor("y", expected_output, y, gated("sqnr=10")).worst_group, 2);
}

TEST(Comparator, SkipsAndNamesWhatNoGroupOwns) {
  struct Row {
    std::vector<Index> shape;
    std::vector<float> actual;  // 1, 2, 3, ... are expected
    Index rows, columns;        // that are compared
    Index compared;
    const char* what;
  };
  const Row table[] = {
      {{3, 2}, {1, 2, 3, 4, kNaN, 0}, 2, -1, 4, "row 2 belongs to no group and holds NaN"},
      {{2, 1}, {1, 0}, 1, -1, 1, "row 1 belongs to no group and holds zeros"},
      {{2, 1}, {1, 3}, 1, -1, 1, "row 1 belongs to no group and holds numbers"},
      {{2, 1}, {0, 1}, 0, -1, 0, "rows 0 to 1 belong to no group and hold numbers"},
      {{1}, {1}, 1, -1, 1, ""},
      {{3, 0}, {}, 1, -1, 0, ""},
      {{2, 3}, {1, 2, 3, 4, 5, 6}, -1, 3, 6, ""},
      {{2, 3}, {1, 2, 3, 4, 5, 6}, -1, 2, 4, "column 2 belongs to no group and holds numbers"},
      {{2, 3}, {1, 2, 0, 4, 5, 0}, -1, 2, 4, "column 2 belongs to no group and holds zeros"},
      {{2, 3}, {1, 2, 5, 4, 5, 0}, -1, 2, 4, "column 2 belongs to no group and holds numbers"},
      {{2, 3}, {3, 2, 1, 1, 1, 1}, -1, 0, 0, "columns 0 to 2 belong to no group and hold numbers"},
  };
  for (const Row& row : table) {
    Tensor x(Dtype::f32, row.shape), y(Dtype::f32, row.shape);
    std::iota(x.as<float>(), x.as<float>() + x.elements(), 1.0f);
    std::copy(row.actual.begin(), row.actual.end(), y.as<float>());
    ExpectedOutput expected_output = owe(x);
    expected_output.groups.compared_rows = row.rows;
    expected_output.groups.compared_columns = row.columns;
    const TensorVerdict v = compare_tensor("y", expected_output, y);
    const std::string what = row.what;
    EXPECT_EQ(v.note, what.empty() ? "" : what + ": not compared");
    EXPECT_EQ(v.outcome, row.compared == 0 ? Outcome::not_compared : Outcome::pass);
    EXPECT_EQ(v.all.elements, row.compared) << what;
    EXPECT_EQ(v.all.not_compared, x.elements() - row.compared) << what;
  }
}

TEST(Comparator, SkipsWhatAMaskHides) {
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor y = floats({3, 2}, {1, 2, 3, 4, kNaN, 0});
  ExpectedOutput masked = owe(x);
  for (const bool all : {false, true}) {
    Tensor mask(Dtype::u8, {3, 2});
    for (Index i = all ? 0 : 4; i < (all ? 6 : 5); ++i) mask.data()[i] = std::byte{1};
    masked.mask = &mask;
    const TensorVerdict v = compare_tensor("y", masked, y);
    EXPECT_EQ(v.outcome, all ? Outcome::not_compared : Outcome::fail);
    EXPECT_EQ(v.all.differing, all ? 0 : 1);
    EXPECT_EQ(v.all.not_compared, all ? 6 : 1);
    EXPECT_EQ(v.reason, all ? "no position is compared" : "1 of 5 refused");
  }
}

TEST(Comparator, NamesElementsThatStillHoldTheSentinel) {
  const auto word = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const float left = word(0xA5A5A5A5u);
  const Tensor x = floats({3, 2}, {1, left, 3, 4, 5, 6});
  const Tensor y = floats({3, 2}, {1, left, 3, left, left, 7});
  CompareOptions options;
  options.sentinel = 0xA5;
  EXPECT_EQ(compare_tensor("y", owe(x), y, options).note,
            "2 elements in rows 1 to 2 still hold A5 A5 A5 A5: never written");
  options.sentinel = 0x5A;
  EXPECT_EQ(compare_tensor("y", owe(x), y, options).note, "");
  const Tensor bytes = tensor_from<std::uint8_t>(Dtype::u8, {2}, {1, 2});
  const Tensor stale = tensor_from<std::uint8_t>(Dtype::u8, {2}, {1, 0x5A});
  EXPECT_EQ(compare_tensor("c", owe(bytes, Dtype::e4m3), stale, options).note,
            "1 element in row 0 still holds 5A: never written");
}

TEST(GroupRows, AreReadOfRisingI32OrI64Alone) {
  using Ends = std::vector<Index>;
  EXPECT_EQ(group_ends_of(tensor_from<std::int32_t>(Dtype::i32, {3}, {0, 2, 2})), (Ends{0, 2, 2}));
  EXPECT_EQ(group_ends_of(tensor_from<std::int64_t>(Dtype::i64, {2}, {1, 3})), (Ends{1, 3}));
  EXPECT_EQ(group_ends_of(tensor_from<std::int32_t>(Dtype::i32, {2}, {2, 1})), Ends{});
  EXPECT_EQ(group_ends_of(tensor_from<std::int32_t>(Dtype::i32, {2}, {-1, 1})), Ends{});
  EXPECT_EQ(group_ends_of(tensor_from<std::int32_t>(Dtype::i32, {2, 1}, {1, 2})), Ends{});
  EXPECT_EQ(group_ends_of(floats({2}, {1, 2})), Ends{});
}

TEST(GroupRows, AreThoseOfTheOutputsThatHaveThem) {
  struct Row {
    const char* op;
    const char* output;
    std::string_view set;  // name=value, or nothing
    std::vector<Index> shape;
    Index rows, columns;
  };
  NamedTensors inputs{{"group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {1, 2})}};
  const Row table[] = {
      {"grouped_linear", "dx", "", {3, 4}, 2, -1},
      {"grouped_linear", "dw", "", {3, 4}, -1, -1},
      {"quantize", "codes", "transpose=false", {3, 4}, 2, -1},
      {"quantize", "codes", "transpose=true", {3, 4}, -1, 2},
      {"unswizzle_scales", "scales", "layout=k_groups", {3, 4}, -1, 2},
      {"unswizzle_scales", "scales", "layout=blocked", {3, 4}, 2, -1},
      {"scaling_aware_transpose", "codes", "", {3, 4}, -1, 2},
      {"scaling_aware_transpose", "codes", "", {4, 2}, -1, 2},
      {"scaling_aware_transpose", "codes", "", {4, 1}, -1, -1},  // ends past the last are none
      {"dequantize", "x", "", {2, 4}, 2, -1},
      {"dequantize", "x", "", {1, 4}, -1, -1},
      {"dequantize", "x", "", {3}, -1, -1},
      {"permute", "y", "", {3, 4}, -1, -1}};
  for (const Row& row : table) {
    Parameters set;
    if (!row.set.empty()) set.set(row.set);
    const Tensor tensor(Dtype::u8, row.shape);
    const Groups groups = groups_of(row.op, row.output, inputs, set, tensor);
    SCOPED_TRACE(std::string(row.op) + " " + row.output + " " + std::string(row.set));
    EXPECT_EQ(groups.compared_rows, row.rows);
    EXPECT_EQ(groups.compared_columns, row.columns);
    EXPECT_EQ(groups.ends.size(), row.rows == 2 ? 2u : 0u);
    EXPECT_EQ(groups_of(row.op, row.output, {}, set, tensor).compared_rows, -1);
  }
}

TEST(Comparator, AdmitsSetsAndIntervals) {
  const Tensor x = tensor_from<std::uint8_t>(Dtype::u8, {3}, {1, 2, 3});
  ExpectedOutput expected_output = owe(x, Dtype::u8);
  expected_output.expectation.kind = Expectation::Kind::set;
  expected_output.expectation.any_of = {{1, 9}};
  const auto against = [&](std::initializer_list<std::uint8_t> values) {
    return compare_tensor("y", expected_output, tensor_from<std::uint8_t>(Dtype::u8, {3}, values))
        .outcome;
  };
  EXPECT_EQ(against({9, 2, 3}), Outcome::pass);
  EXPECT_EQ(against({1, 9, 3}), Outcome::fail);
  EXPECT_EQ(against({2, 2, 3}), Outcome::fail);

  const Tensor lo = floats({2}, {1, kNaN});
  const Tensor hi = floats({2}, {2, kNaN});
  const Tensor mid = floats({2}, {1.5f, kNaN});
  ExpectedOutput interval = owe(mid);
  interval.expectation.kind = Expectation::Kind::interval;
  interval.lo = &lo;
  interval.hi = &hi;
  EXPECT_EQ(compare_tensor("y", interval, floats({2}, {2, kNaN})).outcome, Outcome::pass);
  EXPECT_EQ(compare_tensor("y", interval, floats({2}, {1, kNaN})).outcome, Outcome::pass);
  EXPECT_EQ(compare_tensor("y", interval, floats({2}, {0.5f, kNaN})).outcome, Outcome::fail);
  EXPECT_EQ(compare_tensor("y", interval, floats({2}, {2.5f, kNaN})).outcome, Outcome::fail);
  EXPECT_EQ(compare_tensor("y", interval, floats({2}, {kNaN, kNaN})).outcome, Outcome::fail);
  EXPECT_EQ(compare_tensor("y", interval, floats({2}, {2.5f, kNaN}), gated("ulp=8388607")).outcome,
            Outcome::fail);
}

TEST(Comparator, RefusesNanInAnIntervalWithANumberForAnEnd) {
  const Tensor lo = floats({2}, {kNaN, 1});
  const Tensor hi = floats({2}, {2, kNaN});
  ExpectedOutput interval = owe(hi);
  interval.expectation.kind = Expectation::Kind::interval;
  interval.lo = &lo;
  interval.hi = &hi;
  EXPECT_EQ(compare_tensor("y", interval, floats({2}, {kNaN, kNaN})).all.violating, 2);
}

TEST(Comparator, CountsNanOfOneSideApartFromNanOfBoth) {
  const TensorVerdict v =
      compare_floats(floats({4}, {kNaN, kNaN, 1, 1}), floats({4}, {kNaN, 1, kNaN, 1}));
  EXPECT_EQ(v.all.nan_both, 1);
  EXPECT_EQ(v.all.nan_one_sided, 2);
  EXPECT_EQ(v.all.violating, 2);
  EXPECT_EQ(v.all.sqnr, -kInfinity);
}

TEST(Comparator, FailsOtherShapesAndSizesWithAReason) {
  const Tensor x = floats({2, 3}, {});
  const TensorVerdict v = compare_floats(x, floats({3, 2}, {}));
  EXPECT_EQ(v.outcome, Outcome::fail);
  EXPECT_EQ(v.reason, "found f32 [3, 2], needs f32 [2, 3]");
  EXPECT_EQ(compare_floats(x, Tensor(Dtype::bf16, {2, 3})).outcome, Outcome::fail);
  EXPECT_EQ(compare_floats(Tensor(Dtype::f32, {0, 4}), Tensor(Dtype::f32, {0, 4})).outcome,
            Outcome::not_compared);
  EXPECT_EQ(compare_floats(Tensor(Dtype::f32, {}), Tensor(Dtype::f32, {})).outcome, Outcome::pass);
  const Tensor wide(Dtype::f32, {0, Index{1} << 30});  // costs nothing: there is nothing in it
  EXPECT_TRUE(compare_floats(wide, wide).column_blocks.empty());
}

TEST(Comparator, SeesEverySingleByteChangedAtEveryPlace) {
  // A comparator that passes everything, or skips a corner, fails here.
  Tensor x(Dtype::u8, {33, 65});
  for (Index i = 0; i < x.elements(); ++i)
    x.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i % 120);
  for (Index i = 0; i < x.elements(); ++i) {
    Tensor y = x;
    y.as<std::uint8_t>()[i] ^= 1;
    const TensorVerdict v = compare_tensor("c", owe(x, Dtype::e4m3), y);
    ASSERT_EQ(v.outcome, Outcome::fail) << i;
    ASSERT_EQ(v.all.differing, 1) << i;
    ASSERT_EQ(v.row_blocks[static_cast<std::size_t>(i / 65 / 32)].measures.differing, 1) << i;
    ASSERT_EQ(v.column_blocks[static_cast<std::size_t>(i % 65 / 32)].measures.differing, 1) << i;
  }
}

}  // namespace
}  // namespace mxo::comparator_test
