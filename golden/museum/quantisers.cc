// Faults of quantisers and of what follows them.
#include <algorithm>
#include <cmath>

#include "golden/museum/faults.h"
#include "golden/museum/operands.h"

namespace mxo {
namespace {

std::uint8_t nearest_even(float v) { return encode<kE4M3>(v, Overflow::saturate).bits; }

int exponent_of(float amax) { return static_cast<int>(std::floor(std::log2(amax))); }
int rceil_byte(float amax) {
  return static_cast<int>(std::ceil(std::log2(static_cast<double>(amax) / 448.0))) + 127;
}

/// The code below, and whether there is one above.
std::uint8_t truncated(float v) {
  const std::uint8_t near = nearest_even(v);
  const float back = decode(E4M3{near});
  return std::fabs(back) > std::fabs(v) ? static_cast<std::uint8_t>(near - 1) : near;
}

std::uint8_t ties_away(float v) {
  const std::uint8_t low = truncated(v);
  if ((low & 0x7F) >= 0x7E) return low;
  const double a = std::fabs(static_cast<double>(decode(E4M3{low})));
  const double c = std::fabs(static_cast<double>(decode(E4M3{static_cast<std::uint8_t>(low + 1)})));
  return std::fabs(static_cast<double>(v)) * 2.0 >= a + c ? static_cast<std::uint8_t>(low + 1)
                                                          : low;
}

/// How blocks become bytes: the scale byte of amax, and the code of a quotient.
struct MxRule {
  int (*byte_of)(float amax);
  std::uint8_t (*code_of)(float quotient);
};

/// The codes of one block by a rule, and its scale; nothing where amax is no positive number.
struct MxBlock {
  std::uint8_t scale = 0;
  std::uint8_t codes[32] = {};
};
std::optional<MxBlock> block_by(const MxRule& rule, const Tensor& x, Index begin) {
  float amax = 0.0f;
  for (Index i = begin; i < begin + 32; ++i) {
    if (!std::isfinite(value_of(x, i))) return std::nullopt;
    amax = std::max(amax, std::fabs(value_of(x, i)));
  }
  if (amax == 0.0f) return std::nullopt;
  MxBlock block;
  block.scale = static_cast<std::uint8_t>(std::clamp(rule.byte_of(amax), 0, 254));
  for (Index i = 0; i < 32; ++i) {
    block.codes[i] = rule.code_of(std::ldexp(value_of(x, begin + i), 127 - block.scale));
  }
  return block;
}

/// Blocks of e4m3 by a rule of this fault, where the usual rule gives the right answer.
Answer by_rule(const Call& call, const NamedTensors& right, const MxRule& rule) {
  const Tensor& x = call.input("x");
  if (!has_defaults(call) || x.dtype() == Dtype::f16 || x.rank() == 0 ||
      x.shape().back() % 32 != 0) {
    return std::nullopt;
  }
  const MxRule usual{rceil_byte, nearest_even};
  NamedTensors out = right;
  std::uint8_t* codes = out.at("codes").as<std::uint8_t>();
  std::uint8_t* scales = out.at("scales").as<std::uint8_t>();
  for (Index b = 0; b * 32 < x.elements(); ++b) {
    const auto sound = block_by(usual, x, b * 32);
    if (!sound || sound->scale != scales[b] ||
        !std::equal(sound->codes, sound->codes + 32, codes + b * 32)) {
      continue;
    }
    const auto wrong = block_by(rule, x, b * 32);
    scales[b] = wrong->scale;
    std::copy(wrong->codes, wrong->codes + 32, codes + b * 32);
  }
  return out;
}

Answer no_emax(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right, {[](float a) { return exponent_of(a) + 127; }, nearest_even});
}

/// log2(amax / 448) as an exponent, rounded.
template <double (*kRound)(double)>
int quotient_byte(float amax) {
  return static_cast<int>(kRound(std::log2(static_cast<double>(amax) / 448.0))) + 127;
}
Answer nearest_exponent(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right, {quotient_byte<std::round>, nearest_even});
}
Answer floor_quotient(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right, {quotient_byte<std::floor>, nearest_even});
}
Answer away(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right, {rceil_byte, ties_away});
}
Answer cut(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right, {rceil_byte, truncated});
}
Answer clamped(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right, {rceil_byte, [](float v) {
                                 return nearest_even(std::clamp(v, -256.0f, 256.0f));
                               }});
}
Answer all_to_448(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right,
                 {rceil_byte, [](float v) {
                    return nearest_even(std::fabs(v) > 256.0f ? std::copysign(448.0f, v) : v);
                  }});
}
Answer flushed(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(call, right, {rceil_byte, [](float v) {
                                 const std::uint8_t code = nearest_even(v);
                                 return (code & 0x78) == 0 ? static_cast<std::uint8_t>(code & 0x80)
                                                           : code;
                               }});
}
Answer aiter_even(Backend&, const Call& call, const NamedTensors& right) {
  return by_rule(
      call, right,
      {[](float a) { return static_cast<int>((bit_cast<std::uint32_t>(a) + 0x200000u) >> 23) - 8; },
       nearest_even});
}

Call fine_operands(Backend&, World&, std::uint64_t seed) {
  NamedTensors in;
  in.emplace("x", random_floats({160, 256}, seed));
  return make_call("quantize", in, {});
}

Answer bf16_first(Backend& b, const Call& call, const NamedTensors&) {
  return with_operand(b, call, "x", [](Tensor& x, const Tensor&) {
    for (Index i = 0; x.dtype() == Dtype::f32 && i < x.elements(); ++i) {
      x.as<float>()[i] = decode(encode<kBF16>(x.as<float>()[i]));
    }
    return x.dtype() == Dtype::f32;
  });
}

