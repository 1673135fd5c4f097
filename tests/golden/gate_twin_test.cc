// Gate bound against its twin in rational numbers: nothing beyond the documented bound passes,
// nothing within it fails.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "golden/judge/bound.h"
#include "golden/judge/elements.h"
#include "golden/museum/operands.h"
#include "ops/sums.h"
#include "tests/golden/rational.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

using twin::Rational;

const Rational kUnit = twin::power(-24);
const Rational kMost(static_cast<double>(std::numeric_limits<float>::max()));

/// K u / (1 - K u).
Rational gamma(Index k) {
  const Rational ku = Rational(static_cast<double>(k)) * kUnit;
  return ku / (Rational(1) - ku);
}

std::uint32_t bits_of(Dtype out, double value) {
  const auto single = static_cast<float>(value);
  if (out == Dtype::bf16) return encode<kBF16>(single).bits;
  if (out == Dtype::f16) return encode<kF16>(single).bits;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &single, sizeof bits);
  return bits;
}

/// What a kernel might give: neighbours of the ends, of the result, and the edges of the type.
std::set<std::uint32_t> candidates(Dtype out, double exact, double stray) {
  const twin::Layout layout = twin::layout_of(out);
  std::set<std::uint32_t> bits{0,
                               layout.sign(),
                               1,
                               layout.infinity() - 1,
                               layout.infinity(),
                               layout.infinity() | layout.sign()};
  for (const double end : {exact - stray, exact, exact + stray}) {
    const std::uint32_t at = bits_of(out, end);
    for (std::uint32_t step = 0; step < 7; ++step) {
      const std::uint32_t pattern = (at & (layout.sign() - 1)) + step;
      if (pattern >= 3) bits.insert((at & layout.sign()) | (pattern - 3));
    }
  }
  return bits;
}

struct Twin {
  Rational real;
  Rational stray;
  Rational reach;  ///< what a sum on the way may reach
  bool rounded = true;
};

struct Seen {
  Index passed = 0;
  Index refused = 0;
  Index open = 0;  ///< not bounded
};

/// Every candidate for element i of `bound`, as each type.
void hold(const ErrorBound& bound, Index i, const Twin& twin, const std::string& what, Seen& seen) {
  const auto at = static_cast<std::size_t>(i);
  // The documented bound is computed upward, in doubles.
  const Rational wide = twin.stray * (Rational(1) + twin::power(-40));
  if (!bound.promises(i)) {
    ASSERT_TRUE(kMost < (twin.reach + wide) * (Rational(1) + twin::power(-40))) << what;
    ++seen.open;
    return;
  }
  ASSERT_FALSE(twin.rounded && kMost < twin.reach + twin.stray) << what;
  for (const Dtype out : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    const ElementReader read(out);
    for (const std::uint32_t bits : candidates(out, bound.exact[at], bound.stray[at])) {
      const bool passes = bound.admits(i, out, read(bits).value);
      const bool within = twin::admits(twin.real, twin.stray, out, bits);
      ASSERT_TRUE(passes || !within) << what << ", " << name_of(out) << " " << bits;
      ASSERT_TRUE(!passes || twin::admits(twin.real, wide, out, bits))
          << what << ", " << name_of(out) << " " << bits;
      ++(passes ? seen.passed : seen.refused);
    }
  }
}

/// Rows of numbers: of every size, near ties, subnormal, and near the end of the range.
Tensor operand(Dtype type, std::vector<Index> shape, std::uint64_t seed) {
  Tensor t(type, std::move(shape));
  std::mt19937_64 random(seed);
  const int least = seed % 5 == 3 ? -75 : seed % 5 == 4 ? 59 : -4;
  for (Index i = 0; i < t.elements(); ++i) {
    const bool power = random() % 4 == 0;
    const double significand = power ? 1 : 1 + static_cast<double>(random() >> 11) * 0x1p-53;
    const int exponent = least + static_cast<int>(random() % (random() % 8 == 0 ? 30 : 5)) -
                         (type == Dtype::f16 && seed % 5 == 3 ? -60 : 0) -
                         (type == Dtype::f16 && seed % 5 == 4 ? 60 : 0);
    const auto v = static_cast<float>(std::ldexp(random() % 2 == 0 ? significand : -significand,
                                                 std::min(exponent, type == Dtype::f16 ? 14 : 63)));
    if (type == Dtype::f32) t.as<float>()[i] = v;
    if (type == Dtype::bf16) t.as<BF16>()[i] = encode<kBF16>(v);
    if (type == Dtype::f16) t.as<F16>()[i] = encode<kF16>(v);
  }
  return t;
}

