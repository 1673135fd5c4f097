// Certified bounds of products against the formulas of docs/gates.md, written out for one output.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "emu/backends.h"
#include "formats/error.h"
#include "golden/judge/elements.h"
#include "golden/judge/rounding_step.h"
#include "golden/judge/sum_error.h"
#include "golden/museum/operands.h"
#include "tests/golden/tensors.h"

namespace mxo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// k that share both scales.
struct Stretch {
  double sum = 0;
  double magnitude = 0;
  double binade = 0;
  double sx = 1;
  double sw = 1;
};

/// What a claim of a sum says of a stretch of `k`, of which it makes `restarts` sums.
struct Claim {
  std::optional<Accumulation> sum;
  Index k = 0;
  long double restarts = 1;
};

double allowed_by_the_formula(const std::vector<Stretch>& stretches, const Claim& claim,
                              bool scaled) {
  constexpr long double u = 0x1p-24L;
  const bool exact = claim.sum && claim.sum->family == SumFamily::exact;
  const SumError error =
      claim.sum ? SumError::of(*claim.sum, claim.k) : SumError::any_order(claim.k);
  const long double pieces = static_cast<long double>(stretches.size()) * claim.restarts +
                             (claim.sum ? claim.sum->split : 1);
  long double total = 0;
  long double reach = 0;
  long double stray = 0;
  for (const Stretch& at : stretches) {
    const long double d = static_cast<long double>(claim.k + 4) * 0x1p-53L;  // of the doubles
    const long double a = at.magnitude * (1 + d);
    const long double e = error(static_cast<double>(a), at.binade) + a * d;
    const long double p = a + e;
    const long double s = std::fabs(at.sx * at.sw);
    total += at.sum * (at.sx * at.sw);
    reach += a * s;
    stray += e * s;
    if (!scaled || exact) continue;
    stray += 3 * u * (1 + 0x1p-20L) * p * s +
             pieces * 0x1p-149L * (p + std::fabs(at.sx) + std::fabs(at.sw) + 2);
  }
  if (scaled && !exact) stray += pieces * ((reach + stray) * u + 0x1p-149L);
  if (scaled) stray += reach * (pieces + 4) * 0x1p-52L;
  return half_step(Dtype::f32, static_cast<double>(std::fabs(total) + stray)) +
         static_cast<double>(stray);
}

double binade_of(double value, int least) {
  return value == 0 ? 0 : std::ldexp(1.0, std::max(std::ilogb(value), least));
}

/// x [3, K] by w [2, 130, K] with scales of f32; `rows`: of each row of x.
struct Product {
  Product(Backend& backend, Index depth, bool by_rows) : k(depth), rows(by_rows) {
    for (const std::string name : {"x", "w"}) {
      const bool is_x = name == "x";
      NamedTensors call;
      call.emplace("x",
                   random_floats(is_x ? std::vector<Index>{3, k} : std::vector<Index>{2, 130, k},
                                 is_x ? 3 : 4));
      Parameters quantiser;
      quantiser.set("block", is_x ? (rows ? "1xK" : "1x128") : "128x128");
      quantiser.set("scale", "f32");
      NamedTensors out = call_operator(backend, "quantize", call, quantiser);
      for (Index i = 0; i < out.at("scales").elements(); ++i) {
        // The same product, of scales that are small both or large and small.
        const int exponent = !rows ? -70 : is_x ? 30 : -130;
        out.at("scales").as<float>()[i] *= std::ldexp(1.0f, static_cast<int>(i % 5) + exponent);
      }
      in.emplace(name + ".codes", std::move(out.at("codes")));
      in.emplace(name + ".scales", std::move(out.at("scales")));
    }
    in.emplace("group_ends", ends_of({1, 2}));
    set.set("block_x", rows ? "1xK" : "1x128");
    set.set("block_w", "128x128");
  }
  double scale(const char* name, Index at) const {
    return static_cast<double>(in.at(name).as<float>()[at]);
  }
  std::vector<Stretch> stretches(Index r, Index n) const {
    const ElementReader read(Dtype::e4m3);
    const Index blocks = ceil_div(k, Index{128});
    std::vector<Stretch> all;
    for (Index b = 0; b < blocks; ++b) {
      Stretch at;
      at.sx = scale("x.scales", rows ? r : r * blocks + b);
      at.sw = scale("w.scales", (r * 2 + n / 128) * blocks + b);
      for (Index i = b * 128; i < std::min<Index>(k, (b + 1) * 128); ++i) {
        const double x = read(bits_at(in.at("x.codes"), r * k + i)).value;
        const double w = read(bits_at(in.at("w.codes"), (r * 130 + n) * k + i)).value;
        at.sum += x * w;
        at.magnitude += std::fabs(x * w);
        at.binade = std::max(at.binade, binade_of(x, -6) * binade_of(w, -6));
      }
      all.push_back(at);
    }
    return all;
  }