Call blockwise_operands(Backend&, World&, std::uint64_t seed) {
  NamedTensors in;
  Tensor x = coarse_floats({160, 512}, seed);
  // In every second block the largest value makes the scale a power of two: ties are met.
  for (Index i = 128 * 5 + 9; i < x.elements(); i += 256) {
    x.as<float>()[i] = 448.0f * std::exp2(std::ceil(std::log2(200.0f)));
  }
  in.emplace("x", std::move(x));
  return make_call("quantize", in, with({{"block", "1x128"}}));
}

/// 1x128 blocks by a rule of this fault: amax to the stored scale and the factor of the codes.
struct F32Rule {
  float stored;
  float factor;
};
Answer by_f32_rule(const Call& call, const NamedTensors& right, F32Rule (*rule)(float amax)) {
  const Tensor& x = call.input("x");
  if (call.set.text("block", "1x32") != "1x128" || !has_defaults(call, {"block"}) ||
      x.dtype() == Dtype::f16) {
    return std::nullopt;
  }
  NamedTensors out = right;
  const Index columns = x.shape().back();
  const Index blocks = ceil_div(columns, Index{128});
  for (Index b = 0; b < out.at("scales").elements(); ++b) {
    const Index begin = b / blocks * columns + b % blocks * 128;
    const Index end = std::min(begin + 128, (b / blocks + 1) * columns);
    float amax = 0.0f;
    bool finite = true;
    for (Index i = begin; i < end; ++i) {
      amax = std::max(amax, std::fabs(value_of(x, i)));
      finite = finite && std::isfinite(value_of(x, i));
    }
    // The floors of amax are not what goes wrong.
    if (!finite || amax < 0x1p-10f) continue;
    const F32Rule r = rule(amax);
    out.at("scales").as<float>()[b] = r.stored;
    for (Index i = begin; i < end; ++i) {
      out.at("codes").as<std::uint8_t>()[i] = nearest_even(value_of(x, i) * r.factor);
    }
  }
  return out;
}

float power_up(float s) { return std::exp2(std::ceil(std::log2(s))); }

Answer rounded_afterwards(Backend&, const Call& call, const NamedTensors& right) {
  return by_f32_rule(call, right, [](float a) {
    const float s = a / 448.0f;
    return F32Rule{power_up(s), 1.0f / s};
  });
}
Answer deepgemm(Backend&, const Call& call, const NamedTensors& right) {
  return by_f32_rule(call, right, [](float a) {
    const float s = std::max(a, 1e-4f) / 448.0f;
    return F32Rule{s, 1.0f / s};
  });
}
Answer inverse_stored(Backend&, const Call& call, const NamedTensors& right) {
  return by_f32_rule(call, right, [](float a) {
    const float s = 448.0f / a;
    return F32Rule{s, s};
  });
}
Answer one_unit_high(Backend&, const Call& call, const NamedTensors& right) {
  return by_f32_rule(call, right, [](float a) {
    const auto s = static_cast<float>(448.0 / static_cast<double>(a));
    return F32Rule{1.0f / s, std::nextafter(s, 1e30f)};
  });
}

constexpr std::string_view kQuantiserOp = "quantize";

constexpr Exhibit kQuantiserExhibits[] = {
    {37, "vllm-project/vllm#53110, #53668", "scale = floor(log2(amax)) + 127, no emax",
     "scale.rule", "", kQuantiserOp, rows_to_quantize, no_emax},
    {38, "MLX", "the nearest exponent", "scale.rule", "", kQuantiserOp, rows_to_quantize,
     nearest_exponent},
    {38, "flashinfer trace reference", "floor(log2(amax/448))", "scale.rule", "", kQuantiserOp,
     rows_to_quantize, floor_quotient},
    {39, "sgl-project/sglang#37140", "ties away from zero", "codes.rule", "away", kQuantiserOp,
     rows_to_quantize, away},
    {39, "sgl-project/sglang#37140", "448 for everything above 256", "codes.rule", "256",
     kQuantiserOp, rows_to_quantize, all_to_448},
    {40, "casts without rounding", "codes are truncated", "codes.rule", "toward zero", kQuantiserOp,
     rows_to_quantize, cut},
    {41, "sgl-project/sglang#28418", "codes made with the f32 scale, scale rounded up afterwards",
     "codes.rule|scale.rule", "", kQuantiserOp, blockwise_operands, rounded_afterwards},
    {42, "aiter before #3212", "(amax + 0x200000), exponent - 8", "scale.rule", "", kQuantiserOp,
     rows_to_quantize, aiter_even},
    {43, "sgl-project/sglang#32616, #33533", "multiplier one unit in the last place high",
     "codes.rule", "", kQuantiserOp, blockwise_operands, one_unit_high},
    {44, "stacks' own rules", "DeepGEMM's rule judged by torchao's", "scale.rule", "deepgemm",
     kQuantiserOp, blockwise_operands, deepgemm},
    {45, "Megatron-LM#6588", "bf16 rounding before the cast", "x=bf16|codes.rule", "bf16",
     kQuantiserOp, fine_operands, bf16_first},
    {49, "stored scale", "s is stored instead of 1/s", "scale.rule", "inverse", kQuantiserOp,
     blockwise_operands, inverse_stored},
    {51, "none: common slips", "subnormal codes are flushed", "value.subnormals_flushed|codes.rule", "",
     kQuantiserOp, rows_to_quantize, flushed},
    {51, "none: common slips", "clamped below the maximum", "codes.rule|value.clamped", "", kQuantiserOp,
     rows_to_quantize, clamped},
};

}  // namespace

std::span<const Exhibit> quantiser_exhibits() { return kQuantiserExhibits; }

}  // namespace mxo
