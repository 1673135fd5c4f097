// The second writing of the quantisers of stacks whose scales are e8m0 bytes.
#include <limits>

#include "tests/support/stack_steps.h"

namespace mxo::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// 2^(byte - 127), exact also where a float is subnormal.
double scale_value(std::uint32_t byte) { return std::ldexp(1.0, static_cast<int>(byte) - 127); }
/// x over a power of two, as an f32 division rounds it.
float over(float x, std::uint32_t byte) {
  return static_cast<float>(static_cast<double>(x) / scale_value(byte));
}

/// f32_to_mx_e8m0_scale: modes 0 floor, 1 rceil, 2 even, 3 ceil.
template <int Mode>
ScaledCodes aiter_mx(const Block& b) {
  const bool fnuz = b.format == Dtype::e4m3fnuz;
  const float power = fnuz ? 128.0f : 256.0f;
  float v = torch_amax(b);
  if (Mode == 2) v = bit_cast<float>((bits_of(v) + 0x80000u) & 0xFF800000u);
  const std::uint32_t bits = bits_of(v / (Mode == 1 ? largest(b.format) : power));
  std::uint32_t byte = (bits >> 23) & 0xFF;
  const bool rises = Mode == 1 || Mode == 3;
  if (rises && byte < 0xFF && (bits & 0x7FFFFF) != 0) ++byte;
  return with_codes(b, byte, [&](float x) {
    return byte == 0xFF ? searched_code(NAN, b.format, true) : torch_cast(over(x, byte), b.format);
  });
}

ScaledCodes aiter_triton(const Block& b) {
  const std::uint32_t raised = (bits_of(cuda_amax(b)) + 0x200000u) & 0xFF800000u;
  const float unbiased = std::floor(std::log2(bit_cast<float>(raised))) - 8.0f;
  const auto byte = static_cast<std::uint32_t>(std::clamp(unbiased, -127.0f, 127.0f) + 127.0f);
  const float factor = byte == 0xFE ? 0.0f : 1.0f / static_cast<float>(scale_value(byte));
  return with_codes(b, byte, [&](float x) { return satfinite(x * factor, b.format); });
}

ScaledCodes jax(const Block& b) {
  const float max = largest(b.format);
  const float quotient = in_type(torch_amax(b) / max, b.type);
  const std::uint32_t bits = bits_of(std::fabs(quotient));
  std::uint32_t field = bits >> 23;
  const std::uint32_t fraction = bits & 0x7FFFFF;
  if (fraction > 0 && field != 0xFE && !(field == 0 && fraction <= 0x400000)) ++field;
  const std::uint32_t byte = field & 0xFF;  // a NaN wraps to 0
  return with_codes(b, byte, [&](float x) {
    const float v = byte == 0xFF ? x / kInfinity : over(x, byte);
    return torch_clamped(v, b.format, max);
  });
}

/// The byte of an exponent that may be out of range; NaN for an infinite or NaN amax.
ScaledCodes by_exponent(const Block& b, float exponent) {
  const float amax = torch_amax(b);
  const bool odd = std::isnan(amax) || std::isinf(amax);
  const auto byte =
      odd ? 0xFFu : static_cast<std::uint32_t>(std::clamp(exponent, -127.0f, 127.0f) + 127.0f);
  return with_codes(b, byte, [&](float x) {
    return odd ? searched_code(NAN, b.format, true) : satfinite(over(x, byte), b.format);
  });
}
ScaledCodes flashinfer(const Block& b) {
  const float quotient = torch_amax(b) / 448.0f;
  const float exponent = std::floor(std::log2(quotient > 0.0f ? quotient : 1.0f));
  if (!std::isinf(quotient)) {
    const auto byte = static_cast<std::uint32_t>(std::clamp(exponent, -127.0f, 127.0f) + 127.0f);
    return with_codes(b, byte, [&](float x) { return satfinite(over(x, byte), b.format); });
  }
  return with_codes(b, 0xFF, [&](float x) { return satfinite(x / kInfinity, b.format); });
}
ScaledCodes mlx(const Block& b) {
  const float quotient = torch_amax(b) / 448.0f;
  return by_exponent(b, static_cast<float>(std::round(std::log2(static_cast<double>(quotient)))));
}
ScaledCodes vllm_53110(const Block& b) {
  return by_exponent(b, std::floor(std::log2(torch_amax(b))));
}

ScaledCodes microxcaling(const Block& b) {
  const float amax = torch_amax(b);
  const bool e5 = b.format == Dtype::e5m2;
  const float emax = e5 ? 15.0f : 8.0f;
  const float exponent =
      std::floor(std::log2(amax + (amax == 0.0f ? std::numeric_limits<float>::min() : 0.0f)));
  const ScaledCodes base = by_exponent(b, exponent - emax);
  if (base.scale == 0xFF) return base;
  // _quantize_elemwise_core: sign(A) floor(|A| 2^m / 2^e + 0.5), saturated.
  const double m = e5 ? 2 : 3;
  const double least = e5 ? -14 : -6;
  return with_codes(b, base.scale, [&](float x) -> std::uint8_t {
    const double a = static_cast<double>(over(x, base.scale));
    if (a == 0.0) return 0;
    const double e = std::max(std::floor(std::log2(std::fabs(a))), least);
    const double kept = std::floor(std::fabs(a) * std::exp2(m - e) + 0.5) * std::exp2(e - m);
    const auto value = static_cast<float>(std::min(kept, static_cast<double>(largest(b.format))));
    return static_cast<std::uint8_t>(searched_code(value, b.format, true) | (a < 0.0 ? 0x80 : 0));
  });
}

/// A NaN becomes byte 0 as an unsigned integer, and all of its block is divided by NaN.
ScaledCodes vllm_mx(const Block& b) {
  const float amax = torch_at_least(torch_amax(b), std::numeric_limits<float>::min());
  const float biased = std::ceil(std::log2(amax / 448.0f)) + 127.0f;
  const auto byte =
      std::isnan(biased) ? 0u : static_cast<std::uint32_t>(std::clamp(biased, 0.0f, 254.0f));
  return with_codes(b, byte, [&](float x) {
    return torch_cast(std::isnan(biased) ? NAN : over(x, byte), b.format);
  });
}

constexpr StackTwin kTwins[] = {
    {"vllm", "1x32", "", "", "e4m3", vllm_mx},
    {"aiter", "1x32", "", "", "e4m3|e4m3fnuz", aiter_mx<1>},
    {"aiter", "1x32", "", "floor", "e4m3|e4m3fnuz", aiter_mx<0>},
    {"aiter", "1x32", "", "EVEN", "e4m3|e4m3fnuz", aiter_mx<2>},
    {"aiter", "1x32", "", "ceil", "e4m3|e4m3fnuz", aiter_mx<3>},
    {"aiter_triton", "1x32", "", "", "e4m3", aiter_triton},
    {"jax", "1x32", "", "", "e4m3|e5m2", jax},
    {"flashinfer", "1x32", "", "", "e4m3", flashinfer},
    {"mlx", "1x32", "", "", "e4m3", mlx},
    {"vllm_53110", "1x32", "", "", "e4m3", vllm_53110},
    {"microxcaling", "1x32", "", "", "e4m3|e5m2", microxcaling},
};

}  // namespace

std::span<const StackTwin> stack_twins_mx() { return kTwins; }

}  // namespace mxo::test
