// How far sums may stray, against the formulas of docs/gates.md with their numbers written out.
#include "golden/judge/sum_error.h"

#include <gtest/gtest.h>

#include "golden/judge/rounding_cell.h"

namespace mxo {
namespace {

using Real = long double;

/// Rounded upward a few times on the way, and no more.
void expect_just_above(double found, Real formula, const std::string& what) {
  EXPECT_GE(found, static_cast<double>(formula * (1 - 1e-15L))) << what;
  EXPECT_LE(found, static_cast<double>(formula * (1 + 1e-12L))) << what;
}

constexpr Real kUnit = 0x1p-24L;

Real gamma(Real k, Real u) { return k * u / (1 - k * u); }

TEST(SumError, OfAnyOrderIsGammaAndRoomForUnderflow) {
  for (const Index k : {1, 7, 128, 7168}) {
    const auto n = static_cast<Real>(k);
    const SumError error = SumError::any_order(k);
    for (const double magnitude : {0.0, 0x1p-140, 1.0, 3e30}) {
      const Real formula = gamma(n, kUnit) * static_cast<Real>(magnitude) + n * 0x1p-149L;
      expect_just_above(error(magnitude, 1), formula, std::to_string(k));
      EXPECT_EQ(error(magnitude, 1), SumError::of(kFmaChain, k)(magnitude, 1));
    }
  }
  EXPECT_EQ(SumError::of(kExact, 4096)(1e30, 1), 0);
  EXPECT_TRUE(std::isinf(gamma_of(Index{1} << 24, 0x1p-24)));
  EXPECT_TRUE(std::isinf(gamma_of((Index{1} << 24) + 1, 0x1p-24)));
  EXPECT_TRUE(std::isfinite(gamma_of((Index{1} << 24) - 1, 0x1p-24)));
  EXPECT_EQ(gamma_of(0, 0x1p-24), std::nextafter(0.0, 1.0));
}

/// A unit of docs/gates.md: so many fused sums of `chunk` products, so many joins in f32.
struct Counted {
  Accumulation sum;
  Index k;
  int chunks;
  int joins;
  int lost;   ///< truncations of a fused sum: its products, its accumulator, CDNA3's four more
  int least;  ///< exponent of the smallest normal result
  int floor;  ///< the largest exponent is not taken below it
};

Accumulation machine(SumFamily family, int instruction, int chunk, int bits) {
  Accumulation sum;
  sum.family = family;
  sum.instruction = instruction;
  sum.chunk = chunk;
  sum.bits = bits;
  sum.exponent_floor = -133;
  return sum;
}

TEST(SumError, OfAMachineIsTheRecurrenceOfItsChunks) {
  const Accumulation plain = machine(SumFamily::fused_dot, 32, 16, 13);
  Accumulation promoted = plain;
  promoted.promote = 4;
  Accumulation split = plain;
  split.split = 3;
  Accumulation restarts = plain;
  restarts.block = 128;
  Accumulation each = plain;
  each.promote = 1;
  Accumulation single = plain;
  single.block = 1;
  Accumulation halves = machine(SumFamily::fused_dot, 16, 16, 24);
  halves.mantissa = 10;
  Accumulation high = machine(SumFamily::fused_dot, 64, 32, 25);
  high.exponent_floor = -4;
  const Accumulation amd = machine(SumFamily::cdna3_dot, 32, 8, 24);
  const Counted rows[] = {
      // ceil(160 / 32) instructions and one for the chain that is rounded up, of two chunks each.
      {plain, 160, 2 * (5 + 1), 1, 17, -126, -126},
      {plain, 161, 2 * (6 + 1), 1, 17, -126, -126},
      {promoted, 160, 2 * (5 + 1), 1 + 2 + 1, 17, -126, -126},
      {each, 160, 2 * (5 + 1), 1 + 6 + 1, 17, -126, -126},
      {split, 160, 2 * (5 + 3), 3, 17, -126, -126},
      // Two blocks and the chain, each of which may be rounded up.
      {restarts, 160, 2 * (5 + 3), 1 + 3, 17, -126, -126},
      {single, 4, 2 * (1 + 5), 1 + 5, 17, -126, -126},
      {halves, 64, 4 + 1, 1, 17, -14, -126},
      {high, 64, 2 * (1 + 1), 1, 33, -126, -4},
      {amd, 64, 4 * (2 + 1), 1, 8 + 5, -126, -126},
  };
  for (const Counted& row : rows) {
    for (const auto& [magnitude, binade] :
         {std::pair{1.0, 0.25}, {1000.0, 4096.0}, {0x1p-120, 0x1p-122}, {3e-3, 1e-3}}) {
      Real e = 0;
      const Real floor = std::ldexp(1.0L, row.sum.mantissa == 10 ? std::max(-14, -133) : row.floor);
      for (int chunk = 0; chunk < row.chunks; ++chunk) {
        const Real top = std::max({static_cast<Real>(binade), magnitude + e, floor});
        const Real s = row.lost * top * std::ldexp(1.0L, -row.sum.bits);
        const int m = row.sum.mantissa;
        e += s + std::ldexp(magnitude + e + s, -m) + std::ldexp(1.0L, row.least - m);
      }
      for (int join = 0; join < row.joins; ++join) e += kUnit * (magnitude + e) + 0x1p-150L;
      expect_just_above(SumError::of(row.sum, row.k)(magnitude, binade), e,
                        std::to_string(&row - rows));
    }
  }
  EXPECT_EQ(SumError::of(plain, 160)(0, 0), 0);
  EXPECT_TRUE(std::isinf(SumError::of(halves, 64)(65504.0, 1)));
  EXPECT_TRUE(std::isfinite(SumError::of(halves, 64)(60000.0, 1)));
  EXPECT_TRUE(std::isinf(SumError::of(plain, 64)(3.5e38, 1)));
}

TEST(SumError, OfTheLargestNumberIsFinite) {
  Accumulation halves = machine(SumFamily::fused_dot, 16, 16, 24);
  halves.mantissa = 10;
  const double magnitude = 0x1.fd4183988b63bp+15;  // with its error the largest f16
  const double error = SumError::of(halves, 64)(magnitude, 1);
  EXPECT_EQ(up(magnitude + error), 65504.0);
  EXPECT_TRUE(std::isinf(SumError::of(halves, 64)(up(magnitude), 1)));
}

}  // namespace
}  // namespace mxo