  Index k;
  bool rows;
  NamedTensors in;
  Parameters set;
};

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
      Product product(*backend, depth, rows);
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
      Claim claim;
      claim.k = std::min(depth, 128);
      claim.restarts = std::max<Index>(1, row.restarts * claim.k / 128);
      if (*row.claim != '\0') {
        Parameters chosen = product.set;
        chosen.set("sum", row.claim);
        claim.sum =
            settled_sum("", sum_from(chosen, OperandKind::fp8), true, true, depth > 128 ? 128 : 0);
      }
      const auto bound =
          certified_bound("grouped_matmul", "y", product.in, product.set, Dtype::f32, row.claim);
      ASSERT_TRUE(bound);
      ASSERT_EQ(bound->allowed.size(), 3u * 130u);
      for (std::size_t i = 0; i < bound->allowed.size(); ++i) {
        const Index r = static_cast<Index>(i) / 130;
        if (r == 2) {  // of no group
          EXPECT_EQ(bound->exact[i], 0);
          EXPECT_EQ(bound->allowed[i], kInf);
          continue;
        }
        const auto stretches = product.stretches(r, static_cast<Index>(i) % 130);
        double total = 0;
        for (const Stretch& at : stretches) total += at.sum * (at.sx * at.sw);
        const double formula = allowed_by_the_formula(stretches, claim, true);
        EXPECT_NEAR(bound->exact[i], total, std::fabs(total) * 1e-15);
        ASSERT_GE(bound->allowed[i], formula * (1 - 1e-15)) << row.claim << " " << depth;
        ASSERT_LE(bound->allowed[i], formula * (1 + 1e-11)) << row.claim << " " << depth;
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
      Claim made;
      made.k = 5;
      if (!claim.empty()) made.sum = sum_named(claim, OperandKind::bf16);
      const auto bound =
          certified_bound("grouped_matmul", "y", line.inputs(), {}, Dtype::f32, claim);
      const double formula = allowed_by_the_formula({at}, made, false);
      EXPECT_EQ(bound->exact[0], at.sum);
      EXPECT_GE(bound->allowed[0], formula * (1 - 1e-15)) << claim << " " << size;
      EXPECT_LE(bound->allowed[0], formula * (1 + 1e-11)) << claim << " " << size;
    }
  }
}

TEST(BoundFormula, PromisesNothingWhereAStepMayOverflow) {
  const auto backend = make_cpu_backend();
  const auto finite = [&](float sx, float sw, float code, Index block) {
    Product product(*backend, 256, false);
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
        certified_bound("grouped_matmul", "y", product.in, product.set, Dtype::f32, "")
            ->allowed[0]);
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
        certified_bound("grouped_matmul", "y", Line(std::move(x), w).inputs(), {}, Dtype::f32, "")
            ->allowed[0]);
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

