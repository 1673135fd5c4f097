// What keeps a chunk exact in the vector kernels of matrix-unit models, held by whole numbers
// (docs/machine_models.md).
#include <gtest/gtest.h>

#include <random>

#include "emu/cpu/models/model_pack.h"

namespace mxo::cpu::model_bounds_test {
namespace {

using Random = std::mt19937_64;

int below(Random& random, int n) {
  return static_cast<int>(random() % static_cast<std::uint64_t>(n));
}

/// One chunk: K-vectors of `bits` significant bits, [-14, 15] their exponents.
template <typename Real>
struct Operands {
  static constexpr int kColumns = ModelLayout<Real>::columns;
  std::vector<ModelValue<Real>> row;
  std::vector<ModelValue<Real>> columns[kColumns];
  std::vector<float> c = std::vector<float>(kColumns);
};

template <typename Real>
ModelValue<Real> number(int significand, int bits, int exponent, bool negative) {
  const double value = std::ldexp(negative ? -significand : significand, exponent - bits + 1);
  return {static_cast<Real>(value), static_cast<typename ModelLayout<Real>::Exponent>(exponent),
          false};
}

/// `full`: of one sign, near the greatest that a chunk can add, and last what ends in single steps.
template <typename Real>
Operands<Real> drawn(Random& random, const Accumulation& how, int bits, bool full) {
  Operands<Real> x;
  const int top = (1 << bits) - 1;
  const int spread = std::min(how.bits / 2 + 2, 14);
  for (int k = 0; k < how.chunk; ++k) {
    const bool last = k >= how.chunk - how.chunk / 16 - 1;
    const bool high = full && !last;
    const auto one = [&](int less, bool negative) {
      const int significand =
          high ? top - below(random, 2) : (top >> 1) + 1 + below(random, 1 + top / 2);
      return number<Real>(significand, bits, high ? 0 : -below(random, less + 1), negative);
    };
    x.row.push_back(one(spread, !full && random() % 2 == 0));
    for (int j = 0; j < x.kColumns; ++j)
      x.columns[j].push_back(one(spread, full ? j % 2 != 0 : random() % 2 == 0));
  }
  for (int j = 0; j < x.kColumns; ++j) {
    const float magnitude =
        full ? 0x1.fffffep0f
             : std::ldexp(1.0f + static_cast<float>(below(random, 1 << 23)) * 0x1p-23f,
                          -below(random, 30));
    x.c[static_cast<std::size_t>(j)] = j % 2 != 0 ? -magnitude : magnitude;
  }
  return x;
}

/// The sum of column j: steps of u added one by one, then the one rounding.
struct Steps {
  std::int64_t plus = 0;
  std::int64_t minus = 0;
  float result = 0;
};
template <typename Real>
Steps in_steps(const Operands<Real>& x, int j, const Accumulation& how) {
  const auto& column = x.columns[j];
  const float c = x.c[static_cast<std::size_t>(j)];
  int largest =
      std::max(how.exponent_floor, c == 0 ? how.exponent_floor : std::max(std::ilogb(c), -126));
  for (std::size_t k = 0; k < column.size(); ++k)
    largest = std::max(largest, x.row[k].exponent + column[k].exponent);
  Steps steps;
  const auto add = [&](double term) {
    const auto cut = static_cast<std::int64_t>(std::ldexp(term, how.bits - largest));
    (cut < 0 ? steps.minus : steps.plus) += cut;
  };
  add(static_cast<double>(c));
  for (std::size_t k = 0; k < column.size(); ++k)
    add(static_cast<double>(x.row[k].value) * static_cast<double>(column[k].value));
  const double sum = std::ldexp(static_cast<double>(steps.plus + steps.minus), largest - how.bits);
  auto rounded = static_cast<float>(sum);
  if (how.rounding == StepRounding::toward_zero) {
    if (std::fabs(static_cast<double>(rounded)) > std::fabs(sum))
      rounded = std::nextafter(rounded, 0.0f);
    rounded = bit_cast<float>(bit_cast<std::uint32_t>(rounded) & ~0u << (23 - how.mantissa));
  }
  steps.result = rounded == 0 ? 0.0f : rounded;
  return steps;
}

template <typename Real>
void hold(const ModelKernels& kernels, void (*kernel)(const ModelChunk<Real>&) noexcept,
          const Accumulation& how, Operands<Real> x, std::int64_t limit, double& most) {
  constexpr int kColumns = ModelLayout<Real>::columns;
  const auto terms = static_cast<std::size_t>(how.chunk);
  std::vector<Steps> want;
  for (int j = 0; j < kColumns; ++j) {
    want.push_back(in_steps(x, j, how));
    const std::int64_t furthest = std::max(want.back().plus, -want.back().minus);
    ASSERT_LE(furthest, limit) << "chunk " << how.chunk << ", bits " << how.bits;
    most = std::max(most, static_cast<double>(furthest) / static_cast<double>(limit));
  }
  std::vector<ModelElement<Real>> row(terms);
  pack_row<Real>(x.row, row.data());
  CacheLines<Real> packed(terms * 2 * kColumns);
  CacheLines<typename ModelLayout<Real>::Exponent> exponents(terms * kColumns);
  for (int j = 0; j < kColumns; ++j)
    pack_column<Real>(x.columns[j], kernels.signs_apart, j, packed.data(), exponents.data());
  std::uint64_t left = 0;
  ModelChunk<Real> chunk;
  chunk.rows = 1;
  chunk.terms = how.chunk;
  chunk.a = row.data();
  chunk.b = packed.data();
  chunk.b_exponents = exponents.data();
  chunk.c = x.c.data();
  chunk.c_stride = kColumns;
  chunk.left = &left;
  chunk.bits = how.bits;
  chunk.floor = how.exponent_floor;
  chunk.mantissa = how.mantissa;
  chunk.rounding = how.rounding;
  kernel(chunk);
  ASSERT_EQ(left, 0u);
  for (int j = 0; j < kColumns; ++j) {
    const auto at = static_cast<std::size_t>(j);
    ASSERT_EQ(bit_cast<std::uint32_t>(x.c[at]), bit_cast<std::uint32_t>(want[at].result))
        << kernels.isa << ", chunk " << how.chunk << ", bits " << how.bits << ", column " << j;
  }
}

/// Every kernel on the longest chunk that `fits`, for each number of bits.
template <typename Real>
void hold_longest(bool (*fits)(const Accumulation&), std::initializer_list<int> all_bits,
                  int significant, std::int64_t limit, StepRounding rounding, int mantissa) {
  Random random(1);
  double most = 0;
  for (const int bits : all_bits) {
    Accumulation how{"longest", SumFamily::fused_dot};
    how.bits = bits;
    how.rounding = rounding;
    how.mantissa = mantissa;
    how.exponent_floor = -133;
    how.chunk = 1;
    while (fits(how)) ++how.chunk;
    ASSERT_GT(--how.chunk, 0);
    for (int round = 0; round < 8; ++round) {
      const auto x = drawn<Real>(random, how, significant, round % 2 == 0);
      for (const Isa isa : machine_isas()) {
        const ModelKernels* kernels = model_kernels(isa);
        if (kernels == nullptr) continue;
        if constexpr (std::is_same_v<Real, float>) {
          hold<Real>(*kernels, kernels->fused_f32, how, x, limit, most);
        } else {
          hold<Real>(*kernels, kernels->fused_f64, how, x, limit, most);
        }
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
  if (model_kernels(best_isa()) == nullptr) GTEST_SKIP() << "no vector kernel on this machine";
  EXPECT_GT(most, 0.75) << "no data comes near the bound";
}

TEST(ModelBounds, HoldTheLongestChunksInBinary32) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 22;
  for (const int mantissa : {13, 23}) {
    hold_longest<float>([](const Accumulation& how) { return fits_f32(how); }, {10, 12, 13, 14, 16},
                        4, kLimit, StepRounding::toward_zero, mantissa);
  }
}

TEST(ModelBounds, HoldTheLongestChunksInBinary64) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 51;
  for (const StepRounding rounding : {StepRounding::toward_zero, StepRounding::nearest_even}) {
    hold_longest<double>([](const Accumulation& how) { return fits_f64(how); }, {38, 39, 40}, 11,
                         kLimit, rounding, 23);
  }
}

}  // namespace
}  // namespace mxo::cpu::model_bounds_test
