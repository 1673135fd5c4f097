// Quantisers with f32 scales: rules at the edges, and the same bytes from every
// backend.
#include "ops/quantize.h"

#include <gtest/gtest.h>

#include <limits>

#include "formats/tensor.h"
#include "tests/support/contestants.h"
#include "tests/support/strided.h"

namespace mxo {
namespace {

using test::Fill;
using test::Lie;
using test::Strided;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(F32Scale, FollowsTorchaoAtTheEdges) {
  const auto scale = [](float amax, bool power) {
    F32ScaleRule rule = kTorchaoRowwise;
    rule.power_of_2 = power ? PowerOfTwo::down : PowerOfTwo::none;
    return f32_scale<kE4M3>(amax, rule, largest_finite<float>());
  };
  EXPECT_EQ(scale(0.0f, true).factor, 0x1p48f);  // 448e12, rounded down
  EXPECT_EQ(scale(0.0f, true).stored, 0x1p-48f);
  EXPECT_EQ(scale(0.0f, false).factor, static_cast<float>(448.0 / 1e-12));
  EXPECT_EQ(scale(448.0f, true).factor, 1.0f);
  EXPECT_EQ(scale(448.5f, true).factor, 0.5f);
  EXPECT_EQ(scale(3.0f, false).factor, 149.3333282470703125f);
  EXPECT_EQ(scale(kInfinity, true).factor, 0.0f);
  EXPECT_EQ(scale(kInfinity, true).stored, kInfinity);
  EXPECT_TRUE(std::isnan(scale(kNan, true).factor));
  EXPECT_TRUE(std::isnan(scale(kNan, true).stored));
}

TEST(F32Scale, FollowsTransformerEngineAtTheEdges) {
  const auto scale = [](float amax, const F32ScaleRule& rule, float input_max) {
    return f32_scale<kE4M3>(amax, rule, input_max);
  };
  const float bf16_max = largest_finite<BF16>();
  EXPECT_EQ(scale(0.0f, kTeBlockwise, bf16_max).stored, 1.0f);
  EXPECT_EQ(scale(kInfinity, kTeBlockwise, bf16_max).factor, 1.0f);
  // 448 / 2^-133 overflows: the largest bf16, whose power of two is 2^127.
  EXPECT_EQ(scale(0x1p-133f, kTeBlockwise, bf16_max).factor, 0x1p127f);
  EXPECT_EQ(scale(0x1p-133f, kTeBlockwise, bf16_max).stored, 0x1p-127f);
  F32ScaleRule plain = kTeBlockwise;
  plain.power_of_2 = PowerOfTwo::none;
  EXPECT_EQ(scale(0x1p-133f, plain, bf16_max).factor, bf16_max);
  // amax below 1e-10 counts as 1e-10: 448e10 is 2^42.03.
  EXPECT_EQ(scale(0.0f, kFlowBlockwise, bf16_max).stored, 0x1p-42f);
  EXPECT_EQ(f32_scale<kE4M3Fnuz>(241.0f, kTeBlockwise, bf16_max).factor, 0.5f);
}

TEST(Blockwise, ANanSpoilsItsBlockInTorchaoAndOnlyItselfInTransformerEngine) {
  Tensor x(Dtype::f32, {1, 129});
  for (Index i = 0; i < 129; ++i) x.as<float>()[i] = 1.0f;
  x.as<float>()[5] = -kNan;
  const auto backend = make_reference_backend();
  for (const bool torchao : {true, false}) {
    Tensor codes(Dtype::e4m3, {1, 129});
    Tensor scales(Dtype::f32, {1, 2});
    quantize(*backend, {x.operand(),
                        {},
                        {codes.result(), scales.result(), kRowBlock},
                        f32_rule(torchao ? kTorchaoBlockwise : kTeBlockwise)});
    const auto* code = codes.as<std::uint8_t>();
    EXPECT_EQ(code[5], 0x7F);
    EXPECT_EQ(code[6], torchao ? 0x7F : 0x78);    // 256 under te: a power of two
    EXPECT_EQ(code[128], torchao ? 0x7E : 0x78);  // the next block does not know
    EXPECT_EQ(std::isnan(scales.as<float>()[0]), torchao);
  }
}

struct Case {
  std::vector<Index> shape;
  std::vector<int> ends;
};

/// Both operators on one x; whole buffers come back, guard bytes included.
std::vector<std::vector<std::byte>> ask(Backend& backend, const Case& c, const Strided& x,
                                        Dtype format, const Lie& lie) {
  std::vector<std::vector<std::byte>> answer;
  Tensor ends(Dtype::i32, {static_cast<Index>(c.ends.size())});
  std::copy(c.ends.begin(), c.ends.end(), ends.as<std::int32_t>());
  const auto keep = [&](const Strided& codes, const Strided& scales) {
    answer.push_back(codes.bytes());
    answer.push_back(scales.bytes());
  };
  for (const bool power : {true, false}) {
    F32ScaleRule rule = kTorchaoRowwise;
    rule.power_of_2 = power ? PowerOfTwo::down : PowerOfTwo::none;
    Strided codes(format, c.shape, lie);
    Strided scales(Dtype::f32, shape_of_scales(c.shape, kWholeRow), {"gaps", 2, 0, 1});
    quantize(backend,
             {x.operand(), {}, {codes.result(), scales.result(), kWholeRow}, f32_rule(rule)});
    keep(codes, scales);
  }
  for (const F32ScaleRule& rule : {kTorchaoBlockwise, kTeBlockwise, kFlowBlockwise}) {
    for (const BlockExtents block : {kRowBlock, kColumnBlock, kSquareBlock}) {
      Strided codes(format, c.shape, lie);
      Strided scales(Dtype::f32, shape_of_scales(c.shape, block), lie);
      quantize(backend,
               {x.operand(), {}, {codes.result(), scales.result(), block}, f32_rule(rule)});
      keep(codes, scales);
    }
  }
  if (c.shape.size() != 2) return answer;
  {
    Strided codes(format, c.shape, lie);
    Strided scales(Dtype::f32, {static_cast<Index>(c.ends.size()), c.shape[1]}, lie);
    quantize(backend, {x.operand(),
                       ends.operand(),
                       {codes.result(), scales.result(), kWholeColumn},
                       f32_rule(kTorchaoRowwise)});
    keep(codes, scales);
  }
  Strided codes(format, c.shape, lie);
  Strided scales(Dtype::f32, {row_blocks(ends.operand(), kScaledBlock) + 1, c.shape[1]}, lie);
  quantize(backend, {x.operand(),
                     ends.operand(),
                     {codes.result(), scales.result(), kColumnBlock},
                     f32_rule(kFlowBlockwise)});
  keep(codes, scales);
  return answer;
}

TEST(F32Scales, EveryBackendGivesTheReferencesBytes) {
  const Case cases[] = {{{300, 200}, {0, 1, 130, 130, 290}},
                        {{7, 2200}, {3, 7}},
                        {{0, 40}, {0, 0}},
                        {{40, 0}, {40}},
                        {{1, 1}, {}},
                        {{2, 130, 129}, {}}};
  const auto reference = make_reference_backend();
  std::vector<std::unique_ptr<Backend>> backends;
  for (const auto& contestant : test::contestants()) backends.push_back(contestant.make());
  const std::vector<Lie> all = test::lies();
  std::uint32_t seed = 0;
  for (const Case& c : cases) {
    for (const Dtype input : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
      for (const Dtype format : {Dtype::e4m3, Dtype::e5m2, Dtype::e4m3fnuz}) {
        const Lie& lie = all[++seed % all.size()];
        Strided x(input, c.shape, all[seed * 3 % all.size()]);
        fill(x, seed % 2 == 0 ? Fill::blocks : Fill::edges, seed);
        const auto before = x.bytes();
        const auto want = ask(*reference, c, x, format, lie);
        for (const auto& backend : backends) {
          EXPECT_EQ(ask(*backend, c, x, format, lie), want)
              << backend->name() << " " << describe(x.operand()) << " " << name_of(format) << " "
              << lie.name;
        }
        EXPECT_EQ(x.bytes(), before);
      }
    }
  }
}

}  // namespace
}  // namespace mxo
