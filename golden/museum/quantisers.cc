// Faults of quantisers and of what follows them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "golden/museum/operands.h"

namespace mxo {
namespace {

/// Six significant bits: ties between codes are met.
Tensor coarse(std::vector<Index> shape, std::uint64_t seed) {
  Tensor x = random_floats(std::move(shape), seed);
  for (Index i = 0; i < x.elements(); ++i) {
    auto& word = x.as<std::uint32_t>()[i];
    word &= 0xFFFC0000u;
  }
  return x;
}

Call quantize_call(std::uint64_t seed) {
  NamedTensors in;
  in.emplace("x", coarse({160, 256}, seed));
  return make_call("quantize", in, {});
}

/// MX codes made by a rule of one's own: the scale byte of amax, and the code of a quotient.
Planted by_rule(Backend& b, std::uint64_t seed, const std::function<int(float)>& byte_of,
                const std::function<std::uint8_t(float)>& code_of) {
  const Call call = quantize_call(seed);
  return spoiled(b, call, [&](NamedTensors& out) {
    const float* x = call.input("x").as<float>();
    Tensor& codes = out.at("codes");
    Tensor& scales = out.at("scales");
    for (Index block = 0; block < scales.elements(); ++block) {
      float amax = 0.0f;
      for (Index i = block * 32; i < block * 32 + 32; ++i) amax = std::max(amax, std::fabs(x[i]));
      const int byte = std::clamp(byte_of(amax), 0, 254);
      scales.as<std::uint8_t>()[block] = static_cast<std::uint8_t>(byte);
      for (Index i = block * 32; i < block * 32 + 32; ++i) {
        codes.as<std::uint8_t>()[i] = code_of(std::ldexp(x[i], 127 - byte));
      }
    }
  });
}

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

Planted no_emax(Backend& b, std::uint64_t seed) {
  return by_rule(
      b, seed, [](float a) { return exponent_of(a) + 127; }, nearest_even);
}
Planted nearest_exponent(Backend& b, std::uint64_t seed) {
  return by_rule(
      b, seed,
      [](float a) {
        return static_cast<int>(std::round(std::log2(static_cast<double>(a) / 448.0))) + 127;
      },
      nearest_even);
}
Planted floor_quotient(Backend& b, std::uint64_t seed) {
  return by_rule(
      b, seed,
      [](float a) {
        return static_cast<int>(std::floor(std::log2(static_cast<double>(a) / 448.0))) + 127;
      },
      nearest_even);
}
Planted away(Backend& b, std::uint64_t seed) { return by_rule(b, seed, rceil_byte, ties_away); }
Planted cut(Backend& b, std::uint64_t seed) { return by_rule(b, seed, rceil_byte, truncated); }
Planted clamped(Backend& b, std::uint64_t seed) {
  return by_rule(b, seed, rceil_byte,
                 [](float v) { return nearest_even(std::clamp(v, -256.0f, 256.0f)); });
}
Planted all_to_448(Backend& b, std::uint64_t seed) {
  return by_rule(b, seed, rceil_byte, [](float v) {
    return std::fabs(v) > 256.0f ? nearest_even(std::copysign(448.0f, v)) : nearest_even(v);
  });
}
Planted flushed(Backend& b, std::uint64_t seed) {
  return by_rule(b, seed, rceil_byte, [](float v) {
    const std::uint8_t code = nearest_even(v);
    return (code & 0x78) == 0 ? static_cast<std::uint8_t>(code & 0x80) : code;
  });
}
Planted aiter_even(Backend& b, std::uint64_t seed) {
  return by_rule(
      b, seed,
      [](float a) { return static_cast<int>((bit_cast<std::uint32_t>(a) + 0x200000u) >> 23) - 8; },
      nearest_even);
}
Planted bf16_first(Backend& b, std::uint64_t seed) {
  NamedTensors in;
  in.emplace("x", random_floats({160, 256}, seed));
  const Call call = make_call("quantize", in, {});
  Call wrong = call;
  Tensor x = call.input("x");
  for (Index i = 0; i < x.elements(); ++i) {
    x.as<float>()[i] = decode(encode<kBF16>(x.as<float>()[i]));
  }
  wrong.replace("x", std::move(x));
  return planted(b, call, wrong);
}

Call blockwise_call(std::uint64_t seed) {
  NamedTensors in;
  Tensor x = coarse({160, 512}, seed);
  // In every second block the largest value makes the scale a power of two: ties are met.
  for (Index i = 128 * 5 + 9; i < x.elements(); i += 256) {
    x.as<float>()[i] = 448.0f * std::exp2(std::ceil(std::log2(200.0f)));
  }
  in.emplace("x", std::move(x));
  return make_call("quantize", in, with({{"block", "1x128"}}));
}

/// 1x128 blocks by a rule of one's own: amax to the stored scale and the factor of the codes.
struct F32Rule {
  float stored;
  float factor;
};
Planted by_f32_rule(Backend& b, std::uint64_t seed, const std::function<F32Rule(float)>& rule) {
  const Call call = blockwise_call(seed);
  return spoiled(b, call, [&](NamedTensors& out) {
    const float* x = call.input("x").as<float>();
    for (Index block = 0; block < out.at("scales").elements(); ++block) {
      float amax = 0.0f;
      for (Index i = block * 128; i < block * 128 + 128; ++i)
        amax = std::max(amax, std::fabs(x[i]));
      const F32Rule r = rule(amax);
      out.at("scales").as<float>()[block] = r.stored;
      for (Index i = block * 128; i < block * 128 + 128; ++i) {
        out.at("codes").as<std::uint8_t>()[i] = nearest_even(x[i] * r.factor);
      }
    }
  });
}

float power_up(float s) { return std::exp2(std::ceil(std::log2(s))); }

Planted rounded_afterwards(Backend& b, std::uint64_t seed) {
  return by_f32_rule(b, seed, [](float a) {
    const float s = a / 448.0f;
    return F32Rule{power_up(s), 1.0f / s};
  });
}
Planted deepgemm(Backend& b, std::uint64_t seed) {
  return by_f32_rule(b, seed, [](float a) {
    const float s = std::max(a, 1e-4f) / 448.0f;
    return F32Rule{s, 1.0f / s};
  });
}
Planted inverse_stored(Backend& b, std::uint64_t seed) {
  return by_f32_rule(b, seed, [](float a) {
    const float s = 448.0f / a;
    return F32Rule{s, s};
  });
}
Planted one_unit_high(Backend& b, std::uint64_t seed) {
  return by_f32_rule(b, seed, [](float a) {
    const auto s = static_cast<float>(448.0 / static_cast<double>(a));
    return F32Rule{1.0f / s, std::nextafter(s, 1e30f)};
  });
}

Planted spoil_quantized(Backend& b, std::uint64_t seed, const std::string& name,
                        const std::function<void(Tensor&)>& spoil) {
  return spoiled(b, quantize_call(seed), [&](NamedTensors& out) { spoil(out.at(name)); });
}

Planted column_major(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "scales", [](Tensor& t) {
    const Tensor from = t;
    const Index rows = t.extent(0);
    for (Index i = 0; i < t.elements(); ++i) {
      t.as<std::uint8_t>()[i] = from.as<std::uint8_t>()[i % rows * t.extent(1) + i / rows];
    }
  });
}
Planted nibbles(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "codes", [](Tensor& t) {
    for (Index i = 0; i < t.elements(); ++i) {
      auto& c = t.as<std::uint8_t>()[i];
      c = static_cast<std::uint8_t>(c << 4 | c >> 4);
    }
  });
}
Planted bytes(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "codes", [](Tensor& t) {
    for (Index i = 0; i < t.elements(); i += 2) {
      std::swap(t.as<std::uint8_t>()[i], t.as<std::uint8_t>()[i + 1]);
    }
  });
}
Planted lanes(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "codes", [](Tensor& t) {
    for (Index i = 0; i < t.elements(); i += 32) {
      std::reverse(t.as<std::uint8_t>() + i, t.as<std::uint8_t>() + i + 32);
    }
  });
}
Planted last_block_zero(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "codes", [](Tensor& t) {
    for (Index r = 0; r < t.extent(0); ++r) std::memset(row_of(t, r) + 224, 0, 32);
  });
}
Planted rows_shifted(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "codes", [](Tensor& t) {
    std::memmove(row_of(t, 1), row_of(t, 0), t.bytes() - row_bytes(t));
  });
}
Planted one_bit(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "codes", [](Tensor& t) { t.as<std::uint8_t>()[12345] ^= 8; });
}
Planted scales_high(Backend& b, std::uint64_t seed) {
  return spoil_quantized(b, seed, "scales", [](Tensor& t) {
    for (Index i = 0; i < t.elements(); ++i) ++t.as<std::uint8_t>()[i];
  });
}