double value_at(const Tensor& t, Dtype type, Index i) {
  return ElementReader(type)(bits_at(t, i)).value;
}

TEST(GateTwin, HoldsProductsOfPlainOperands) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Dtype type = seed % 3 == 0 ? Dtype::f16 : seed % 3 == 1 ? Dtype::bf16 : Dtype::f32;
    const Index k = seed % 7 == 0 ? 130 : static_cast<Index>(1 + seed % 9);
    NamedTensors in;
    in.emplace("x", operand(type, {2, k}, seed));
    in.emplace("w", operand(type, {1, 3, k}, seed + 1000));
    in.emplace("group_ends", ends_of({2}));
    for (const std::string claim : {"exact", ""}) {
      const auto bound = certified_bound("grouped_matmul", "y", in, {}, claim);
      ASSERT_TRUE(bound);
      for (Index i = 0; i < 6; ++i) {
        Twin twin;
        for (Index at = 0; at < k; ++at) {
          const Rational term = Rational(value_at(in.at("x"), type, i / 3 * k + at)) *
                                Rational(value_at(in.at("w"), type, i % 3 * k + at));
          twin.real = twin.real + term;
          twin.reach = twin.reach + term.magnitude();
        }
        twin.rounded = claim.empty();
        if (twin.rounded) {
          twin.stray = gamma(k) * twin.reach + Rational(static_cast<double>(k)) * twin::power(-149);
        }
        hold(*bound, i, twin, claim + " " + std::to_string(seed) + " " + std::to_string(i), seen);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(seen.passed, 3000);
  EXPECT_GT(seen.refused, 10000);
  EXPECT_GT(seen.open, 10);
}

/// Rows of two groups, the first of which is empty or has one row.
TEST(GateTwin, HoldsWeightGradients) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Index first = static_cast<Index>(seed % 2);
    NamedTensors in;
    in.emplace("dy", operand(Dtype::bf16, {7, 2}, seed));
    in.emplace("x", operand(Dtype::bf16, {7, 3}, seed + 700));
    in.emplace("group_ends", ends_of({static_cast<int>(first), 6}));
    for (const std::string claim : {"exact", ""}) {
      const auto bound = certified_bound("grouped_matmul_wgrad", "dw", in, {}, claim);
      ASSERT_TRUE(bound);
      for (Index i = 0; i < 12; ++i) {
        Twin twin;
        twin.rounded = claim.empty();
        const Index begin = i < 6 ? 0 : first;
        const Index end = i < 6 ? first : 6;
        for (Index r = begin; r < end; ++r) {
          const Rational term = Rational(value_at(in.at("dy"), Dtype::bf16, r * 2 + i % 6 / 3)) *
                                Rational(value_at(in.at("x"), Dtype::bf16, r * 3 + i % 3));
          twin.real = twin.real + term;
          twin.reach = twin.reach + term.magnitude();
        }
        const Rational k(static_cast<double>(end - begin));
        if (twin.rounded) twin.stray = gamma(end - begin) * twin.reach + k * twin::power(-149);
        hold(*bound, i, twin, claim + " " + std::to_string(seed) + " " + std::to_string(i), seen);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(seen.passed, 500);
  EXPECT_GT(seen.refused, 1000);
}

/// A tie, and what 2^-100 more or less makes of it, which no double tells.
TEST(GateTwin, HoldsTiesThatDoublesCannotTell) {
  Seen seen;
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    for (const double rest : {-0x1p-100, 0.0, 0x1p-100}) {
      const double v = std::ldexp(128 + static_cast<double>(random() % 128), -7);
      const bool below = random() % 2 == 0;
      NamedTensors in;
      in.emplace("x", floats({1, 4}, {static_cast<float>(v), below ? -0x1p-8f : 0x1p-8f,
                                      static_cast<float>(rest), 0.0f}));
      in.emplace("w", floats({1, 1, 4}, {1, 1, 1, 1}));
      in.emplace("group_ends", ends_of({1}));
      const auto bound = certified_bound("grouped_matmul", "y", in, {}, "exact");
      Twin twin;
      twin.real = Rational(v) + Rational(below ? -0x1p-8 : 0x1p-8) + Rational(rest);
      twin.rounded = false;
      hold(*bound, 0, twin, std::to_string(v), seen);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(seen.passed, 300);
}

/// Codes with scales in f32 by row of x and 128 x 128 of w: the fold of docs/gates.md.
TEST(GateTwin, HoldsProductsOfScaledCodes) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const Index k = seed % 2 == 0 ? 200 : 96;
    const Index blocks = ceil_div(k, Index{128});
    std::mt19937_64 random(seed);
    const auto codes = [&](std::vector<Index> shape) {
      Tensor t(Dtype::e4m3, std::move(shape));
      for (Index i = 0; i < t.elements(); ++i) {
        auto code = static_cast<std::uint8_t>(random());
        t.as<std::uint8_t>()[i] = (code & 0x7F) == 0x7F ? 0 : code;
      }
      return t;
    };
    const auto scales = [&](std::vector<Index> shape) {
      Tensor t(Dtype::f32, std::move(shape));
      for (Index i = 0; i < t.elements(); ++i) {
        t.as<float>()[i] =
            std::ldexp(1 + static_cast<float>(random() % 4096) / 4096.0f, seed % 4 == 3   ? -74
                                                                          : seed % 8 == 6 ? 60
                                                                          : seed % 4 == 2 ? 50
                                                                                          : -6);
      }
      return t;
    };
    NamedTensors in;
    in.emplace("x.codes", codes({2, k}));
    in.emplace("x.scales", scales({2, blocks}));
    in.emplace("w.codes", codes({1, 2, k}));
    in.emplace("w.scales", scales({1, 1, blocks}));
    in.emplace("group_ends", ends_of({2}));
    Parameters set;
    set.set("block_x", "1x128");
    set.set("block_w", "128x128");
    for (const std::string claim : {"exact", ""}) {
      const auto bound = certified_bound("grouped_matmul", "y", in, set, claim);
      ASSERT_TRUE(bound);
      for (Index i = 0; i < 4; ++i) {
        Twin twin;
        twin.rounded = claim.empty();
        const Index in_block = std::min(k, Index{128});
        const Index n = blocks + 1;
        Rational spill;
        for (Index b = 0; b < blocks; ++b) {
          const Rational sx(static_cast<double>(in.at("x.scales").as<float>()[i / 2 * blocks + b]));
          const Rational sw(static_cast<double>(in.at("w.scales").as<float>()[b]));
          Rational p;
          Rational m;
          for (Index at = b * 128; at < std::min(k, (b + 1) * 128); ++at) {
            const Rational term =
                Rational(value_at(in.at("x.codes"), Dtype::e4m3, i / 2 * k + at)) *
                Rational(value_at(in.at("w.codes"), Dtype::e4m3, i % 2 * k + at));
            p = p + term;
            m = m + term.magnitude();
          }
          const Rational s = sx * sw;
          twin.real = twin.real + p * s;
          twin.reach = twin.reach + m * s;
          if (!twin.rounded) continue;
          const Rational e =
              gamma(in_block) * m + Rational(static_cast<double>(in_block)) * twin::power(-149);
          const Rational most = m + e;
          twin.stray =
              twin.stray + e * s +
              Rational(3) * kUnit * (Rational(1) + twin::power(-20)) * most * s +
              Rational(static_cast<double>(n)) * twin::power(-149) * (most + sx + sw + Rational(2));
          spill = larger(spill, larger(larger(most * sx, most * sw), larger(s, most * s)));
        }
        if (twin.rounded) {
          twin.stray = twin.stray + gamma(n) * (twin.reach + twin.stray) +
                       Rational(static_cast<double>(n)) * twin::power(-149);
        }
        twin.reach = larger(twin.reach, spill);
        hold(*bound, i, twin, claim + " " + std::to_string(seed), seen);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(seen.passed, 400);
  EXPECT_GT(seen.refused, 1000);
  EXPECT_GT(seen.open, 0);
}

/// Slots of one token each, weighed.
TEST(GateTwin, HoldsSumsOfSlots) {
  Seen seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Index k = 1 + static_cast<Index>(seed % 4);
    const Dtype type = seed % 2 == 0 ? Dtype::bf16 : Dtype::f16;
    NamedTensors in;
    Tensor experts(Dtype::i32, {1, k});
    for (Index i = 0; i < k; ++i) experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
    in.emplace("rank0.experts", std::move(experts));
    in.emplace("rank0.y", operand(type, {k, 2}, seed));
    in.emplace("rank0.weights", operand(Dtype::f32, {1, k}, seed + 500));
    Parameters set;
    set.set("experts", "4");
    const auto bound = certified_bound("combine", "rank0.out", in, set, "");
    ASSERT_TRUE(bound);
    for (Index i = 0; i < 2; ++i) {
      Twin twin;
      for (Index slot = 0; slot < k; ++slot) {
        const Rational term =
            Rational(value_at(in.at("rank0.y"), type, slot * 2 + i)) *
            Rational(static_cast<double>(in.at("rank0.weights").as<float>()[slot]));
        twin.real = twin.real + term;
        twin.reach = twin.reach + term.magnitude();
      }
      twin.stray = gamma(k) * twin.reach + Rational(static_cast<double>(k)) * twin::power(-149);
      hold(*bound, i, twin, std::to_string(seed), seen);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(seen.passed, 600);
  EXPECT_GT(seen.refused, 1000);
}

/// Numbers of a type, or its codes, none of them zero.
Tensor numbers(Dtype type, const std::vector<Index>& shape, std::uint64_t seed) {
  if (!is_minifloat8(type)) return operand(type, shape, seed);
  Tensor t(type, shape);
  std::mt19937_64 random(seed);
  for (Index i = 0; i < t.elements(); ++i) {
    const auto code = static_cast<std::uint8_t>(random());
    const double v = ElementReader(type)(code).value;
    const bool number = v != 0.0 && std::isfinite(v);
    t.as<std::uint8_t>()[i] = number ? code : 1;
  }
  return t;
}

/// What a unit promises of one sum, as docs/gates.md has it: chunks, then additions in f32.
void stray_of(const Accumulation& sum, Index k, const Rational& binade, Twin& twin) {
  const bool amd = sum.family == SumFamily::cdna3_dot;
  const int least = sum.mantissa == 10 ? -14 : -126;
  const Rational floor = twin::power(amd ? least : std::max(least, sum.exponent_floor));
  const Index instructions = ceil_div(k, Index{sum.instruction}) + 1;
  for (Index chunk = 0; chunk < instructions * (sum.instruction / sum.chunk); ++chunk) {
    const Rational most = larger(larger(binade, twin.reach + twin.stray), floor);
    const Rational s = Rational(sum.chunk + (amd ? 5.0 : 1.0)) * most * twin::power(-sum.bits);
    twin.stray = twin.stray + s + twin::power(-sum.mantissa) * (twin.reach + twin.stray + s) +
                 twin::power(least - sum.mantissa);
  }
  const Index promotions = sum.promote > 0 ? ceil_div(instructions, Index{sum.promote}) + 1 : 0;
  for (Index join = 0; join < 1 + promotions; ++join)
    twin.stray = twin.stray + kUnit * (twin.reach + twin.stray) + twin::power(-150);
}

/// Scales in f32 that are 1: one piece, multiplied and added to nothing.
void scale_by_one(Twin& twin) {
  const Rational most = twin.reach + twin.stray;
  const Rational n(2);
  twin.stray = twin.stray + Rational(3) * kUnit * (Rational(1) + twin::power(-20)) * most +
               n * twin::power(-149) * (most + Rational(4));
  twin.stray = twin.stray + gamma(2) * (twin.reach + twin.stray) + n * twin::power(-149);
}

/// Every row of `mxo list sums` that is a matrix unit's and takes these operands without scales.
struct UnitOperands {
  OperandKind kind;
  Dtype type;
  const char* format;  ///< of codes
  int least;           ///< exponent of the least normal number
};
constexpr UnitOperands kUnitOperands[] = {
    {OperandKind::bf16, Dtype::bf16, "", -126},
    {OperandKind::f16, Dtype::f16, "", -14},
    {OperandKind::fp8, Dtype::e4m3, "e4m3", -6},
    {OperandKind::fp8, Dtype::e5m2, "e5m2", -14},
    {OperandKind::fp8_fnuz, Dtype::e4m3fnuz, "e4m3fnuz", -7},
};

TEST(GateTwin, HoldsSumsOfEveryMatrixUnit) {
  std::set<std::string> held;
  for (const UnitOperands& of : kUnitOperands) {
    for (const SumRow& row : sums()) {
      // A fold is of scales: HoldsProductsOfScaledCodes.
      const Accumulation& sum = row.sum;
      if (row.kind != of.kind || !is_machine(sum) || sum.fold != Fold::by_scales) continue;
      ASSERT_EQ(sum.split, 1) << row.name;
      ASSERT_EQ(sum.block, 0) << row.name;
      held.insert(std::string(row.name) + " " + std::string(row.operands));
      Seen seen;
      for (std::uint64_t seed = 0; seed < 12; ++seed) {
        const Index k = seed % 4 == 0 ? 150 : static_cast<Index>(1 + seed * 3 % 20);
        const std::string dot = *of.format ? ".codes" : "";
        NamedTensors in;
        in.emplace("x" + dot, numbers(of.type, {1, k}, seed));
        in.emplace("w" + dot, numbers(of.type, {1, 2, k}, seed + 500));
        in.emplace("group_ends", ends_of({1}));
        Parameters set;
        if (*of.format) {  // a scale of 1 for each row
          in.emplace("x.scales", floats({1, 1}, {1}));
          in.emplace("w.scales", floats({1, 2, 1}, {1, 1}));
          set.set("format_x", of.format);
          set.set("format_w", of.format);
        }
        const auto bound = certified_bound("grouped_matmul", "y", in, set, std::string(row.name));
        ASSERT_TRUE(bound) << row.name;
        for (Index i = 0; i < 2; ++i) {
          Twin twin;
          Rational binade;
          for (Index at = 0; at < k; ++at) {
            const double x = value_at(in.at("x" + dot), of.type, at);
            const double w = value_at(in.at("w" + dot), of.type, i * k + at);
            const Rational term = Rational(x) * Rational(w);
            twin.real = twin.real + term;
            twin.reach = twin.reach + term.magnitude();
            binade = larger(binade, twin::power(std::max(std::ilogb(x), of.least)) *
                                        twin::power(std::max(std::ilogb(w), of.least)));
          }
          stray_of(sum, k, binade, twin);
          if (*of.format) scale_by_one(twin);
          hold(*bound, i, twin, std::string(row.name) + " " + std::to_string(seed), seen);
          if (HasFatalFailure()) return;
        }
      }
      EXPECT_GT(seen.passed, 50) << row.name;
      EXPECT_GT(seen.refused, 200) << row.name;
    }
  }
  EXPECT_EQ(held.size(), 16u) << "rows of the table of docs/machine_models.md without scales";
}

}  // namespace
}  // namespace mxo
