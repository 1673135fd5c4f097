// Bounds of other operands than codes with f32 scales on both sides, and of what has none.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "formats/error.h"
#include "tests/golden/bound_formula.h"
#include "tests/support/refusal.h"

namespace mxo {
namespace {

using namespace by_formula;

/// The least scale times the least code is no bf16: a machine that dequantises first has zeros.
TEST(BoundOperands, DequantisesForTheMachinesThatDo) {
  const auto exact = [](const char* op, const char* output, const NamedTensors& in,
                        const char* claim) {
    return certified_bound(op, output, in, {}, claim)->exact[0];
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
TEST(BoundOperands, HoldsForScalesOfOneSide) {
  const auto backend = make_cpu_backend();
  for (const std::string plain : {"x", "w"}) {
    for (const char* claim : {"", "exact", "fma_chain"}) {
      Multiplied product(*backend, 300, false);
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
      const auto bound = certified_bound("grouped_matmul", "y", product.in, set, claim);
      ASSERT_TRUE(bound);
      Multiplied with_codes(*backend, 300, false);
      for (Index i = 0; i < 260; ++i) {
        std::vector<Stretch> stretches = with_codes.stretches(i / 130, i % 130);
        for (Stretch& at : stretches) (plain == "x" ? at.sx : at.sw) = 1;
        Claimed made;
        made.k = 128;
        if (*claim != '\0') made.sum = sum_named(claim);
        const double formula = stray_by_the_formula(stretches, made, true);
        const auto at = static_cast<std::size_t>(i);
        ASSERT_GE(bound->stray[at], formula * (1 - 1e-15)) << plain << " " << claim;
        ASSERT_LE(bound->stray[at], formula * (1 + 1e-11)) << plain << " " << claim;
      }
    }
  }
}

TEST(BoundOperands, HoldsForGradientsOfEveryGroup) {
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
      const auto bound = certified_bound("grouped_matmul_wgrad", "dw", in, set, claim);
      ASSERT_TRUE(bound);
      for (std::size_t group = 0; group < 2; ++group) {
        Stretch at;
        if (*scaled != '\0') (*scaled == 'd' ? at.sx : at.sw) = 4;
        Claimed made;
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
        const double formula = stray_by_the_formula({at}, made, *scaled != '\0');
        EXPECT_EQ(bound->exact[group], at.sum * at.sx * at.sw) << scaled << " " << claim;
        EXPECT_GE(bound->stray[group], formula * (1 - 1e-15)) << scaled << " " << claim;
        EXPECT_LE(bound->stray[group], formula * (1 + 1e-11)) << scaled << " " << claim;
      }
    }
  }
}

TEST(BoundOperands, ScalesAfterTheSumChangeNowhereAlongIt) {
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
      return certified_bound("grouped_matmul", "y", in, set, "fma_chain").has_value();
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(takes("1xK", "1xK", 256));
  EXPECT_FALSE(takes("1x128", "1xK", 256));
  EXPECT_FALSE(takes("1xK", "128x128", 256));
  EXPECT_FALSE(takes("1x128", "128x128", 256));
}

TEST(BoundOperands, IsTheSameWithItsSidesExchanged) {
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
    return certified_bound("grouped_matmul", "y", in, set, claim)->stray[0];
  };
  for (const char* claim : {"", "exact", "h200_wgmma_fast", "ada_mma"}) {
    EXPECT_EQ(allowed("1x128", "1xK", claim), allowed("1xK", "1x128", claim)) << claim;
  }
}

/// What is no block of the formulas, and e8m0 beside f32: a kernel may multiply those first.
TEST(BoundOperands, IsNoneForScalesOfOtherBlocks) {
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
    return certified_bound(op, gradient ? "dw" : "y", in, set, "").has_value();
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

/// dw = main_grad + p is another sum than p.
TEST(BoundOperands, IsNoneOfWhatJoinsAMainGradient) {
  NamedTensors in;
  in.emplace("dy", Tensor(Dtype::bf16, {4, 2}));
  in.emplace("x", Tensor(Dtype::bf16, {4, 3}));
  in.emplace("group_ends", ends_of({4}));
  EXPECT_TRUE(certified_bound("grouped_matmul_wgrad", "dw", in, {}, ""));
  in.emplace("main_grad", Tensor(Dtype::f32, {1, 2, 3}));
  EXPECT_FALSE(certified_bound("grouped_matmul_wgrad", "dw", in, {}, ""));
}

TEST(BoundOperands, RefusesClaimsOfOtherOperands) {
  const auto backend = make_cpu_backend();
  const Multiplied product(*backend, 128, false);
  const auto said = [&](const char* claim) -> std::string {
    return refusal([&] { certified_bound("grouped_matmul", "y", product.in, product.set, claim); });
  };
  EXPECT_EQ(said("h200_wgmma_fast"), "");
  EXPECT_NE(said("b200_mxf8f6f4").find("b200_mxf8f6f4"), std::string::npos);
  EXPECT_NE(said("mi300_mfma").find("mi300_mfma"), std::string::npos);
  EXPECT_FALSE(certified_bound("grouped_matmul", "dw", product.in, product.set, ""));
  EXPECT_FALSE(certified_bound("quantize", "dw", product.in, product.set, ""));
  EXPECT_FALSE(certified_bound("grouped_matmul_wgrad", "y", product.in, product.set, ""));
}

}  // namespace
}  // namespace mxo