/// The least scale times the least code is no bf16: a machine that dequantises first has zeros.
TEST(BoundFormula, DequantisesForTheMachinesThatDo) {
  const auto exact = [](const char* op, const char* output, const NamedTensors& in,
                        const char* claim) {
    return certified_bound(op, output, in, {}, Dtype::f32, claim)->exact[0];
  };
  for (const bool gradient : {false, true}) {
    for (const bool second : {false, true}) {
      const std::string a = gradient ? "dy" : "x";
      const std::string b = gradient ? "x" : "w";
      NamedTensors in;
      for (const std::string& name : {a, b}) {
        const bool tiny = (name == b) == second;
        std::vector<Index> codes = gradient ? std::vector<Index>{32, 1} : std::vector<Index>{1, 32};
        std::vector<Index> scales{1, 1};
        if (name == "w") {
          codes = {1, 1, 32};
          scales = {1, 1, 1};
        }
        in.emplace(name + ".codes", Tensor(Dtype::u8, codes));
        in.emplace(name + ".scales", Tensor(Dtype::u8, scales));
        in.at(name + ".codes").as<std::uint8_t>()[0] = tiny ? 0x01 : 0x38;
        in.at(name + ".scales").as<std::uint8_t>()[0] = tiny ? 0 : 227;  // 2^-127, 2^100
      }
      in.emplace("group_ends", ends_of({gradient ? 32 : 1}));
      const char* op = gradient ? "grouped_matmul_wgrad" : "grouped_matmul";
      const char* output = gradient ? "dw" : "y";
      for (const char* claim : {"", "exact", "fma_chain", "b200_mxf8f6f4"}) {
        EXPECT_EQ(exact(op, output, in, claim), 0x1p-36) << op << " " << claim;
      }
      EXPECT_EQ(exact(op, output, in, "h200_wgmma_fast"), 0) << op;
    }
  }
}

/// Operands without scales beside those of f32: their scale is 1.
TEST(BoundFormula, HoldsForScalesOfOneSide) {
  const auto backend = make_cpu_backend();
  for (const std::string plain : {"x", "w"}) {
    for (const char* claim : {"", "exact", "fma_chain"}) {
      Product product(*backend, 300, false);
      const Tensor codes = std::move(product.in.at(plain + ".codes"));
      product.in.erase(plain + ".codes");
      product.in.erase(plain + ".scales");
      Tensor values(Dtype::bf16, codes.shape());
      const ElementReader read(Dtype::e4m3);
      for (Index i = 0; i < codes.elements(); ++i) {
        values.as<BF16>()[i] = encode<kBF16>(static_cast<float>(read(bits_at(codes, i)).value));
      }
      product.in.emplace(plain, std::move(values));
      Parameters set;
      if (plain == "w") set.set("block_x", "1x128");
      if (plain == "x") set.set("block_w", "128x128");
      const auto bound = certified_bound("grouped_matmul", "y", product.in, set, Dtype::f32, claim);
      ASSERT_TRUE(bound);
      Product with_codes(*backend, 300, false);
      for (Index i = 0; i < 260; ++i) {
        std::vector<Stretch> stretches = with_codes.stretches(i / 130, i % 130);
        for (Stretch& at : stretches) (plain == "x" ? at.sx : at.sw) = 1;
        Claim made;
        made.k = 128;
        if (*claim != '\0') made.sum = sum_named(claim);
        const double formula = allowed_by_the_formula(stretches, made, true);
        const auto at = static_cast<std::size_t>(i);
        ASSERT_GE(bound->allowed[at], formula * (1 - 1e-15)) << plain << " " << claim;
        ASSERT_LE(bound->allowed[at], formula * (1 + 1e-11)) << plain << " " << claim;
      }
    }
  }
}

