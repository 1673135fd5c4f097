// Products in slices against the definition: their tile instructions spelt out where there is
// AVX-512, and themselves where there is AMX.

#include "tests/support/gemm_cases.h"
#include "tests/support/tile_tables.h"

namespace mxo::test::gemm_three_slices_test {
namespace {

class GemmDigits : public TileTables {};

TEST_P(GemmDigits, GiveTheBytesOfTheDefinitionOnHostileProducts) {
  for (GemmSpec spec : hostile_specs(1)) {
    if (spec.scales != Scales::none && spec.scales != Scales::mx) continue;
    spec.out = Dtype::bf16;
    for (const CaseFill fill : kFills) {
      spec.fill = fill;
      GemmCase one(spec);
      GemmCase other(spec);
      EXPECT_TRUE(one.run(*table_) == other.run(*reference_)) << describe(spec);
    }
  }
}

/// bf16 of whatever `draw` returns.
Tensor drawn(Index rows, Index columns, const std::function<double()>& draw) {
  Tensor t(Dtype::bf16, {rows, columns});
  for (Index i = 0; i < t.elements(); ++i)
    t.as<std::uint16_t>()[i] = encode<kBF16>(static_cast<float>(draw())).bits;
  return t;
}

TEST_P(GemmDigits, LeaveNoRoundingOpenWhateverTheSpreadOfAKVector) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const std::function<double()> draws[] = {
      [&] { return normal(random); },
      [&] { return normal(random) * normal(random) * normal(random); },  // some residuals
      [&] { return normal(random) * std::exp2(-2 * static_cast<int>(random() % 12)); },  // many
      [&] {
        return normal(random) * std::exp2(60 - static_cast<int>(random() % 120));
      },                                          // too many
      [&] { return normal(random) * 0x1p-100; },  // units out of range
      [&] { return static_cast<double>(static_cast<int>(random() % 5) - 2); },  // zeros and ties
      [&] { return random() % 40 == 0 ? 0x1.FEp0 : 0.0; },
  };
  for (const auto& a : draws) {
    for (const auto& b : draws)
      expect_same_wgrad(drawn(200, 50, a), drawn(200, 70, b), {70, 70, 200});
  }
}

TEST_P(GemmDigits, CountResidualsThatMeetTheLargestElementsOfTheOtherKVector) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  constexpr Index kRows = 200;
  Index at = 0;  // twelve residuals of 7/8 of a unit below one element of 2^22
  const Tensor few = drawn(kRows, 48, [&] {
    const Index row = at++ / 48;
    return row == 0 ? 1.0 : row <= 12 ? 0x1.Cp-23 : 0.0;
  });
  at = 0;
  const Tensor large = drawn(kRows, 64, [&] {
    const Index row = at++ / 64;
    return row == 0 ? normal(random) * 0x1p-8 : 1.0;
  });
  expect_same_wgrad(few, large, {kRows});
  expect_same_wgrad(large, few, {kRows});
}

TEST_P(GemmDigits, SumDepthsOfManyChunks) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(random) * normal(random); };
  for (const Index rows : {Index{769}, Index{1500}, Index{2100}})
    expect_same_wgrad(drawn(rows, 20, draw), drawn(rows, 40, draw),
                      {static_cast<std::int32_t>(rows)});
  // The longest sums that int32 holds, and one more, which goes another way.
  for (const Index rows : {cpu::kMaxThreeSliceK, cpu::kMaxThreeSliceK + 1})
    expect_same_wgrad(drawn(rows, 3, draw), drawn(rows, 35, draw),
                      {static_cast<std::int32_t>(rows)});
}

TEST_P(GemmDigits, StreamRowsOfALargeResult) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(random); };
  expect_same_wgrad(drawn(3, 1100, draw), drawn(3, 2048, draw), {3});
}

TEST_P(GemmDigits, WriteZerosForGroupsWithoutRowsLargeOrNarrow) {
  std::mt19937 random(9);
  std::normal_distribution<double> normal;
  const auto draw = [&] { return normal(random); };
  expect_same_wgrad(drawn(2, 1030, draw), drawn(2, 2080, draw), {0, 2, 2});
  expect_same_wgrad(drawn(2, 5, draw), drawn(2, 1027, draw), {0, 0, 2, 2});
}

INSTANTIATE_TEST_SUITE_P(Tables, GemmDigits, tile_tables(), name_of_table);

TEST(SliceEncoding, KeepsEveryElementAsAnIntegerOfThreeSignedBytesAndMarksWhatIsLeft) {
  if (!cpu::machine_has(cpu::Isa::avx512)) GTEST_SKIP() << "digits want AVX-512";
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    alignas(64) float x[cpu::kRun];
    const int exponent = static_cast<int>(random() % 5) - 2;
    for (float& value : x) {
      const float mantissa = static_cast<float>(static_cast<int>(random() % 511) - 255);
      value = std::ldexp(mantissa, static_cast<int>(random() % 24) - 11);
    }
    std::int8_t three_slices[cpu::kSlices][cpu::kRun];
    cpu::ThreeSliceTally tally;
    cpu::avx512_encode_three_slices(cpu::kChunks, x, exponent,
                                    {three_slices[0], cpu::kRun, cpu::kChunk}, tally);
    double squares = 0;
    for (int c = 0; c < cpu::kRun; ++c) {
      const double scaled = std::ldexp(static_cast<double>(x[c]), exponent);
      const int at = c / cpu::kChunk * cpu::kChunk + cpu::slice_place(c % cpu::kChunk);
      EXPECT_EQ(65536 * three_slices[2][at] + 256 * three_slices[1][at] + three_slices[0][at],
                std::trunc(scaled));
      EXPECT_EQ((tally.residual[c / 64] >> c % 64 & 1u) != 0, scaled != std::trunc(scaled));
      squares += scaled * scaled;
    }
    double found = 0;
    for (const float s : tally.squares) found += static_cast<double>(s);
    EXPECT_GE(found * (1 + 0x1p-10), squares);
  }
}

}  // namespace
}  // namespace mxo::test::gemm_three_slices_test
