// Certified bounds of products against the formulas of docs/gates.md, written out for one output.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/error.h"
#include "tests/golden/bound_formula.h"

namespace mxo {
namespace {

using namespace by_formula;

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(BoundFormula, HoldsForScalesInF32UnderEveryClaim) {
  const auto backend = make_cpu_backend();
  struct Row {
    const char* claim;
    const char* key;
    const char* value;
    int restarts;
  };
  for (const Row& row :
       {Row{"", "", "", 1}, Row{"exact", "", "", 1}, Row{"fma_chain", "", "", 1},
        Row{"fma_chain", "sum.block", "32", 4}, Row{"fma_chain", "sum.block", "1", 128},
        Row{"h200_wgmma_fast", "", "", 1}, Row{"deepgemm_sm90", "", "", 1},
        Row{"h200_wgmma_promote4", "sum.split", "3", 1}}) {
    for (const auto& [depth, rows] :
         {std::pair{300, false}, {300, true}, {256, true}, {64, true}}) {
      Multiplied product(*backend, depth, rows);
      const bool subnormal = depth == 64;  // a machine aligns these by their least exponent
      for (const char* name : {"x.codes", "w.codes"}) {
        Tensor& codes = product.in.at(name);
        for (Index i = 0; subnormal && i < codes.elements(); ++i) {
          codes.as<std::uint8_t>()[i] = i % 4 == 0 ? 0x81 : i % 8 == 2 ? 0x01 : 0;
        }
      }
      if (*row.key != '\0') {
        product.set.set("sum", row.claim);
        product.set.set(row.key, row.value);
      }
      Claimed claim;
      claim.k = std::min(depth, 128);
      claim.restarts = std::max<Index>(1, row.restarts * claim.k / 128);
      if (*row.claim != '\0') {
        Parameters chosen = product.set;
        chosen.set("sum", row.claim);
        claim.sum =
            settled_sum("", sum_from(chosen, OperandKind::fp8), true, true, depth > 128 ? 128 : 0);
      }
      const auto bound = certified_bound("grouped_matmul", "y", product.in, product.set, row.claim);
      ASSERT_TRUE(bound);
      ASSERT_EQ(bound->stray.size(), 3u * 130u);
      for (std::size_t i = 0; i < bound->stray.size(); ++i) {
        const Index r = static_cast<Index>(i) / 130;
        if (r == 2) {  // of no group
          EXPECT_EQ(bound->exact[i], 0);
          EXPECT_EQ(bound->stray[i], kInf);
          continue;
        }
        const auto stretches = product.stretches(r, static_cast<Index>(i) % 130);
        double total = 0;
        for (const Stretch& at : stretches) total += at.sum * (at.sx * at.sw);
        const double formula = stray_by_the_formula(stretches, claim, true);
        EXPECT_NEAR(bound->exact[i], total, std::fabs(total) * 1e-15);
        ASSERT_GE(bound->stray[i], formula * (1 - 1e-15)) << row.claim << " " << depth;
        ASSERT_LE(bound->stray[i], formula * (1 + 1e-11)) << row.claim << " " << depth;
      }
    }
  }
}

/// One line of bf16 by another of them.
struct Line {
  Line(std::vector<float> a, std::vector<float> b) : x(std::move(a)), w(std::move(b)) {}
  NamedTensors inputs() const {
    NamedTensors in;
    const auto k = static_cast<Index>(x.size());
    in.emplace("x", Tensor(Dtype::bf16, {1, k}));
    in.emplace("w", Tensor(Dtype::bf16, {1, 1, k}));
    for (std::size_t i = 0; i < x.size(); ++i) {
      in.at("x").as<BF16>()[i] = encode<kBF16>(x[i]);
      in.at("w").as<BF16>()[i] = encode<kBF16>(w[i]);
    }
    in.emplace("group_ends", ends_of({1}));
    return in;
  }
  std::vector<float> x, w;
};

TEST(BoundFormula, HoldsForPlainOperandsOfAnySize) {
  for (const double size : {1.0, 0x1p-140, 0x1p-70}) {
    const auto x = static_cast<float>(std::sqrt(size));
    const Line line({x, -3 * x, 0, x, 2 * x}, {x, 2 * x, x, -5 * x, 0});
    for (const std::string claim : {"", "exact", "fma_chain", "h200_wgmma_fast", "ada_mma"}) {
      Stretch at;
      for (std::size_t i = 0; i < line.x.size(); ++i) {
        const double product = static_cast<double>(line.x[i]) * static_cast<double>(line.w[i]);
        at.sum += product;
        at.magnitude += std::fabs(product);
        at.binade = std::max(at.binade, binade_of(static_cast<double>(line.x[i]), -126) *
                                            binade_of(static_cast<double>(line.w[i]), -126));
      }
      Claimed made;
      made.k = 5;
      if (!claim.empty()) made.sum = sum_named(claim, OperandKind::bf16);
      const auto bound = certified_bound("grouped_matmul", "y", line.inputs(), {}, claim);
      const double formula = stray_by_the_formula({at}, made, false);
      EXPECT_EQ(bound->exact[0], at.sum);
      EXPECT_GE(bound->stray[0], formula * (1 - 1e-15)) << claim << " " << size;
      EXPECT_LE(bound->stray[0], formula * (1 + 1e-11)) << claim << " " << size;
    }
  }
}

TEST(BoundFormula, PromisesNothingWhereAStepMayOverflow) {
  const auto backend = make_cpu_backend();
  const auto finite = [&](float sx, float sw, float code, Index block) {
    Multiplied product(*backend, 256, false);
    for (const char* name : {"x.codes", "w.codes"}) {
      Tensor& codes = product.in.at(name);
      for (Index i = 0; i < codes.elements(); ++i) {
        codes.as<std::uint8_t>()[i] = encode<kE4M3>(code).bits;
      }
    }
    for (const char* name : {"x.scales", "w.scales"}) {
      Tensor& scales = product.in.at(name);
      for (Index i = 0; i < scales.elements(); ++i) {
        const float scale = i % 2 == block ? (*name == 'x' ? sx : sw) : 1.0f;
        scales.as<float>()[i] = scale;
      }
    }
    return std::isfinite(
        certified_bound("grouped_matmul", "y", product.in, product.set, "")->stray[0]);
  };
  for (const Index block : {0, 1}) {
    EXPECT_TRUE(finite(0x1p100f, 0x1p-100f, 1, block));
    EXPECT_FALSE(finite(0x1p120f, 0x1p-120f, 64, block));
    EXPECT_FALSE(finite(0x1p-120f, 0x1p120f, 64, block));
    EXPECT_FALSE(finite(0x1p100f, 0x1p100f, 0, block));
    EXPECT_TRUE(finite(0x1p60f, 0x1p60f, 0, block));
    EXPECT_FALSE(finite(0x1p60f, 0x1p60f, 64, block));
  }
}

TEST(BoundFormula, CountsWhatStraysTowardsOverflow) {
  const auto most = std::numeric_limits<float>::max();
  const float large = 0x1.FEp127f;  // of bf16
  const auto finite = [](std::vector<float> x) {
    const std::vector<float> w(x.size(), 1.0f);
    return std::isfinite(
        certified_bound("grouped_matmul", "y", Line(std::move(x), w).inputs(), {}, "")->stray[0]);
  };
  std::vector<float> close(3, 0.0f);
  close[0] = large;
  close[1] = 0x1.FEp119f;  // the sum is 2^128 - 2^112
  EXPECT_LT(static_cast<double>(large) + static_cast<double>(close[1]), static_cast<double>(most));
  EXPECT_TRUE(finite(close));
  close.resize(65536, 0.0f);  // 2^16 u is a step of 2^120
  EXPECT_FALSE(finite(close));
  EXPECT_FALSE(finite({large, large}));
  EXPECT_FALSE(finite({large, large, -large, -large})) << "some order overflows";
}

}  // namespace
}  // namespace mxo
