// The second writing of the quantisers of stacks whose scales are f32.
#include <limits>

#include "formats/approximate.h"
#include "tests/support/stack_steps.h"

namespace mxo::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

ScaledCodes deepgemm_of(const Block& b, float sf, bool up) {
  if (up) {  // ceil_to_ue8m0: on the bits, clamped to 1 .. 254
    const std::uint32_t bits = bits_of(std::fabs(sf));
    const std::uint32_t field = ((bits >> 23) & 0xFF) + ((bits & 0x7FFFFF) != 0 ? 1 : 0);
    sf = bit_cast<float>(std::clamp(field, 1u, 254u) << 23);
  }
  return with_codes(b, bits_of(sf), [&](float x) { return torch_cast(x * (1.0f / sf), b.format); });
}
ScaledCodes deepgemm(const Block& b, bool up) {
  return deepgemm_of(b, torch_at_least(torch_amax(b), 1e-4f) / 448.0f, up);
}
/// normalize_e4m3fn_to_e4m3fnuz of vLLM: the bytes of e4m3 but for -0, scales doubled; a NaN stays
/// one, and 2^127, which DeepGEMM gives what is infinite, stays where it is.
ScaledCodes deepgemm_on_amd(const Block& b, bool up) {
  Block as_e4m3 = b;
  as_e4m3.format = Dtype::e4m3;
  ScaledCodes found = deepgemm(as_e4m3, up);
  if (up && found.scale == bits_of(0x1p127f)) {
    return with_codes(b, found.scale, [&](float x) { return torch_cast(x * 0x1p-127f, b.format); });
  }
  found.scale = bits_of(2.0f * bit_cast<float>(found.scale));
  for (std::uint8_t& code : found.codes) {
    const bool nan = (code & 0x7F) == 0x7F;
    code = nan ? 0x80 : code == 0x80 ? 0 : code;
  }
  return found;
}
ScaledCodes deepgemm_cuda(const Block& b, bool up) {
  const float inverse = bit_cast<float>(0x3B124925u);  // 1 / 448 = 0.00223214.., rounded
  return deepgemm_of(b, torch_at_least(torch_amax(b), 1e-4f) * inverse, up);
}

ScaledCodes native_group(const Block& b, bool up) {
  const float max = fnuz_224(b.format);
  const float floor = in_type(1e-10f, b.type);
  float s = torch_at_least(torch_amax(b), floor) / max;
  if (up) s = up_by_log2(s);
  return with_codes(b, bits_of(s), [&](float x) { return torch_clamped(x / s, b.format, max); });
}

ScaledCodes vllm_token(const Block& b) {
  const float max = fnuz_224(b.format);
  const float s = torch_at_least(torch_amax(b) / max, 1.0f / (max * 512.0f));
  return with_codes(b, bits_of(s),
                    [&](float x) { return torch_clamped(x * (1.0f / s), b.format, max); });
}

ScaledCodes vllm_module(const Block& b, bool up) {
  const float max = fnuz_224(b.format);
  float s = torch_amax(b) / max;
  if (up) s = up_by_log2(s);
  s = torch_at_least(s, 1.0f / (max * 512.0f));
  return with_codes(b, bits_of(s), [&](float x) { return torch_clamped(x / s, b.format, max); });
}

ScaledCodes vllm_cuda_group(const Block& b, bool up) {
  const float max = fnuz_224(b.format);
  float s = cuda_amax(b, 1e-10f) / max;
  if (up) s = up_by_log2(std::fmax(std::fabs(s), 1e-10f));
  return with_codes(b, bits_of(s), [&](float x) { return clamped_up_last(x / s, b.format, max); });
}
/// Its scale as a byte, from bits; codes by the reciprocal.
ScaledCodes vllm_cuda_packed(const Block& b) {
  const float s = up_exactly(std::fmax(cuda_amax(b, 1e-10f) / 448.0f, 1e-10f));
  const float inverse = std::isinf(s) ? 0.0f : 1.0f / s;
  return with_codes(b, bits_of(s),
                    [&](float x) { return clamped_up_last(x * inverse, b.format, 448.0f); });
}
ScaledCodes vllm_cuda_token(const Block& b) {
  const float max = fnuz_224(b.format);
  const float s = std::fmax(cuda_amax(b) / max, 1.0f / (max * 512.0f));
  return with_codes(b, bits_of(s),
                    [&](float x) { return clamped_down_last(x / s, b.format, max); });
}
ScaledCodes vllm_cuda_tensor(const Block& b) {
  const float max = fnuz_224(b.format);
  const float s = cuda_amax(b) / max;
  const float inverse = s == 0.0f ? kInfinity : 1.0f / s;
  return with_codes(b, bits_of(s),
                    [&](float x) { return clamped_down_last(x * inverse, b.format, max); });
}