Planted zero_block_nan(Backend& b, std::uint64_t seed) {
  Call call = quantize_call(seed);
  Tensor x = call.input("x");
  for (const Index block : {3, 70, 71, 900}) std::memset(x.as<float>() + block * 32, 0, 128);
  call.replace("x", std::move(x));
  return spoiled(b, call, [](NamedTensors& out) {
    for (const Index block : {3, 70, 71, 900}) {
      std::memset(out.at("codes").as<std::uint8_t>() + block * 32, 0x7F, 32);
    }
  });
}

Call blocked_call(std::uint64_t seed) {
  Call call = quantize_call(seed);
  call.set.set("scale_layout", "blocked");
  return call;
}
Planted blocked_as_matrix(Backend& b, std::uint64_t seed) {
  Planted p = spoiled(b, blocked_call(seed), [](NamedTensors&) {});
  const NamedTensors linear = run_call(b, quantize_call(seed));
  Tensor& scales = p.actual.at("scales");
  std::memset(scales.data(), 0, scales.bytes());
  std::memcpy(scales.data(), linear.at("scales").data(), linear.at("scales").bytes());
  return p;
}
Planted padding_of_ones(Backend& b, std::uint64_t seed) {
  return spoiled(b, blocked_call(seed), [](NamedTensors& out) {
    Tensor& t = out.at("scales");
    for (Index i = 0; i < t.elements(); ++i) {
      auto& s = t.as<std::uint8_t>()[i];
      if (s == 0) s = 0x7F;
    }
  });
}

