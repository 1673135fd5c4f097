// The rules by which stacks make scales and codes, as rows of data.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string_view>

#include "formats/stack_rules.h"

namespace mxo {

/// How scales come from the largest magnitudes of blocks, and codes from scaled elements.  `mode`
/// and `e8m0` say it for e8m0 scales (formats/mx_scale.h), `f32` for f32 scales
/// (formats/scaled_block.h), `element` for codes (formats/mx_block.h).
struct ScaleRule {
  ScaleMode mode = ScaleMode::rceil;
  ScaleProfile e8m0 = kTorchao;
  F32ScaleRule f32 = {};
  ElementRule element = {};
  friend constexpr bool operator==(const ScaleRule&, const ScaleRule&) = default;
};

/// A rule for e8m0 scales.
MXO_HD constexpr ScaleRule mx_rule(ScaleMode mode, const ScaleProfile& profile = kTorchao,
                                   const ElementRule& element = {}) {
  return {mode, profile, {}, element};
}
/// A rule for f32 scales.
MXO_HD constexpr ScaleRule f32_rule(const F32ScaleRule& rule, const ElementRule& element = {}) {
  return {ScaleMode::rceil, kTorchao, rule, element};
}

/// Scales by ScaleMode alone where they are e8m0, codes to nearest even: what fast kernels know.
MXO_HD constexpr bool is_regular(const ScaleRule& rule) {
  const ScaleProfile& p = rule.e8m0;
  return rule.element == ElementRule{} && p.exponent == ExponentRule::by_mode &&
         p.up == SubnormalUp::exact && p.infinity <= InfinityRule::saturate &&
         p.nan_scale == 0xFF && p.descale <= Descale::exact;
}

/// The rule for x and codes of these types: what it says of the type of x becomes a number, and
/// what it says of other codes is left out.
MXO_HD constexpr ScaleRule rule_for(ScaleRule rule, Dtype x, Dtype codes) {
  if (codes != Dtype::e4m3fnuz) rule.element.fnuz_max = 0;
  if (rule.f32.floor == AmaxFloor::in_x) {
    const auto epsilon = static_cast<float>(rule.f32.epsilon);
    rule.f32.epsilon = static_cast<double>(rounded_to(x, epsilon));
    rule.f32.floor = AmaxFloor::in_f32;
  }
  if (rule.f32.in_x != StepsInX::none) rule.f32.x = x;
  if (rule.f32.in_x == StepsInX::every && x != Dtype::f32) {
    rule.f32.code = x == Dtype::bf16 ? CodeScaling::multiply_in_bf16 : CodeScaling::multiply_in_f16;
  }
  if (rule.e8m0.descale == Descale::division_in_x) {
    rule.e8m0.descale = x == Dtype::bf16  ? Descale::division_in_bf16
                        : x == Dtype::f16 ? Descale::division_in_f16
                                          : Descale::division;
  }
  return rule;
}

/// How a row is known.
enum class RuleEvidence : std::uint8_t {
  captured,   ///< outputs of its own code are repeated bit for bit
  run,        ///< its expressions were run, not its file
  read,       ///< its source only
  published,  ///< a report of it only
  defined,    ///< by us
};
inline constexpr const char* kEvidenceNames[] = {"captured", "run", "read", "published", "defined"};

enum class ScaleType : std::uint8_t { e8m0, f32 };

/// What one stack does for one type of scale, and for which blocks.  Lists are as "1x128|128x128";
/// an empty one is any.
struct ScaleRuleRow {
  std::string_view name;
  ScaleType scale;
  std::string_view blocks;
  ScaleRule rule;
  RuleEvidence evidence;
  std::string_view source;
  std::string_view formats = "";             ///< of elements
  std::string_view powers = "none|down|up";  ///< what power_of_2 may be, f32 scales
  PowerOfTwo up = PowerOfTwo::up;            ///< how it is raised to a power of two, where asked
  PowerOfTwo down = PowerOfTwo::down;        ///< how it is lowered to one
};

/// Every row; of those with one name and one type of scale, the first that has the block counts.
inline constexpr ScaleRuleRow kScaleRules[] = {
    {"torchao", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil), RuleEvidence::captured,
     "pytorch/ao 36027d8, to_mx"},
    {"torchao", ScaleType::f32, "1xK|Rx1", f32_rule(kTorchaoRowwise), RuleEvidence::read,
     "pytorch/ao 36027d8, fp8_grouped_mm.py"},
    {"torchao", ScaleType::f32, "", f32_rule(kTorchaoBlockwise), RuleEvidence::read,
     "pytorch/ao 36027d8, blockwise_fp8_training"},
    {"torchao_multiplier", ScaleType::f32, "RxK|1xK|Rx1", f32_rule(kTorchaoMultiplier),
     RuleEvidence::captured, "torchao 0.18.0, Float8TrainingTensor in torch", "", "none|down",
     PowerOfTwo::up, PowerOfTwo::down_log2},
    {"torchao_tensor", ScaleType::f32, "", f32_rule(kTorchaoTensor), RuleEvidence::captured,
     "torchao 0.18.0, Float8Tensor.from_hp in torch", "", "none"},
    {"torchao_inference", ScaleType::f32, "1x128|128x128", f32_rule(kTorchaoInference),
     RuleEvidence::run, "torchao 0.18.0, blockwise_quantization.py in Triton's interpreter",
     "e4m3|e5m2", "none"},
    {"torchao_inference_cuda", ScaleType::f32, "1x128|128x128", f32_rule(kTorchaoInferenceCuda),
     RuleEvidence::read, "torchao 0.18.0, blockwise_quantization.py by Triton 3.6, for Hopper",
     "e4m3|e5m2", "none"},
    {"te", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil, kTransformerEngine), RuleEvidence::read,
     "TransformerEngine d0067d0, float_to_e8m0"},
    {"te", ScaleType::f32, "1x128|128x1|128x128", f32_rule(kTeBlockwise), RuleEvidence::read,
     "TransformerEngine d0067d0, Float8BlockScaling"},
    {"te", ScaleType::f32, "RxK", f32_rule(kTeTensor), RuleEvidence::read,
     "TransformerEngine d0067d0, current_scaling.cu", "", "none|down"},
    {"ocp", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil, kOcp), RuleEvidence::defined,
     "OCP MX v1.0, 6.3, exact quotients"},
    {"torchao_cuda", ScaleType::e8m0, "", mx_rule(ScaleMode::rceil, kTorchaoCuda),
     RuleEvidence::read, "pytorch/ao 36027d8, CUDA and CuTeDSL kernels"},
    {"flow", ScaleType::f32, "1x128|128x1|128x128", f32_rule(kFlowBlockwise), RuleEvidence::read,
     "TransformerEngine-FP8FlowMoe 4c097bf3"},
    {"deepgemm", ScaleType::f32, "1x128|128x128|128x1|1x32", f32_rule(kDeepGemm, kTorchCast),
     RuleEvidence::captured,
     "deepseek-ai/DeepGEMM 54e2261, deep_gemm/utils/math.py, torch 2.11; e4m3fnuz read in vllm "
     "0071b24, "
     "normalize_e4m3fn_to_e4m3fnuz",
     "e4m3|e4m3fnuz", "none|up", PowerOfTwo::up_clamped},
    {"deepgemm_cuda", ScaleType::f32, "1x128|128x128|128x1|1x32",
     f32_rule(kDeepGemmCuda, kTorchCast), RuleEvidence::captured,
     "deepseek-ai/DeepGEMM 54e2261, deep_gemm/utils/math.py on a GPU, torch 2.11", "e4m3",
     "none|up", PowerOfTwo::up_clamped},
    {"vllm", ScaleType::f32, "1x128|1x64|1x512", f32_rule(kNativeGroup, kTorchClamp224),
     RuleEvidence::run, "vllm, native_per_token_group_quant_fp8", "e4m3|e4m3fnuz", "none|up",
     PowerOfTwo::up_log2},
    {"vllm", ScaleType::f32, "1xK|RxK", f32_rule(kVllmToken, kTorchClamp224), RuleEvidence::run,
     "vllm 014af6b, QuantFP8.forward_native", "e4m3|e4m3fnuz", "none"},
    {"vllm", ScaleType::e8m0, "1x32", mx_rule(ScaleMode::rceil, kVllmMx, kTorchCast),
     RuleEvidence::run, "vllm, _mxfp8_e4m3_quantize_torch, torch 2.11 on a CPU", "e4m3"},
    {"vllm_scaled", ScaleType::f32, "", f32_rule(kVllmScaled), RuleEvidence::run,
     "vllm 01693a6, scaled_quantize; input_to_float8", "", "none"},
    {"vllm_scaled_f32", ScaleType::f32, "", f32_rule(kTorchReciprocal), RuleEvidence::run,
     "vllm 01693a6, scaled_quantize with compute_dtype f32", "", "none"},
    {"vllm_module", ScaleType::f32, "1x128|1x64|1x512", f32_rule(kVllmModule, kTorchClamp224),
     RuleEvidence::run, "vllm 014af6b, QuantFP8._quantize_group_native", "e4m3|e4m3fnuz", "none|up",
     PowerOfTwo::up_log2},
    {"vllm_cuda", ScaleType::f32, "1x128|1x64|1x512", f32_rule(kVllmCudaGroup, kClampUpLast224),
     RuleEvidence::read, "vllm 00aa903, per_token_group_quant.cu", "e4m3|e4m3fnuz", "none|up",
     PowerOfTwo::up_log2},
    {"vllm_cuda", ScaleType::f32, "1xK", f32_rule(kVllmCudaToken, kClampDownLast224),
     RuleEvidence::read, "vllm db702fc, common.cu", "e4m3|e4m3fnuz", "none"},
    {"vllm_cuda", ScaleType::f32, "RxK", f32_rule(kVllmCudaTensor, kClampDownLast224),
     RuleEvidence::read, "vllm db702fc, common.cu", "e4m3|e4m3fnuz", "none"},
    {"vllm_cuda_packed", ScaleType::f32, "1x128", f32_rule(kVllmCudaPacked, kClampUpLast),
     RuleEvidence::read, "vllm 00aa903, per_token_group_quant_8bit_packed", "e4m3", "up"},
    {"sglang", ScaleType::f32, "1x128|1x64|1x512", f32_rule(kNativeGroup, kTorchClamp224),
     RuleEvidence::run, "sglang, native_per_token_group_quant_fp8", "e4m3|e4m3fnuz", "none|up",
     PowerOfTwo::up_log2},
    {"sglang", ScaleType::f32, "RxK", f32_rule(kSglangTensor, kTorchClamp224), RuleEvidence::run,
     "sglang, input_to_float8", "", "none"},
    {"sglang_cuda", ScaleType::f32, "1x128|1x64|1x32|1x16|1x256",
     f32_rule(kSglangCudaGroup, kClampDownLast), RuleEvidence::read,
     "sglang 0bbef96, per_token_group_quant.cuh", "e4m3", "none|up"},
    {"sglang_cuda", ScaleType::f32, "1xK", f32_rule(kSglangCudaToken, kClampDownLast),
     RuleEvidence::read, "sglang 10e1774, per_token_quant_fp8.cu", "e4m3", "none"},
    {"sglang_cuda", ScaleType::f32, "RxK", f32_rule(kVllmCudaTensor, kClampDownLast),
     RuleEvidence::read, "sglang 021eada, per_tensor_quant_fp8.cuh", "e4m3", "none"},
    {"triton", ScaleType::f32, "1x128|1x64|1x512", f32_rule(kTritonGroup, kClampUpLast224),
     RuleEvidence::captured, "Triton 3.6 on an H200; vllm 007d500, _per_token_group_quant_fp8",
     "e4m3|e4m3fnuz", "none|up", PowerOfTwo::up_log2},
    {"fbgemm", ScaleType::f32, "1xK|1x128|128x128|256x256", f32_rule(kFbgemm, kTorchCast),
     RuleEvidence::run, "pytorch/FBGEMM 5804658, fp8_gemm.py in torch 2.11", "e4m3|e4m3fnuz",
     "none"},
    {"fbgemm_triton", ScaleType::f32, "1xK|1x128|128x128|256x256",
     f32_rule(kFbgemmTriton, kClampDownLast), RuleEvidence::read,
     "pytorch/FBGEMM 5804658, fp8_gemm.py in Triton, for Hopper", "e4m3|e4m3fnuz", "none"},
    {"tilelang", ScaleType::f32, "1x128", f32_rule(kTileLang, kClampUpLast), RuleEvidence::read,
     "tile-ai/tilelang 0973611, example_per_token_cast_to_fp8.py", "e4m3", "none"},
    {"deepep", ScaleType::f32, "1x128", f32_rule(kDeepEp), RuleEvidence::read,
     "deepseek-ai/DeepEP dd758ca, calculate_fp8_scales", "e4m3", "none|up"},
    {"deepep_torch", ScaleType::f32, "1x128", f32_rule(kDeepEpTorch, kTorchCast),
     RuleEvidence::captured, "deepseek-ai/DeepEP dd758ca, deep_ep/utils/math.py, torch 2.11",
     "e4m3", "none"},
    {"aiter", ScaleType::f32, "1xK|1x128", f32_rule(kAiter, kTorchCast), RuleEvidence::captured,
     "ROCm/aiter e404860, pertoken_quant, torch 2.11", "e4m3|e4m3fnuz", "none"},
    {"aiter", ScaleType::e8m0, "1x32", mx_rule(ScaleMode::rceil, kAiterMx, kTorchCast),
     RuleEvidence::captured, "ROCm/aiter e404860, f32_to_mx_e8m0_scale, torch 2.11",
     "e4m3|e4m3fnuz"},
    {"aiter_hip", ScaleType::f32, "1x128|1x64|1x32", f32_rule(kAiterHip), RuleEvidence::read,
     "ROCm/aiter e404860, quant_kernels.cu", "e4m3|e4m3fnuz", "none"},
    {"aiter_triton", ScaleType::e8m0, "1x32", mx_rule(ScaleMode::even, kAiterTritonMx),
     RuleEvidence::run, "ROCm/aiter e404860, _mxfp8_quant_op", "e4m3"},
    {"jax", ScaleType::e8m0, "1x32", mx_rule(ScaleMode::rceil, kJaxMx), RuleEvidence::read,
     "jax-ml/jax 055a883, scaled_matmul_stablehlo.py, for a GPU", "e4m3|e5m2"},
    {"flashinfer", ScaleType::e8m0, "1x32", mx_rule(ScaleMode::floor, kFlashinferMx),
     RuleEvidence::captured, "flashinfer fb28d72, trace/templates/quantize.py", "e4m3"},
    {"mlx", ScaleType::e8m0, "1x32", mx_rule(ScaleMode::rceil, kMlxMx), RuleEvidence::read,
     "ml-explore/mlx, fp8_e8m0 before mx_scale_round_up", "e4m3"},
    {"vllm_53110", ScaleType::e8m0, "1x32", mx_rule(ScaleMode::floor, kVllm53110),
     RuleEvidence::published, "vllm-project/vllm#53110", "e4m3"},
    {"microxcaling", ScaleType::e8m0, "",
     mx_rule(ScaleMode::floor, kMicroxcaling, kMicroxcalingElement), RuleEvidence::captured,
     "microsoft/microxcaling 7bc4195", "e4m3|e5m2"},
};

static_assert(f32_scale<kE4M3>(0.0f, kTorchaoRowwise, 1.0f).factor == 0x1p48f);
static_assert(f32_scale<kE4M3>(0.0f, kTeBlockwise, 1.0f).stored == 1.0f);
static_assert(f32_scale<kE4M3>(449.0f, kTeBlockwise, 1.0f).factor == 0.5f);

}  // namespace mxo