/// calculate_fp8_scales of DeepEP, which SGLang's kernel has as well; that one clamps above.
ScaledCodes by_fp8_scales(const Block& b, float floor, bool up, bool clamps = false) {
  const float amax = cuda_amax(b, floor);
  const float inverse_max = 1.0f / 448.0f;
  float scale = 448.0f / amax;
  float scale_inv = amax * inverse_max;
  if (up) {
    const std::uint32_t bits = bits_of(amax * inverse_max);
    const int exponent = static_cast<int>((bits >> 23) & 0xFF) - 127 + ((bits & 0x7FFFFF) != 0);
    const auto power = [](int e) {
      return bit_cast<float>(static_cast<std::uint32_t>(e + 127) << 23);
    };
    scale = power(-exponent);
    scale_inv = power(exponent);
  }
  return with_codes(b, bits_of(scale_inv), [&](float x) {
    return satfinite(clamps ? std::fmin(x * scale, 448.0f) : x * scale, b.format);
  });
}

ScaledCodes sglang_cuda_token(const Block& b) {
  const float s = cuda_amax(b) / 448.0f;
  const float inverse = s == 0.0f ? 0.0f : 1.0f / s;
  return with_codes(b, bits_of(s),
                    [&](float x) { return clamped_down_last(x * inverse, b.format, 448.0f); });
}

/// fp8_blockwise_act_quant: x / 0 is 0 / 0 for a block of zeros.
ScaledCodes torchao_inference(const Block& b, bool compiled) {
  const float amax = cuda_amax(b);
  const float s = compiled ? div_full(amax, 448.0f) : amax / 448.0f;
  return with_codes(b, bits_of(s), [&](float x) {
    const float quotient = s != 0.0f ? x / s : x == 0.0f || std::isnan(x) ? NAN : x * kInfinity;
    return satfinite(quotient, b.format);
  });
}

ScaledCodes triton_group(const Block& b, bool up) {
  const float max = fnuz_224(b.format);
  float s = cuda_amax(b, 1e-10f) * (1.0f / max);
  if (up) s = up_by_log2(s);
  return with_codes(b, bits_of(s), [&](float x) { return clamped_up_last(x / s, b.format, max); });
}

ScaledCodes fbgemm(const Block& b) {
  const float amax = torch_at_least(torch_amax(b), in_type(1e-12f, b.type));
  const float inverse = amax == 0.0f ? kInfinity : 1.0f / amax;  // max / tensor in eager torch
  float s = inverse * largest(b.format);
  if (s == kInfinity) s = 1.0f;
  const float stored = s == 0.0f ? kInfinity : 1.0f / s;
  return with_codes(b, bits_of(stored), [&](float x) { return torch_cast(x * s, b.format); });
}
ScaledCodes fbgemm_triton(const Block& b) {
  const float max = largest(b.format);
  const float s = div_full(max, cuda_amax(b, 1e-12f));  // Triton's a / b
  return with_codes(b, bits_of(div_full(1.0f, s)),
                    [&](float x) { return clamped_down_last(x * s, b.format, max); });
}

ScaledCodes tilelang(const Block& b) {
  const float s = cuda_amax(b, 1e-4f) / 448.0f;
  return with_codes(b, bits_of(s),
                    [&](float x) { return clamped_up_last(x / s, b.format, 448.0f); });
}
ScaledCodes deepep_torch(const Block& b) {
  const float amax = torch_at_least(torch_amax(b), 1e-4f);
  const float factor = (1.0f / amax) * 448.0f;
  return with_codes(b, bits_of(amax / 448.0f),
                    [&](float x) { return torch_cast(x * factor, b.format); });
}