constexpr Exhibit kExhibits[] = {
    {30, "sgl-project/sglang#39628", "scales one too high", "scale.", "", scales_high},
    {37, "vllm-project/vllm#53110, #53668", "scale = floor(log2(amax)) + 127, no emax",
     "scale.rule", "", no_emax},
    {38, "MLX", "the nearest exponent", "scale.rule", "", nearest_exponent},
    {38, "flashinfer trace reference", "floor(log2(amax/448))", "scale.rule", "", floor_quotient},
    {39, "sgl-project/sglang#37140", "ties away from zero", "codes.rule", "away", away},
    {39, "sgl-project/sglang#37140", "448 for everything above 256", "codes.rule", "256",
     all_to_448},
    {40, "casts without rounding", "codes are truncated", "codes.rule", "toward zero", cut},
    {41, "sgl-project/sglang#28418", "codes made with the f32 scale, scale rounded up afterwards",
     "codes.rule|scale.rule", "", rounded_afterwards},
    {42, "aiter before #3212", "(amax + 0x200000), exponent - 8", "scale.rule", "", aiter_even},
    {43, "sgl-project/sglang#32616, #33533", "multiplier one unit in the last place high",
     "codes.rule", "", one_unit_high},
    {44, "stacks' own rules", "DeepGEMM's rule judged by torchao's", "scale.rule", "deepgemm",
     deepgemm},
    {45, "Megatron-LM#6588", "bf16 rounding before the cast", "x=bf16|codes.rule", "bf16",
     bf16_first},
    {49, "stored scale", "s is stored instead of 1/s", "scale.rule", "inverse", inverse_stored},
    {50, "layouts", "scales are written column-major", "order.transposed", "", column_major},
    {50, "layouts", "blocked scales written as a matrix", "order.untiled", "", blocked_as_matrix},
    {50, "layouts", "padding of blocked scales is 7F", "never_written.padding", "padding of tiles",
     padding_of_ones},
    {23, "huggingface/kernels-community#681", "0/0 on zero blocks", "never_written.nan", "codes",
     zero_block_nan},
    {51, "one side only", "subnormal codes are flushed", "value.subnormals_flushed|codes.rule", "",
     flushed},
    {51, "one side only", "clamped below the maximum", "codes.rule|value.clamped", "", clamped},
    {51, "one side only", "nibbles exchanged", "value.nibbles", "", nibbles},
    {51, "one side only", "bytes exchanged", "order.reversed_2", "", bytes},
    {51, "one side only", "lanes reversed", "order.reversed_32", "", lanes},
    {51, "one side only", "last block zero", "never_written.zero", "columns 224 to 255",
     last_block_zero},
    {51, "one side only", "rows shifted by one", "rows.shifted", "1 before", rows_shifted},
    {51, "one side only", "one bit", "bit.flipped", "bit 3", one_bit},
};

}  // namespace

std::span<const Exhibit> quantiser_exhibits() { return kExhibits; }

}  // namespace mxo
