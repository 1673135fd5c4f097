// Scales in f32: of a tensor, of blocks at their edges, and delayed ones.
#include <gtest/gtest.h>

#include <limits>

#include "ops/quantize.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/random_tensors.h"
#include "tests/support/strided.h"

namespace mxo::test::tensor_scales_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor f32(std::vector<Index> shape, const std::vector<float>& values) {
  Tensor t(Dtype::f32, std::move(shape));
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

TEST(GivenScales, MakeTheCodesAndAreStored) {
  std::vector<float> values;
  for (int i = 0; i < 96; ++i) values.push_back(std::sin(static_cast<float>(i)) * 700.0f);
  values[5] = kNan;
  values[6] = -kInfinity;
  for (const std::string& backend : every_backend()) {
    for (const float scale : {0.75f, 2.0f, 0.0f, -0.0f, kNan}) {
      NamedTensors in{{"x", f32({6, 16}, values)}, {"given", f32({1, 1}, {scale})}};
      const auto ask = [&](const char* rule) {
        return call_operator(*make_backend(backend, 2), "quantize", in,
                             settings({std::string("rule=") + rule, "block=RxK"}));
      };
      const auto code = [](float v) { return encode<kE4M3>(v, Overflow::saturate).bits; };
      // TransformerEngine multiplies by what is given, and stores its inverse.  vLLM's is what is
      // stored; its torch path multiplies by the inverse, and keeps NaN.  torchao divides.
      const NamedTensors te = ask("te"), vllm = ask("vllm"), torchao = ask("torchao_tensor");
      const float inverse = scale == 0.0f ? std::copysign(kInfinity, scale) : 1.0f / scale;
      for (Index i = 0; i < 96; ++i) {
        const float x = values[static_cast<std::size_t>(i)];
        const float quotient = scale == 0.0f ? x * inverse : x / scale;
        EXPECT_EQ(te.at("codes").as<std::uint8_t>()[i], code(x * scale)) << backend << scale;
        EXPECT_EQ(vllm.at("codes").as<std::uint8_t>()[i], code(x * inverse)) << backend << scale;
        EXPECT_EQ(torchao.at("codes").as<std::uint8_t>()[i], code(quotient)) << backend << scale;
      }
      if (std::isnan(scale)) continue;
      EXPECT_EQ(te.at("scales").as<float>()[0], inverse);
      EXPECT_EQ(vllm.at("scales").as<float>()[0], scale);
    }
  }
}

TEST(GivenScales, OfAnyBlockGiveWhatAmaxGave) {
  Tensor x(Dtype::bf16, {70, 300});
  for (Index i = 0; i < x.elements(); ++i)
    x.as<BF16>()[i] = encode<kBF16>(std::cos(static_cast<float>(i)) * static_cast<float>(i % 97));
  for (const std::string& backend : every_backend()) {
    for (const std::string block : {"1x128", "128x128", "1xK"}) {
      const bool row = block == "1xK";
      const Parameters set = settings({row ? "rule=aiter" : "rule=deepgemm", "block=" + block});
      NamedTensors in{{"x", x}};
      const NamedTensors first = call_operator(*make_backend(backend, 2), "quantize", in, set);
      in.emplace("given", first.at("scales"));
      const NamedTensors again = call_operator(*make_backend(backend, 2), "quantize", in, set);
      EXPECT_EQ(differing(first.at("codes"), again.at("codes")), 0) << backend << block;
      EXPECT_EQ(differing(first.at("scales"), again.at("scales")), 0) << backend << block;
    }
  }
}

/// amax_and_scale_update of TransformerEngine, as its kernel does it: roll, join, divide.
struct Update {
  std::vector<float> history;
  float scale;
};
Update te_update(std::vector<float> history, float scale, float amax_of_x, bool max, float top) {
  const std::size_t length = history.size();
  const float last = std::fmax(history[0], amax_of_x);
  float amax = 0.0f;
  if (last != 0.0f) {
    std::vector<float> rolled(length);
    for (std::size_t i = 0; i < length; ++i) {
      const float a = i < length - 1 ? history[i + 1] : last;
      amax = std::fmax(amax, a);
      rolled[i] = i > 0 ? a : 0.0f;
    }
    history = rolled;
  }
  if (!max) amax = last;
  float next = std::isfinite(amax) && amax > 0.0f ? top / amax : scale;
  if (std::isinf(next)) next = std::numeric_limits<float>::max();
  return {history, next};
}

TEST(DelayedScale, RollsTheHistoryAsTransformerEngine) {
  const std::vector<float> histories[] = {{1.0f},
                                          {0.0f},
                                          {3.0f, 9.0f, 2.0f, 5.0f},
                                          {0.0f, 9.0f, 2.0f},
                                          {7.0f, 1.0f},
                                          {kNan, 2.0f},
                                          {kInfinity, 1.0f, 4.0f},
                                          {0x1p-149f, 0x1p-140f},
                                          {1e30f, 0, 0, 0},
                                          {2.0f, kInfinity, 0.5f, kNan, 0.25f, 0.125f}};
  for (const std::string& backend : every_backend()) {
    for (const auto& history : histories) {
      for (const bool max : {true, false}) {
        for (const float amax : {0.0f, 6.5f}) {
          NamedTensors in;
          const auto length = static_cast<Index>(history.size());
          in.emplace("history", f32({length}, history));
          in.emplace("scale", f32({1}, {13.0f}));
          if (amax > 0.0f) in.emplace("x", f32({1, 3}, {-amax, kNan, 1.0f}));
          const NamedTensors out = call_operator(
              *make_backend(backend, 2), "delayed_scale", in,
              max ? Parameters() : settings({"amax=most_recent", "format=e5m2", "margin=1"}));
          const float top = max ? 448.0f : 57344.0f / 2;
          const Update want = te_update(history, 13.0f, amax, max, top);
          EXPECT_EQ(out.at("next_scale").as<float>()[0], want.scale) << history[0] << max << amax;
          for (Index i = 0; i < length; ++i) {
            const float got = out.at("next_history").as<float>()[i];
            const float wanted = want.history[static_cast<std::size_t>(i)];
            EXPECT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted))) << i;
          }
        }
      }
    }
  }
}

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
    const ScaledResult to{codes.result(), scales.result(), kRowBlock};
    quantize(*backend, {x.operand(), {}, to, f32_rule(torchao ? kTorchaoBlockwise : kTeBlockwise)});
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
  const Tensor ends = group_ends_of(c.ends);
  const auto keep = [&](const Operand& groups, const F32ScaleRule& rule, BlockExtents block,
                        const std::vector<Index>& of_scales, const Lie& lie_of_scales) {
    Strided codes(format, c.shape, lie);
    Strided scales(Dtype::f32, of_scales, lie_of_scales);
    quantize(backend,
             {x.operand(), groups, {codes.result(), scales.result(), block}, f32_rule(rule)});
    answer.push_back(codes.bytes());
    answer.push_back(scales.bytes());
  };
  for (const bool power : {true, false}) {
    F32ScaleRule rule = kTorchaoRowwise;
    rule.power_of_2 = power ? PowerOfTwo::down : PowerOfTwo::none;
    keep({}, rule, kWholeRow, shape_of_scales(c.shape, kWholeRow), {"gaps", 2, 0, 1});
  }
  for (const F32ScaleRule& rule : {kTorchaoBlockwise, kTeBlockwise, kFlowBlockwise}) {
    for (const BlockExtents block : {kRowBlock, kColumnBlock, kSquareBlock})
      keep({}, rule, block, shape_of_scales(c.shape, block), lie);
  }
  if (c.shape.size() != 2) return answer;
  const Index width = c.shape[1];
  keep(ends.operand(), kTorchaoRowwise, kWholeColumn, {ends.extent(0), width}, lie);
  keep(ends.operand(), kFlowBlockwise, kColumnBlock,
       {row_blocks(ends.operand(), kScaledBlock) + 1, width}, lie);
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
  const auto backends = test::all_backends();
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
        for (const auto& backend : backends)
          EXPECT_EQ(ask(*backend, c, x, format, lie), want)
              << backend->name() << " " << describe(x.operand()) << " " << name_of(format) << " "
              << lie.name;
        EXPECT_EQ(x.bytes(), before);
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::tensor_scales_test
