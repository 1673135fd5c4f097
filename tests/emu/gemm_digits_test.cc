// Products in digits against the definition: their tile instructions spelt out where there is
// AVX-512, and themselves where there is AMX.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <ostream>
#include <random>

#include "emu/backends.h"
#include "emu/cpu/gemm/digits.h"
#include "emu/cpu/gemm/multiply.h"
#include "emu/reference/reference_backend.h"
#include "formats/tensor.h"
#include "ops/moe_steps.h"
#include "tests/support/gemm_cases.h"

namespace mxo {
namespace {

using test::Fill;
using test::GemmCase;
using test::GemmSpec;
using test::Pass;

/// The definition but for its products, which a table of kernels computes.
class TableBackend : public ReferenceBackend {
 public:
  explicit TableBackend(const cpu::Kernels& kernels) : kernels_(kernels) {}

 protected:
  using ReferenceBackend::run;
  void run(const GroupedMatmul& op) override { cpu::multiply(op, kernels_, 2); }
  void run(const GroupedMatmulWgrad& op) override { cpu::multiply(op, kernels_, 2); }

 private:
  const cpu::Kernels& kernels_;
};

struct Table {
  const char* name;
  cpu::Isa isa;  ///< what it wants
  const cpu::Kernels& (*kernels)();
};

/// A matrix of bytes, its rows become columns.
Tensor turned(const Tensor& x) {
  Tensor t(x.dtype(), {x.extent(1), x.extent(0)});
  for (Index i = 0; i < x.extent(0); ++i) {
    for (Index j = 0; j < x.extent(1); ++j) {
      t.as<std::uint8_t>()[j * x.extent(0) + i] = x.as<std::uint8_t>()[i * x.extent(1) + j];
    }
  }
  return t;
}

class GemmDigits : public testing::TestWithParam<Table> {
 protected:
  void SetUp() override {
    if (!cpu::machine_has(GetParam().isa)) GTEST_SKIP() << "not on this machine";
    table_ = std::make_unique<TableBackend>(GetParam().kernels());
  }
  void expect_same_wgrad(const Tensor& dy, const Tensor& x, std::vector<std::int32_t> group_ends) {
    const auto groups = static_cast<Index>(group_ends.size());
    Tensor ends(Dtype::i32, {groups});
    std::copy(group_ends.begin(), group_ends.end(), ends.as<std::int32_t>());
    Tensor found(Dtype::bf16, {groups, dy.extent(1), x.extent(1)});
    std::memset(found.data(), 0xA5, found.bytes());  // nothing that a result may leave
    Tensor expected = found;
    GroupedMatmulWgrad op;
    op.dy = dy.operand();
    op.x = x.operand();
    op.group_ends = ends.operand();
    op.scaling = Scaling::none;
    op.dw = found.result();
    grouped_matmul_wgrad(*table_, op);
    op.dw = expected.result();
    grouped_matmul_wgrad(*reference_, op);
    Index differing = 0;
    for (Index i = 0; i < found.elements(); ++i) {
      differing += found.as<std::uint16_t>()[i] != expected.as<std::uint16_t>()[i] ? 1 : 0;
    }
    EXPECT_EQ(differing, 0) << "of " << found.elements();
  }

  static void expect_same_bytes(const Tensor& found, const Tensor& expected, const Tensor& a,
                                const Tensor& b) {
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.bytes()), 0)
        << name_of(a.dtype()) << " x " << name_of(b.dtype()) << ", depth " << a.extent(1);
  }
  void expect_same_codes(const Tensor& x, const Tensor& x_scales, const Tensor& w,
                         const Tensor& w_scales) {
    Tensor ends(Dtype::i32, {1});
    *ends.as<std::int32_t>() = static_cast<std::int32_t>(x.extent(0));
    Tensor found(Dtype::bf16, {x.extent(0), w.extent(0)});
    Tensor expected = found;
    GroupedMatmul op;
    op.x = x.operand();
    op.x_scales = x_scales.operand();
    op.w = as_one_group(w.operand());
    op.w_scales = as_one_group(w_scales.operand());
    op.group_ends = ends.operand();
    op.y = found.result();
    grouped_matmul(*table_, op);
    op.y = expected.result();
    grouped_matmul(*reference_, op);
    expect_same_bytes(found, expected, x, w);
  }

  /// The same product as a weight gradient of lines that lie across memory.
  void expect_same_codes_across(const Tensor& dy, const Tensor& dy_scales, const Tensor& x,
                                const Tensor& x_scales) {
    const Tensor across[] = {turned(dy), turned(dy_scales), turned(x), turned(x_scales)};
    Tensor ends(Dtype::i32, {1});
    *ends.as<std::int32_t>() = static_cast<std::int32_t>(dy.extent(1));
    Tensor found(Dtype::bf16, {1, dy.extent(0), x.extent(0)});
    Tensor expected = found;
    GroupedMatmulWgrad op;
    op.dy = across[0].operand();
    op.dy_scales = across[1].operand();
    op.x = across[2].operand();
    op.x_scales = across[3].operand();
    op.group_ends = ends.operand();
    op.dw = found.result();
    grouped_matmul_wgrad(*table_, op);
    op.dw = expected.result();
    grouped_matmul_wgrad(*reference_, op);
    expect_same_bytes(found, expected, dy, x);
  }