ScaledCodes aiter(const Block& b) {
  float s = torch_amax(b) / largest(b.format);
  if (s == 0.0f) s = 1.0f;
  return with_codes(b, bits_of(s), [&](float x) { return torch_cast(x / s, b.format); });
}
ScaledCodes aiter_hip(const Block& b) {
  const float inverse_max = static_cast<float>(1.0 / static_cast<double>(largest(b.format)));
  const float s = cuda_amax(b, 1e-10f) * inverse_max;
  const float inverse = std::isinf(s) ? 0.0f : 1.0f / s;
  return with_codes(b, bits_of(s), [&](float x) { return satfinite(x * inverse, b.format); });
}

ScaledCodes te_tensor(const Block& b) {
  const float amax = cuda_amax(b);
  float s = 1.0f;
  if (std::isfinite(amax) && amax != 0.0f) {
    s = largest(b.format) / amax;
    if (std::isinf(s)) s = std::numeric_limits<float>::max();
  }
  return with_codes(b, bits_of(1.0f / s), [&](float x) { return satfinite(x * s, b.format); });
}

/// tensor_to_scale: python's max / tensor is the tensor's reciprocal times max, here in f64.
ScaledCodes torchao_multiplier(const Block& b, bool down) {
  const float amax = torch_amax(b);
  double wide = static_cast<double>(amax);
  if (wide < 1e-12) wide = 1e-12;
  auto s = static_cast<float>((1.0 / wide) * static_cast<double>(largest(b.format)));
  if (down) s = std::exp2(std::floor(std::log2(s)));
  return with_codes(b, bits_of(s),
                    [&](float x) { return torch_clamped(x * s, b.format, largest(b.format)); });
}
ScaledCodes torchao_tensor(const Block& b) {
  const float max = largest(b.format);
  const float d = in_type(torch_amax(b) / max, b.type);
  return with_codes(b, bits_of(d), [&](float x) {
    const float quotient = d != 0.0f ? x / d : x == 0.0f || std::isnan(x) ? NAN : x * kInfinity;
    return torch_clamped(quotient, b.format, max);
  });
}
/// max / amax in a type: both steps of it are rounded to that.
float reciprocal_times(float amax, float max, Dtype type) {
  const float inverse = amax == 0.0f ? kInfinity : 1.0f / amax;
  return in_type(in_type(inverse, type) * max, type);
}
ScaledCodes by_reciprocal(const Block& b, Dtype type, float max) {
  const float s = reciprocal_times(torch_at_least(torch_amax(b), in_type(1e-12f, type)), max, type);
  const float stored = s == 0.0f ? kInfinity : 1.0f / s;
  return with_codes(b, bits_of(stored),
                    [&](float x) { return torch_clamped(in_type(x * s, type), b.format, max); });
}
ScaledCodes vllm_scaled(const Block& b) { return by_reciprocal(b, b.type, largest(b.format)); }
ScaledCodes vllm_scaled_f32(const Block& b) {
  return by_reciprocal(b, Dtype::f32, largest(b.format));
}
ScaledCodes sglang_tensor(const Block& b) {
  return by_reciprocal(b, Dtype::f32, fnuz_224(b.format));
}

