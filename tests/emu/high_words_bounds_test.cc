// The bound of scaled runs added in high words, held by rational numbers (docs/exact_product.md).
#include "emu/exact/high_words_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/golden/rational.h"

namespace mxo::high_words_bounds_test {
namespace {

using twin::Rational;
using Random = std::mt19937_64;

/// A row's sum as the device keeps it; its warp may halve it at any time.
struct KeptSum {
  UnitOfRuns unit;
  float middle = 0;
  std::int64_t kept = 0;

  std::int32_t scale(float a, float b) const {
    const ScaleInUnits parts = scale_in_units(a, b, unit.factor, unit.rest);
    const auto first = static_cast<std::int32_t>(std::nearbyint(parts.first));
    return first + static_cast<std::int32_t>(std::nearbyint(parts.left(first)));
  }
  void add(std::int64_t high, std::int32_t scale) {
    middle = middle_with_run(middle, scale);
    kept += high;
  }
  void halve() {
    kept >>= 1;
    unit.factor *= 0.5f;
    unit.rest *= 0.5f;
    unit.sum *= 2.0f;
    middle = middle_of_halves(middle);
  }
};

float scale_below(Random& random, float most, int spread) {
  const float v = most * (1 - static_cast<float>(random() % (1 << 22)) * 0x1p-23f);
  return random() % 8 == 0
             ? most
             : std::ldexp(v, -static_cast<int>(random() % static_cast<unsigned>(spread)));
}

/// Of many runs the one whose rounding goes furthest `up`, or down; the last leaves little of the
/// sum, so that its own roundings are all there is.
struct OneRun {
  std::int64_t product;
  float a, b;
};
OneRun drawn(Random& random, const KeptSum& sum, std::int64_t most, int shift,
             const float (&top)[2], int tries, bool up, bool last) {
  OneRun worst{};
  double furthest = -1e300;
  for (int n = 0; n < tries; ++n) {
    OneRun run{0, scale_below(random, top[0], 4), scale_below(random, top[1], 4)};
    const std::int64_t s = sum.scale(run.a, run.b);
    run.product = most - static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most)) /
                             (n % 2 == 0 ? 1 : 16);
    if (tries == 1 ? random() % 2 == 0 : sum.kept > 0) run.product = -run.product;
    if (last) {
      const double rest =
          -std::ldexp(static_cast<double>(sum.kept), 32 + shift) / static_cast<double>(s);
      run.product = static_cast<std::int64_t>(
                        std::clamp(rest, -static_cast<double>(most), static_cast<double>(most))) +
                    n;
    }
    run.product = up ? run.product | ((1 << shift) - 1) : run.product >> shift << shift;
    if (std::abs(run.product) > most) continue;
    const double real = static_cast<double>(run.product) * static_cast<double>(run.a) *
                        static_cast<double>(run.b) / static_cast<double>(sum.unit.sum);
    const double off = real - static_cast<double>((run.product >> shift) * s >> 32) - 0.5 -
                       static_cast<double>(s) * 0x1p-33;
    if ((up ? off : -off) <= furthest) continue;
    furthest = up ? off : -off;
    worst = run;
  }
  return worst;
}

TEST(HighWordsBounds, HoldTheRealNumber) {
  Random random(1);
  int halved = 0;
  double nearest = 0;
  for (int round = 0; round < 400; ++round) {
    const int tries = round % 4 == 0 ? 1 : 300;
    const int runs = 1 + static_cast<int>(random() % 56);
    const auto most = static_cast<std::int64_t>(std::ldexp(
        1 + static_cast<double>(random() % 1000) / 1000, 20 + static_cast<int>(random() % 17)));
    const auto norms = std::nextafter(static_cast<float>(most), INFINITY);
    const int shift = shift_of_runs(norms);
    ASSERT_LT(most, std::int64_t{1} << (31 + shift));
    const float power = power_of_shift(shift);
    const float top[2] = {std::ldexp(1.0f + static_cast<float>(random() % 4096) * 0x1p-12f, 3),
                          std::ldexp(1.0f + static_cast<float>(random() % 4096) * 0x1p-12f, -5)};
    KeptSum sum{unit_of_runs(top[0] * 1.0001f, top[1] * 1.0001f, power)};
    Rational real;
    for (int n = 0; n < runs; ++n) {
      const OneRun run =
          drawn(random, sum, most, shift, top, tries, round % 2 == 0, tries > 1 && n + 1 == runs);
      const std::int32_t scale = sum.scale(run.a, run.b);
      const std::int64_t shifted = run.product >> shift;
      ASSERT_TRUE(scale >= 0 && std::abs(shifted) <= INT32_MAX);
      sum.add(shifted * scale >> 32, scale);
      ASSERT_EQ(sum.kept, static_cast<std::int32_t>(sum.kept)) << "beyond 32 bits";
      real = real + Rational(static_cast<double>(run.product)) * Rational(run.a) * Rational(run.b);
      const std::uint32_t word = (1u << 30) - static_cast<std::uint32_t>(sum.kept);
      if (word >> 31 != 0 || random() % 40 == 0) {
        sum.halve();
        ++halved;
      }
    }
    const float off = off_of_runs(sum.middle, runs, norms, power);
    const float correction =
        round % 5 != 0 ? 0.0f : std::ldexp(1.25f, static_cast<int>(random() % 40) - 10);
    const HighWordsEnds ends = ends_of_high_words(sum.middle + static_cast<float>(sum.kept),
                                                  sum.unit.sum, off, correction, 0, false);
    real = real + Rational(correction);
    const twin::Interval interval{ends.low, ends.high};
    ASSERT_TRUE(interval.holds(real)) << round;
    while (nearest < 1 && interval.needs(nearest, real)) nearest += 1.0 / 16;
  }
  EXPECT_GT(halved, 100);
  EXPECT_GT(nearest, 0.7) << "no data comes near the bound";
}

}  // namespace
}  // namespace mxo::high_words_bounds_test