  std::unique_ptr<Backend> table_;
  std::unique_ptr<Backend> reference_ = make_reference_backend();
};

TEST_P(GemmDigits, GiveTheBytesOfTheDefinitionOnHostileProducts) {
  for (GemmSpec spec : test::hostile_specs(1)) {
    if (spec.scaling != Scaling::none && spec.scaling != Scaling::mx) continue;
    spec.out = Dtype::bf16;
    for (const Fill fill : test::kFills) {
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
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint16_t>()[i] = encode<kBF16>(static_cast<float>(draw())).bits;
  }
  return t;
}

TEST_P(GemmDigits, LeaveNoRoundingOpenWhateverTheSpreadOfALine) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  const std::function<double()> draws[] = {
      [&] { return normal(random); },
      [&] { return normal(random) * normal(random) * normal(random); },  // some rests
      [&] { return normal(random) * std::exp2(-2 * static_cast<int>(random() % 12)); },  // many
      [&] {
        return normal(random) * std::exp2(60 - static_cast<int>(random() % 120));
      },                                          // too many
      [&] { return normal(random) * 0x1p-100; },  // units out of range
      [&] { return static_cast<double>(static_cast<int>(random() % 5) - 2); },  // zeros and ties
      [&] { return random() % 40 == 0 ? 0x1.FEp0 : 0.0; },
  };
  for (const auto& a : draws) {
    for (const auto& b : draws) {
      expect_same_wgrad(drawn(200, 50, a), drawn(200, 70, b), {70, 70, 200});
    }
  }
}

TEST_P(GemmDigits, CountRestsThatMeetTheLargestElementsOfTheOtherLine) {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  constexpr Index kRows = 200;
  Index at = 0;  // twelve rests of 7/8 of a unit below one element of 2^22
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
  for (const Index rows : {Index{769}, Index{1500}, Index{2100}}) {
    expect_same_wgrad(drawn(rows, 20, draw), drawn(rows, 40, draw),
                      {static_cast<std::int32_t>(rows)});
  }
  // The longest sums that int32 holds, and one more, which goes another way.
  for (const Index rows : {cpu::kMostDigitDepth, cpu::kMostDigitDepth + 1}) {
    expect_same_wgrad(drawn(rows, 3, draw), drawn(rows, 35, draw),
                      {static_cast<std::int32_t>(rows)});
  }
}

/// Codes under e8m0 scales, lines of one span.
struct Codes {
  Tensor codes, scales;
  Codes(Dtype dtype, Index lines, Index depth, int centre, int spread, std::mt19937& random,
        const std::function<double()>& draw)
      : codes(dtype, {lines, depth}), scales(Dtype::e8m0, {lines, depth / kMxBlock}) {
    const bool wide = dtype == Dtype::e5m2 || dtype == Dtype::e5m2fnuz;
    const double range = wide ? 128 : dtype == Dtype::e4m3fnuz ? 0.5 : 1;
    visit_minifloat8(dtype, [&](auto tag) {
      using Code = typename decltype(tag)::type;
      for (Index i = 0; i < codes.elements(); ++i) {
        codes.as<std::uint8_t>()[i] =
            encode<Code::spec>(static_cast<float>(draw() * range), Overflow::saturate).bits;
      }
    });
    for (Index i = 0; i < scales.elements(); ++i) {
      const int above = static_cast<int>(random() % static_cast<unsigned>(spread + 1));
      scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(centre + above);
    }
  }
};

TEST_P(GemmDigits, RoundSumsOfCodesWhoseDepthIsOneSpan) {
  std::mt19937 random(6);
  std::normal_distribution<double> normal;
  const std::function<double()> draws[] = {
      [&] { return 145 * normal(random); },  // as quantised blocks are
      [&] { return 60 * normal(random) * normal(random) * normal(random); },    // more rests
      [&] { return static_cast<double>(static_cast<int>(random() % 5) - 2); },  // zeros and ties
      [&] { return random() % 64 == 0   ? 448.0
                   : random() % 16 == 0 ? 0x1.8p-9
                                        : 0.0; },
      [&] { return random() % 2048 == 0 ? NAN : 100 * normal(random); },
  };
  const Dtype dtypes[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};
  const Index depths[] = {32, 96, 160, 480, 512, 544};
  int turn = 0;
  for (const auto& draw : draws) {
    for (const int spread : {0, 1, 5, 6}) {
      for (const int centre : {2, 70, 77, 127, 150, 170, 230}) {  // units within and out of range
        const Index depth = depths[turn % 6];
        const Codes x(dtypes[turn % 4], 20, depth, centre, spread, random, draw);
        const Codes w(dtypes[turn / 4 % 4], 36, depth, 124 + turn % 5, spread / 2, random, draw);
        if (turn / 3 % 2 == 0) {
          expect_same_codes(x.codes, x.scales, w.codes, w.scales);
        } else {
          expect_same_codes_across(x.codes, x.scales, w.codes, w.scales);
        }
        ++turn;
      }
    }
  }
}

