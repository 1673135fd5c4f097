// Gate bound against its twin in rational numbers: nothing beyond the documented bound passes,
// nothing within it fails.
#include "tests/golden/gate_twin.h"
#include "golden/museum/operands.h"

namespace mxo::gate_twin::gate_twin_test {
namespace {

TEST(GateTwin, HoldsProductsOfPlainOperands) {
  Counts seen;
  for (std::uint64_t seed = 0; seed < 120; ++seed) {
    const Dtype type = seed % 3 == 0 ? Dtype::f16 : seed % 3 == 1 ? Dtype::bf16 : Dtype::f32;
    const Index k = seed % 7 == 0 ? 130 : static_cast<Index>(1 + seed % 9);
    NamedTensors in{{"x", operand(type, {2, k}, seed)},
                    {"w", operand(type, {1, 3, k}, seed + 1000)}};
    // The sum is 2^128 - 2^105, below the largest f32; with what it strays it is not.
    const float large[] = {0x1.FEp127f, 0x1.FEp119f, 0x1.FCp111f, 0, 0};
    for (Index at = 0; type == Dtype::bf16 && k == 5 && at < k; ++at) {
      in.at("x").as<BF16>()[at] = encode<kBF16>(large[at]);
      in.at("w").as<BF16>()[at] = encode<kBF16>(1.0f);
    }
    in.emplace("group_ends", ends_of({2}));
    for (const std::string claim : {"exact", ""}) {
      const auto bound = certified_bound("grouped_matmul", "y", in, {}, claim);
      ASSERT_TRUE(bound);
      for (Index i = 0; i < 6; ++i) {
        Twin twin;
        for (Index at = 0; at < k; ++at)
          twin.add(Rational(value_at(in.at("x"), type, i / 3 * k + at)) *
                   Rational(value_at(in.at("w"), type, i % 3 * k + at)));
        twin.rounded = claim.empty();
        if (twin.rounded) twin.round(k);
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
  Counts seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Index first = static_cast<Index>(seed % 2);
    NamedTensors in{{"dy", operand(Dtype::bf16, {7, 2}, seed)},
                    {"x", operand(Dtype::bf16, {7, 3}, seed + 700)},
                    {"group_ends", ends_of({static_cast<int>(first), 6})}};
    for (const std::string claim : {"exact", ""}) {
      const auto bound = certified_bound("grouped_matmul_wgrad", "dw", in, {}, claim);
      ASSERT_TRUE(bound);
      for (Index i = 0; i < 12; ++i) {
        Twin twin;
        twin.rounded = claim.empty();
        const Index begin = i < 6 ? 0 : first;
        const Index end = i < 6 ? first : 6;
        for (Index r = begin; r < end; ++r)
          twin.add(Rational(value_at(in.at("dy"), Dtype::bf16, r * 2 + i % 6 / 3)) *
                   Rational(value_at(in.at("x"), Dtype::bf16, r * 3 + i % 3)));
        if (twin.rounded) twin.round(end - begin);
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
  Counts seen;
  std::mt19937_64 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    for (const double rest : {-0x1p-100, 0.0, 0x1p-100}) {
      const double v = std::ldexp(128 + static_cast<double>(random() % 128), -7);
      const bool below = random() % 2 == 0;
      NamedTensors in{{"x", floats({1, 4}, {static_cast<float>(v), below ? -0x1p-8f : 0x1p-8f,
                                            static_cast<float>(rest), 0.0f})},
                      {"w", floats({1, 1, 4}, {1, 1, 1, 1})},
                      {"group_ends", ends_of({1})}};
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

/// Codes with scales in f32 by row of x and 128 x 128 of w: the fold of docs/gates.md.  A kernel
/// may multiply in any order: with large scales each step may overflow where the whole does not.
TEST(GateTwin, HoldsProductsOfScaledCodes) {
  Counts seen;
  constexpr int kExponents[][2] = {{-6, -6},    {50, 50},    {-74, -74}, {60, 60},
                                   {120, -120}, {-120, 120}, {100, 100}, {100, -100}};
  for (std::uint64_t seed = 0; seed < 32; ++seed) {
    const Index k = seed % 16 < 8 ? 200 : 96;
    const auto& exponents = kExponents[seed % 8];
    const bool zeros = exponents[0] == 100 && exponents[1] == 100;  // the scales alone overflow
    const Index blocks = ceil_div(k, Index{128});
    std::mt19937_64 random(seed);
    const auto codes = [&](std::vector<Index> shape) {
      Tensor t(Dtype::e4m3, std::move(shape));
      for (Index i = 0; i < t.elements(); ++i) {
        auto code = static_cast<std::uint8_t>(random());
        t.as<std::uint8_t>()[i] = zeros || (code & 0x7F) == 0x7F ? 0 : code;
      }
      return t;
    };
    const auto scales = [&](std::vector<Index> shape, int exponent) {
      Tensor t(Dtype::f32, std::move(shape));
      for (Index i = 0; i < t.elements(); ++i)
        t.as<float>()[i] = std::ldexp(1 + static_cast<float>(random() % 4096) / 4096.0f, exponent);
      return t;
    };
    NamedTensors in{{"x.codes", codes({2, k})},
                    {"x.scales", scales({2, blocks}, exponents[0])},
                    {"w.codes", codes({1, 2, k})},
                    {"w.scales", scales({1, 1, blocks}, exponents[1])},
                    {"group_ends", ends_of({2})}};
    const Parameters set = with({{"block_x", "1x128"}, {"block_w", "128x128"}});
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
          const Rational sx(in.at("x.scales").as<float>()[i / 2 * blocks + b]);
          const Rational sw(in.at("w.scales").as<float>()[b]);
          Twin part;
          for (Index at = b * 128; at < std::min(k, (b + 1) * 128); ++at)
            part.add(Rational(value_at(in.at("x.codes"), Dtype::e4m3, i / 2 * k + at)) *
                     Rational(value_at(in.at("w.codes"), Dtype::e4m3, i % 2 * k + at)));
          part.round(in_block);
          add_scaled(twin, part, sx, sw, n, spill);
        }
        if (twin.rounded)
          twin.stray = twin.stray + gamma(n) * (twin.reach + twin.stray) +
                       Rational(static_cast<double>(n)) * twin::power(-149);
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
  Counts seen;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Index k = 1 + static_cast<Index>(seed % 4);
    const Dtype type = seed % 2 == 0 ? Dtype::bf16 : Dtype::f16;
    const NamedTensors in{
        {"rank0.experts", filled<std::int32_t>(Dtype::i32, {1, k}, [](Index i) { return i; })},
        {"rank0.y", operand(type, {k, 2}, seed)},
        {"rank0.weights", operand(Dtype::f32, {1, k}, seed + 500)}};
    const auto bound = certified_bound("combine", "rank0.out", in, with({{"experts", "4"}}), "");
    ASSERT_TRUE(bound);
    for (Index i = 0; i < 2; ++i) {
      Twin twin;
      for (Index slot = 0; slot < k; ++slot)
        twin.add(Rational(value_at(in.at("rank0.y"), type, slot * 2 + i)) *
                 Rational(in.at("rank0.weights").as<float>()[slot]));
      twin.round(k);
      hold(*bound, i, twin, std::to_string(seed), seen);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(seen.passed, 600);
  EXPECT_GT(seen.refused, 1000);
}

}  // namespace
}  // namespace mxo::gate_twin::gate_twin_test