TEST(BoundFormula, HoldsForGradientsOfEveryGroup) {
  const std::vector<float> a{0x1p9f, -3, 0, 0x1p-3f, 5, -0x1p-9f};
  const std::vector<float> b{2, 0x1p5f, 1, -0x1p-6f, 0x1p-9f, 7};
  for (const char* scaled : {"", "dy", "x"}) {
    for (const std::string claim : {"", "exact", "fma_chain", "h200_wgmma_fast"}) {
      if (claim == "h200_wgmma_fast" && *scaled != '\0') continue;  // takes no mixture
      NamedTensors in;
      Parameters set;
      for (const std::string name : {"dy", "x"}) {
        const std::vector<float>& values = name == "dy" ? a : b;
        const bool codes = name == scaled;
        Tensor t(codes ? Dtype::u8 : Dtype::bf16, {6, 1});
        for (std::size_t i = 0; i < values.size(); ++i) {
          if (codes) t.as<std::uint8_t>()[i] = encode<kE4M3>(values[i] / 4).bits;
          if (!codes) t.as<BF16>()[i] = encode<kBF16>(values[i]);
        }
        in.emplace(codes ? name + ".codes" : name, std::move(t));
        if (!codes) continue;
        in.emplace(name + ".scales", floats({2, 1}, {4, 4}));
        set.set("block_" + name, "128x1");
      }
      in.emplace("group_ends", ends_of({2, 6}));
      const auto bound = certified_bound("grouped_matmul_wgrad", "dw", in, set, Dtype::f32, claim);
      ASSERT_TRUE(bound);
      for (std::size_t group = 0; group < 2; ++group) {
        Stretch at;
        if (*scaled != '\0') (*scaled == 'd' ? at.sx : at.sw) = 4;
        Claim made;
        made.k = group == 0 ? 2 : 4;
        if (!claim.empty()) made.sum = sum_named(claim, OperandKind::bf16);
        for (std::size_t i = group == 0 ? 0 : 2; i < (group == 0 ? 2u : 6u); ++i) {
          const bool coded = *scaled != '\0';
          const float value = *scaled == 'x' ? b[i] : a[i];
          const double rounded = coded ? static_cast<double>(decode(encode<kE4M3>(value / 4)))
                                       : static_cast<double>(value);
          const double other = static_cast<double>(*scaled == 'x' ? a[i] : b[i]);
          at.sum += rounded * other;
          at.magnitude += std::fabs(rounded * other);
          at.binade = std::max(at.binade, binade_of(rounded, -126) * binade_of(other, -126));
        }
        const double formula = allowed_by_the_formula({at}, made, *scaled != '\0');
        EXPECT_EQ(bound->exact[group], at.sum * at.sx * at.sw) << scaled << " " << claim;
        EXPECT_GE(bound->allowed[group], formula * (1 - 1e-15)) << scaled << " " << claim;
        EXPECT_LE(bound->allowed[group], formula * (1 + 1e-11)) << scaled << " " << claim;
      }
    }
  }
}