constexpr const char* kAll = "e4m3|e4m3fnuz|e5m2|e5m2fnuz";
constexpr const char* kBoth = "e4m3|e4m3fnuz";
constexpr StackTwin kTwins[] = {
    {"deepgemm", "1x128", "", "", "e4m3", [](const Block& b) { return deepgemm(b, false); }},
    {"deepgemm", "128x128", "up", "", "e4m3", [](const Block& b) { return deepgemm(b, true); }},
    {"deepgemm", "1x128", "", "", "e4m3fnuz",
     [](const Block& b) { return deepgemm_on_amd(b, false); }},
    {"deepgemm", "128x128", "up", "", "e4m3fnuz",
     [](const Block& b) { return deepgemm_on_amd(b, true); }},
    {"DeepGEMM", "1x32", "up", "", "e4m3", [](const Block& b) { return deepgemm(b, true); }},
    {"deepgemm_cuda", "1x128", "", "", "e4m3",
     [](const Block& b) { return deepgemm_cuda(b, false); }},
    {"deepgemm_cuda", "128x1", "up", "", "e4m3",
     [](const Block& b) { return deepgemm_cuda(b, true); }},
    {"vllm", "1x128", "", "", kBoth, [](const Block& b) { return native_group(b, false); }},
    {"vllm", "1x64", "up", "", kBoth, [](const Block& b) { return native_group(b, true); }},
    {"sglang", "1x128", "", "", kBoth, [](const Block& b) { return native_group(b, false); }},
    {"vllm", "1xK", "", "", kBoth, vllm_token},
    {"vllm", "RxK", "", "", kBoth, vllm_token},
    {"vllm_module", "1x128", "", "", kBoth, [](const Block& b) { return vllm_module(b, false); }},
    {"vllm_module", "1x128", "up", "", kBoth, [](const Block& b) { return vllm_module(b, true); }},
    {"vllm_cuda", "1x128", "", "", kBoth, [](const Block& b) { return vllm_cuda_group(b, false); }},
    {"vllm_cuda", "1x64", "up", "", kBoth, [](const Block& b) { return vllm_cuda_group(b, true); }},
    {"vllm_cuda_packed", "1x128", "", "", "e4m3", vllm_cuda_packed},
    {"vllm_cuda", "1xK", "", "", kBoth, vllm_cuda_token},
    {"vllm_cuda", "RxK", "", "", kBoth, vllm_cuda_tensor},
    {"sglang_cuda", "1x128", "", "", "e4m3",
     [](const Block& b) { return by_fp8_scales(b, 1e-10f, false, true); }},
    {"sglang_cuda", "1x32", "up", "", "e4m3",
     [](const Block& b) { return by_fp8_scales(b, 1e-10f, true, true); }},
    {"sglang_cuda", "1xK", "", "", "e4m3", sglang_cuda_token},
    {"sglang_cuda", "RxK", "", "", "e4m3", vllm_cuda_tensor},
    {"triton", "1x128", "", "", kBoth, [](const Block& b) { return triton_group(b, false); }},
    {"triton", "1x128", "up", "", kBoth, [](const Block& b) { return triton_group(b, true); }},
    {"fbgemm", "1xK", "", "", kBoth, fbgemm},
    {"fbgemm", "128x128", "", "", kBoth, fbgemm},
    {"fbgemm_triton", "1xK", "", "", kBoth, fbgemm_triton},
    {"tilelang", "1x128", "", "", "e4m3", tilelang},
    {"deepep", "1x128", "", "", "e4m3",
     [](const Block& b) { return by_fp8_scales(b, 1e-4f, false); }},
    {"deepep", "1x128", "up", "", "e4m3",
     [](const Block& b) { return by_fp8_scales(b, 1e-4f, true); }},
    {"deepep_torch", "1x128", "", "", "e4m3", deepep_torch},
    {"aiter", "1xK", "", "", kBoth, aiter},
    {"aiter", "1x128", "", "", kBoth, aiter},
    {"aiter_hip", "1x128", "", "", kBoth, aiter_hip},
    {"te", "RxK", "", "", "e4m3|e5m2", te_tensor},
    {"torchao_multiplier", "1xK", "", "", kAll,
     [](const Block& b) { return torchao_multiplier(b, false); }},
    {"torchao_multiplier", "RxK", "down", "", kAll,
     [](const Block& b) { return torchao_multiplier(b, true); }},
    {"torchao_inference", "1x128", "", "", "e4m3|e5m2",
     [](const Block& b) { return torchao_inference(b, false); }},
    {"torchao_inference_cuda", "128x128", "", "", "e4m3|e5m2",
     [](const Block& b) { return torchao_inference(b, true); }},
    {"torchao_tensor", "1xK", "", "", kAll, torchao_tensor},
    {"torchao_tensor", "RxK", "", "", kAll, torchao_tensor},
    {"torchao_tensor", "128x128", "", "", kAll, torchao_tensor},
    {"torchao_tensor", "1x32", "", "", kAll, torchao_tensor},
    {"vllm_scaled", "1x128", "", "", kAll, vllm_scaled},
    {"vllm_scaled", "RxK", "", "", kAll, vllm_scaled},
    {"vllm_scaled_f32", "128x128", "", "", kAll, vllm_scaled_f32},
    {"sglang", "RxK", "", "", kAll, sglang_tensor},
};

}  // namespace

const std::vector<StackTwin>& stack_twins() {
  static const std::vector<StackTwin> all = [] {
    std::vector<StackTwin> list(std::begin(kTwins), std::end(kTwins));
    const auto mx = stack_twins_mx();
    list.insert(list.end(), mx.begin(), mx.end());
    return list;
  }();
  return all;
}

}  // namespace mxo::test