TEST_P(GemmDigits, RoundSumsBesideATieByWhatLiesFarBelowTheirLastBitInF32) {
  // 2^16 + odd 2^9 + 2^8 + tail 2^-12: a tie of bf16 but for a tail that f32 would lose.
  std::mt19937 random(7);
  Index at = 0;
  const Codes x(Dtype::e4m3, 24, 32, 127, 0, random, [&] {
    const Index row = at / 32;
    const double sign = row % 2 == 0 ? 1 : -1;
    const double odd = row / 2 % 2 == 0 ? 0 : 1;
    const double tail = static_cast<double>(row / 4 % 3 - 1) * 0x1p-6;
    const double elements[] = {sign * 256, sign * 16, sign * 32 * odd, tail, 0.0};
    return elements[std::min<Index>(at++ % 32, 4)];
  });
  at = 0;
  const Codes w(Dtype::e4m3, 40, 32, 127, 0, random, [&] {
    const double tail = at / 32 % 2 == 0 ? 0x1p-6 : -0x1p-6;
    const double elements[] = {256.0, 16.0, 16.0, tail, 0.0};
    return elements[std::min<Index>(at++ % 32, 4)];
  });
  expect_same_codes(x.codes, x.scales, w.codes, w.scales);
}

TEST_P(GemmDigits, RoundLongSumsOfLowBytesThatF32DoesNotHold) {
  // Integers below 256 of 2^-6 each: products add up to 2^24 + 2^16, a tie of bf16, and one more.
  std::mt19937 random(8);
  const auto factor = [](Index place) {
    return place < 292 ? 240 : place == 292 ? 96 : place == 293 ? 32 : place == 294 ? 1 : 0;
  };
  for (const Index depth : {Index{320}, Index{512}}) {
    Index at = 0;
    const Codes x(Dtype::e4m3, 24, depth, 127, 0, random, [&] {
      const Index line = at / depth;
      const Index place = (at++ + line * 37) % depth;
      return factor(place) * (line % 3 == 1 ? -0x1p-6 : 0x1p-6);
    });
    at = 0;
    const Codes w(Dtype::e4m3, 40, depth, 127, 0, random, [&] {
      const Index line = at / depth;
      const Index place = (at++ + line % 24 * 37) % depth;
      const int product = place == 292 ? 240 : place == 293 ? 16 : factor(place);
      return product * (place == 294 && line % 2 == 1 ? -0x1p-6 : 0x1p-6);
    });
    expect_same_codes(x.codes, x.scales, w.codes, w.scales);
  }
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

void PrintTo(const Table& table, std::ostream* out) { *out << table.name; }
std::string name_of_table(const testing::TestParamInfo<Table>& row) { return row.param.name; }
INSTANTIATE_TEST_SUITE_P(Tables, GemmDigits,
                         testing::Values(Table{"amx_layout", cpu::Isa::avx512,
                                               cpu::amx_layout_kernels},
                                         Table{"amx", cpu::Isa::amx, cpu::amx_kernels}),
                         name_of_table);

TEST(DigitEncoding, KeepsEveryElementAsAnIntegerOfThreeSignedBytesAndMarksWhatIsLeft) {
  if (!cpu::machine_has(cpu::Isa::avx512)) GTEST_SKIP() << "digits want AVX-512";
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    alignas(64) float x[cpu::kRun];
    const int exponent = static_cast<int>(random() % 5) - 2;
    for (float& value : x) {
      const float mantissa = static_cast<float>(static_cast<int>(random() % 511) - 255);
      value = std::ldexp(mantissa, static_cast<int>(random() % 24) - 11);
    }
    std::int8_t digits[cpu::kDigits][cpu::kRun];
    cpu::DigitTally tally;
    cpu::encode_digits(cpu::kChunks, x, exponent, {digits[0], cpu::kRun, cpu::kChunk}, tally);
    double squares = 0;
    for (int c = 0; c < cpu::kRun; ++c) {
      const double scaled = std::ldexp(static_cast<double>(x[c]), exponent);
      const int at = c / cpu::kChunk * cpu::kChunk + cpu::digit_place(c % cpu::kChunk);
      EXPECT_EQ(65536 * digits[2][at] + 256 * digits[1][at] + digits[0][at], std::trunc(scaled));
      EXPECT_EQ((tally.rest[c / 64] >> c % 64 & 1u) != 0, scaled != std::trunc(scaled));
      squares += scaled * scaled;
    }
    double found = 0;
    for (const float s : tally.squares) found += static_cast<double>(s);
    EXPECT_GE(found * (1 + 0x1p-10), squares);
  }
}

}  // namespace
}  // namespace mxo