TEST(BoundFormula, ScalesAfterTheSumChangeNowhereAlongIt) {
  const auto backend = make_cpu_backend();
  const auto takes = [&](const char* block_x, const char* block_w, Index depth) {
    NamedTensors in;
    Parameters set;
    for (const std::string name : {"x", "w"}) {
      NamedTensors call;
      call.emplace("x", random_floats(name == "x" ? std::vector<Index>{4, depth}
                                                  : std::vector<Index>{1, 8, depth},
                                      1));
      Parameters quantiser;
      quantiser.set("block", name == "x" ? block_x : block_w);
      quantiser.set("scale", "f32");
      NamedTensors out = call_operator(*backend, "quantize", call, quantiser);
      in.emplace(name + ".codes", std::move(out.at("codes")));
      in.emplace(name + ".scales", std::move(out.at("scales")));
      set.set("block_" + name, name == "x" ? block_x : block_w);
    }
    in.emplace("group_ends", ends_of({4}));
    set.set("sum", "fma_chain");
    set.set("sum.fold", "after");
    try {
      return certified_bound("grouped_matmul", "y", in, set, Dtype::f32, "fma_chain").has_value();
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(takes("1xK", "1xK", 256));
  EXPECT_FALSE(takes("1x128", "1xK", 256));
  EXPECT_FALSE(takes("1xK", "128x128", 256));
  EXPECT_FALSE(takes("1x128", "128x128", 256));
}

TEST(BoundFormula, IsTheSameWithItsSidesExchanged) {
  const auto backend = make_cpu_backend();
  const auto allowed = [&](const char* block_x, const char* block_w, const char* claim) {
    NamedTensors in;
    Parameters set;
    for (const std::string name : {"x", "w"}) {
      const std::string block = name == "x" ? block_x : block_w;
      NamedTensors call;
      call.emplace(
          "x", random_floats(
                   name == "x" ? std::vector<Index>{1, 256} : std::vector<Index>{1, 1, 256}, 1));
      Parameters quantiser;
      quantiser.set("block", block);
      quantiser.set("scale", "f32");
      NamedTensors out = call_operator(*backend, "quantize", call, quantiser);
      in.emplace(name + ".codes", std::move(out.at("codes")));
      in.emplace(name + ".scales", std::move(out.at("scales")));
      set.set("block_" + name, block);
    }
    in.emplace("group_ends", ends_of({1}));
    return certified_bound("grouped_matmul", "y", in, set, Dtype::f32, claim)->allowed[0];
  };
  for (const char* claim : {"", "exact", "h200_wgmma_fast", "ada_mma"}) {
    EXPECT_EQ(allowed("1x128", "1xK", claim), allowed("1xK", "1x128", claim)) << claim;
  }
}

/// What is no block of the formulas, and e8m0 beside f32: a kernel may multiply those first.
TEST(BoundFormula, IsNoneForScalesOfOtherBlocks) {
  const auto backend = make_cpu_backend();
  struct Side {
    const char* block;
    const char* scale;
  };
  const auto bounded = [&](Side a, Side b, bool gradient) {
    NamedTensors in;
    Parameters set;
    const std::string first = gradient ? "dy" : "x";
    const std::string second = gradient ? "x" : "w";
    for (const std::string& name : {first, second}) {
      const Side& side = name == first ? a : b;
      NamedTensors call;
      call.emplace("x", random_floats(name == "w" ? std::vector<Index>{1, 128, 128}
                                                  : std::vector<Index>{128, 128},
                                      2));
      Parameters quantiser;
      quantiser.set("block", side.block);
      quantiser.set("scale", side.scale);
      NamedTensors out = call_operator(*backend, "quantize", call, quantiser);
      in.emplace(name + ".codes", std::move(out.at("codes")));
      in.emplace(name + ".scales", std::move(out.at("scales")));
      set.set("block_" + name, side.block);
    }
    in.emplace("group_ends", ends_of({128}));
    const char* op = gradient ? "grouped_matmul_wgrad" : "grouped_matmul";
    call_operator(*backend, op, in, set);  // takes them
    return certified_bound(op, gradient ? "dw" : "y", in, set, Dtype::f32, "").has_value();
  };
  const Side rows{"1x32", "e8m0"}, columns{"32x1", "e8m0"}, square{"32x32", "e8m0"};
  const Side numbers{"1x128", "f32"}, below{"128x1", "f32"}, half{"1x64", "f32"};
  EXPECT_TRUE(bounded(rows, rows, false));
  EXPECT_TRUE(bounded(numbers, numbers, false));
  EXPECT_TRUE(bounded(columns, columns, true));
  EXPECT_TRUE(bounded(below, below, true));
  for (const auto& [one, other] : {std::pair{numbers, half}, {rows, square}, {rows, numbers}}) {
    EXPECT_FALSE(bounded(one, other, false)) << other.block;
    EXPECT_FALSE(bounded(other, one, false)) << other.block;
  }
  for (const auto& [one, other] : {std::pair{columns, square}, {columns, below}}) {
    EXPECT_FALSE(bounded(one, other, true)) << other.block;
    EXPECT_FALSE(bounded(other, one, true)) << other.block;
  }
}

TEST(BoundFormula, RefusesClaimsOfOtherOperands) {
  const auto backend = make_cpu_backend();
  const Product product(*backend, 128, false);
  const auto said = [&](const char* claim) -> std::string {
    try {
      certified_bound("grouped_matmul", "y", product.in, product.set, Dtype::f32, claim);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(said("h200_wgmma_fast"), "");
  EXPECT_NE(said("b200_mxf8f6f4").find("b200_mxf8f6f4"), std::string::npos);
  EXPECT_NE(said("mi300_mfma").find("mi300_mfma"), std::string::npos);
  EXPECT_FALSE(certified_bound("grouped_matmul", "dw", product.in, product.set, Dtype::f32, ""));
  EXPECT_FALSE(certified_bound("quantize", "dw", product.in, product.set, Dtype::f32, ""));
  EXPECT_FALSE(
      certified_bound("grouped_matmul_wgrad", "y", product.in, product.set, Dtype::f32, ""));
}

}  // namespace
}  // namespace mxo
