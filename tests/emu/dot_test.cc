// One output of a product, by hand: exact sums and chains, where scales join them, and what is
// written.
#include "emu/reference/dot.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "ops/scaled_tensor.h"

namespace mxo {
namespace {

constexpr float kUlp = 0x1p-23f;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Two lines of f32 with an f32 scale for every `block` elements, and their product.
struct Lines {
  std::vector<float> a, b, a_scales, b_scales;
  Index block = 2;
  Accumulation sum = kFmaChain;

  ContractionView view(Result out) {
    ContractionView v;
    v.sum = sum;
    v.a = factor(a, a_scales);
    v.b = factor(b, b_scales);
    v.depth = static_cast<Index>(a.size());
    v.out = out;
    return v;
  }
  float f32() {
    Tensor out(Dtype::f32, {1, 1});
    *out.as<float>() = 77.0f;
    write_dot(view(out.result()), 0, 0);
    return *out.as<float>();
  }
  float bf16() {
    Tensor out(Dtype::bf16, {1, 1});
    write_dot(view(out.result()), 0, 0);
    return decode(*out.as<BF16>());
  }

 private:
  Factor factor(const std::vector<float>& codes, const std::vector<float>& scales) const {
    Factor f;
    f.codes = view_of(static_cast<const void*>(codes.data()), Dtype::f32,
                      {1, static_cast<Index>(codes.size())});
    f.step = 1;
    f.rows = 1;
    if (scales.empty()) return f;
    f.scales = view_of(static_cast<const void*>(scales.data()), Dtype::f32,
                       {1, static_cast<Index>(scales.size())});
    f.scales_step = 1;
    f.block = block;
    return f;
  }
};

TEST(Dot, OfExactIsRoundedOnce) {
  Lines lines{{1, 0x1p-24f, 0x1p-24f}, {1, 1, 1}, {}, {}};
  lines.sum = kExact;
  EXPECT_EQ(lines.f32(), 1 + kUlp);
  EXPECT_EQ(lines.bf16(), 1.0f);
  lines.a[1] = 0x1p-8f;
  EXPECT_EQ(lines.bf16(), 1 + 0x1p-7f) << "just above the half";
  lines = {{3, 5, 7}, {2, 4, 8}, {0.5f, 16}, {2, 0.25f}, 2, kExact};
  EXPECT_EQ(lines.f32(), 3 * 2 + 5 * 4 + 7 * 8 * 4.0f) << "each with its own scales";
  lines.a[2] = kNan;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0x7FC00000u);
  lines = {{2}, {3}, {0x1p100f}, {0x1p-100f}, 1, kExact};
  EXPECT_EQ(lines.f32(), 6.0f) << "no product of scales is rounded";
}

TEST(Dot, OfNothingIsZero) {
  for (const Accumulation& sum : {kExact, kFmaChain}) {
    Lines lines{{}, {}, {}, {}, 2, sum};
    EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.bf16()), 0u);
    lines.a_scales = lines.b_scales = {kNan};
    lines.sum.fold = Fold::after;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0u) << "whatever scales there are";
  }
}

TEST(Dot, OfAChainIsRoundedAtEveryStep) {
  Lines lines{{1, 0x1p-24f, 0x1p-24f}, {1, 1, 1}, {}, {}};
  lines.sum.fold = Fold::term;
  EXPECT_EQ(lines.f32(), 1.0f);
  lines.a = {0x1p-24f, 0x1p-24f, 1};
  EXPECT_EQ(lines.f32(), 1 + kUlp) << "in order";
  lines.a = {1 + kUlp, -1, 0};
  lines.b = {1 - kUlp, 1, 0};
  EXPECT_EQ(lines.f32(), std::fma(-1.0f, 1.0f, std::fma(1 + kUlp, 1 - kUlp, 0.0f)));
  lines.b = {1, 1 - kUlp, 0};
  EXPECT_EQ(lines.f32(), std::fma(-1.0f, 1 - kUlp, 1 + kUlp)) << "products are not rounded";
  lines.a[2] = -kNan;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0x7FC00000u);
}

TEST(Dot, ScalesOfTermsAreRoundedIntoThem) {
  const float odd = 1 + kUlp;
  Lines lines{{odd, 3}, {odd, 5}, {odd, 1}, {odd, 1}, 1};
  lines.sum.fold = Fold::term;
  const float term = odd * odd;
  EXPECT_EQ(lines.f32(), std::fma(3.0f, 5.0f, term * term));
  EXPECT_NE(term, odd);
}

TEST(Dot, ScalesOfBlocksJoinTheirSums) {
  const float odd = 1 + kUlp;
  Lines lines{{3, 5, 7, 1, 9}, {1, 3, 1, 2, 5}, {odd, 3, odd}, {odd, odd, 7}, 2};
  lines.sum.block = 2;
  const float p[] = {3 + 15, 7 + 2, 45};
  const auto joined = [&](Fold fold) {
    lines.sum.fold = fold;
    return lines.f32();
  };
  float x_then_w = 0, joint = 0, joint_add = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const float sx = lines.a_scales[i];
    const float sw = lines.b_scales[i];
    x_then_w = std::fma(p[i] * sx, sw, x_then_w);
    joint = std::fma(p[i], sx * sw, joint);
    joint_add = joint_add + p[i] * (sx * sw);
  }
  EXPECT_EQ(joined(Fold::x_then_w), x_then_w);
  EXPECT_EQ(joined(Fold::joint), joint);
  EXPECT_EQ(joined(Fold::joint_add), joint_add);
  lines.a.pop_back();
  lines.b.pop_back();
  lines.a_scales[2] = kNan;
  EXPECT_EQ(joined(Fold::x_then_w), std::fma(p[1] * 3, odd, p[0] * odd * odd))
      << "there is no third block";
}

TEST(Dot, ScalesAfterTheSumMultiplyInTurn) {
  const float odd = 1 + kUlp;
  Lines lines{{3, 5}, {odd, 7}, {odd}, {3}, 2};
  lines.sum.fold = Fold::after;
  const float chain = std::fma(5.0f, 7.0f, 3 * odd);
  EXPECT_EQ(lines.f32(), chain * odd * 3);
  lines.a_scales[0] = kNan;
  EXPECT_EQ(std::bit_cast<std::uint32_t>(lines.f32()), 0x7FC00000u);
}

TEST(Dot, IsWrittenInItsPlaceAlone) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {10, 20, 30, 40, 50, 60};
  for (const Dtype type : {Dtype::f32, Dtype::bf16}) {
    Tensor out(type, {2, 3});
    ContractionView v;
    v.sum = kExact;
    v.a.codes = view_of(static_cast<const void*>(a.data()), Dtype::f32, {2, 2});
    v.b.codes = view_of(static_cast<const void*>(b.data()), Dtype::f32, {3, 2});
    v.a.step = v.b.step = 1;
    v.a.row_step = v.b.row_step = 2;
    v.depth = 2;
    v.out = out.result();
    v.out_row_step = 3;
    v.out_column_step = 1;
    write_dot(v, 1, 2);
    for (Index i = 0; i < 6; ++i) {
      const float value = type == Dtype::f32 ? out.as<float>()[i] : decode(out.as<BF16>()[i]);
      EXPECT_EQ(value, i == 5 ? 3.0f * 50 + 4 * 60 : 0.0f) << i;
    }
  }
}

}  // namespace
}  // namespace mxo
