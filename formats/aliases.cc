// Names of torch, torchao, vLLM, SGLang, DeepGEMM, TransformerEngine, FBGEMM, flashinfer and JAX.
#include "formats/aliases.h"

#include <algorithm>
#include <array>
#include <span>

namespace mxo {
namespace {

struct Name {
  std::string_view typed, here;
};

constexpr auto kOperations = std::to_array<Name>({
    {"silu_and_mul", "swiglu"},
    {"gelu_and_mul", "swiglu"},
    {"grouped_gemm", "grouped_matmul"},
    {"grouped_mm", "grouped_matmul"},
    {"scaled_grouped_mm", "grouped_matmul"},
    {"scaled_mm", "grouped_matmul"},
    {"matmul", "grouped_matmul"},
    {"gemm", "grouped_matmul"},
    {"fp8_gemm_nt", "grouped_matmul"},
    {"m_grouped_fp8_gemm_nt_contiguous", "grouped_matmul"},
    {"w8a8_block_fp8_matmul", "grouped_matmul"},
    {"quant", "quantize"},
    {"to_mx", "quantize"},
    {"mxfp8_quantize", "quantize"},
    {"scaled_fp8_quant", "quantize"},
    {"per_token_group_quant_fp8", "quantize"},
    {"per_token_quant_fp8", "quantize"},
    {"per_token_cast_to_fp8", "quantize"},
    {"per_block_cast_to_fp8", "quantize"},
    {"quantize_fp8_row", "quantize"},
    {"quantize_fp8_block", "quantize"},
    {"dequant", "dequantize"},
    {"to_blocked", "swizzle_scales"},
    {"block_scale_interleave", "swizzle_scales"},
    {"fused_moe", "moe_layer"},
    {"fused_experts", "moe_layer"},
    {"moe", "moe_layer"},
    {"fused_topk", "route"},
    {"grouped_topk", "route"},
    {"topk_softmax", "route"},
    {"topk", "route"},
    {"router", "route"},
    {"moe_permute", "permute"},
    {"moe_unpermute", "unpermute"},
    {"silu_and_mul_quant", "swiglu_quantize"},
});

constexpr auto kParameters = std::to_array<Name>({
    {"block_size", "block"},
    {"block_shape", "block"},
    {"weight_block_size", "block"},
    {"group_size", "block"},
    {"group_shape", "block"},
    {"granularity", "block"},
    {"axis", "block"},
    {"dtype", "format"},
    {"quant_dtype", "format"},
    {"elem_dtype", "format"},
    {"fp8_dtype", "format"},
    {"profile", "rule"},
    {"use_ue8m0", "power_of_2"},
    {"scale_ue8m0", "power_of_2"},
    {"round_scale", "power_of_2"},
    {"force_pow_2_scales", "power_of_2"},
    {"round_scales_to_power_of_2", "power_of_2"},
    {"eps", "epsilon"},
    {"amax_epsilon", "epsilon"},
    {"scale_calculation_mode", "scale_mode"},
    {"scaling_mode", "scale_mode"},
    {"is_sf_swizzled_layout", "scale_layout"},
    {"sf_swizzle_layout", "scale_layout"},
    {"out_dtype", "out"},
    {"scoring_func", "score"},
    {"score_func", "score"},
    {"num_expert_group", "groups"},
    {"n_group", "groups"},
    {"topk_group", "limited_groups"},
    {"renormalize", "normalize"},
    {"norm_topk_prob", "normalize"},
    {"routed_scaling_factor", "scale"},
    {"route_scale", "scale"},
    {"apply_router_weight_on_input", "scores"},
    {"score_before_experts", "scores"},
    {"swiglu_limit", "limit"},
    {"swiglu_alpha", "alpha"},
    {"interleaved", "halves"},
    {"num_experts", "experts"},
    {"accumulation", "sum"},
    {"use_fast_accum", "sum"},
});

constexpr auto kFormats = std::to_array<Name>({
    {"e4m3fn", "e4m3"},
    {"mxfp8", "e4m3"},
    {"mxfp8_e4m3", "e4m3"},
    {"mxfp8_e5m2", "e5m2"},
    {"fp8_e4m3", "e4m3"},
    {"fp8_e4m3fn", "e4m3"},
    {"fp8_e5m2", "e5m2"},
    {"fp8_e4m3fnuz", "e4m3fnuz"},
    {"fp8_e5m2fnuz", "e5m2fnuz"},
    {"f8e4m3fn", "e4m3"},
    {"f8e5m2", "e5m2"},
    {"f8e4m3fnuz", "e4m3fnuz"},
    {"f8e5m2fnuz", "e5m2fnuz"},
    {"f8_e4m3", "e4m3"},
    {"f8_e5m2", "e5m2"},
    {"float8_e4m3fn", "e4m3"},
    {"float8_e4m3fnuz", "e4m3fnuz"},
    {"float8_e5m2", "e5m2"},
    {"float8_e5m2fnuz", "e5m2fnuz"},
    {"ue8m0", "e8m0"},
    {"e8m0fnu", "e8m0"},
    {"float8_e8m0fnu", "e8m0"},
    {"f8_e8m0", "e8m0"},
    {"bfloat16", "bf16"},
    {"float16", "f16"},
    {"fp16", "f16"},
    {"half", "f16"},
    {"float32", "f32"},
    {"fp32", "f32"},
});

constexpr auto kScaleLayouts = std::to_array<Name>({
    {"linear", "row_major"},
    {"layout_linear", "row_major"},
    {"no_swizzle", "row_major"},
    {"swizzled", "blocked"},
    {"128x4", "blocked"},
    {"layout_128x4", "blocked"},
    {"swizzle_32_4_4", "blocked"},
    {"8x4", "tiles_8x4"},
    {"layout_8x4", "tiles_8x4"},
    {"tma_aligned", "mn_major_tma"},
    {"mn_major_tma_aligned", "mn_major_tma"},
});

constexpr auto kBlocks = std::to_array<Name>({
    {"per_token", "1xK"},
    {"per_row", "1xK"},
    {"rowwise", "1xK"},
    {"row_wise", "1xK"},
    {"per_tensor", "RxK"},
    {"tensorwise", "RxK"},
    {"per_column", "Rx1"},
    {"1x-1", "1xK"},
    {"-1x1", "Rx1"},
    {"-1x-1", "RxK"},
});

constexpr auto kRules = std::to_array<Name>({
    {"transformer_engine", "te"},
    {"transformerengine", "te"},
    {"ao", "torchao"},
    {"deep_gemm", "deepgemm"},
    {"deep_ep", "deepep"},
    {"fp8_flow", "flow"},
    {"sgl", "sglang"},
    {"sgl_kernel", "sglang_cuda"},
});

// pytorch/ao 36027d8: names and values of MXFP8TrainingRecipe and Float8TrainingRecipe
// (moe_training/config.py); emulated kernels return the same bits.
constexpr auto kRecipes = std::to_array<Name>({
    {"mxfp8_rceil", "mxfp8_rceil"},
    {"mxfp8_emulated_rceil", "mxfp8_rceil"},
    {"mxfp8_rceil_wgrad_with_hp", "mxfp8_rceil_wgrad_with_hp"},
    {"fp8_rowwise", "fp8_rowwise"},
});

constexpr auto kSums = std::to_array<Name>({
    {"deepgemm", "deepgemm_sm90"},
    {"deep_gemm", "deepgemm_sm90"},
    {"cublas", "cublaslt_blockwise_sm90"},
    {"cublaslt", "cublaslt_blockwise_sm90"},
    {"triton", "triton_block_sm90"},
    {"wgmma", "h200_wgmma_fast"},
    {"fast_accum", "h200_wgmma_fast"},
    {"h100", "h200_wgmma_fast"},
    {"h200", "h200_wgmma_fast"},
    {"hopper", "h200_wgmma_fast"},
    {"sm90", "h200_wgmma_fast"},
    {"ada", "ada_mma"},
    {"sm89", "ada_mma"},
    {"b200", "b200_tcgen05"},
    {"blackwell", "b200_tcgen05"},
    {"sm100", "b200_tcgen05"},
    {"tcgen05", "b200_tcgen05"},
    {"sm120", "sm120_mxf8f6f4"},
    {"mi300", "mi300_mfma"},
    {"mi300x", "mi300_mfma"},
    {"gfx942", "mi300_mfma"},
    {"mfma", "mi300_mfma"},
    {"fp32", "fma_chain"},
    {"f32", "fma_chain"},
});

constexpr std::string_view kOfFourBits = "of 4 bits; the quantisers here make 8-bit codes";
constexpr std::string_view kMxRule =
    "a format with e8m0 scales: leave rule out (torchao) or name a stack, and set scale_mode=rceil "
    "or floor";
constexpr std::string_view kGroupBlock =
    "1x128 of vLLM, SGLang and DeepGEMM, 1x32 of MX; 128x128 for weights";

/// Words that are no name of one thing here, and what to type.
constexpr auto kRuleAdvice = std::to_array<Name>({
    {"mxfp8", kMxRule},
    {"mxfp8_e4m3", kMxRule},
    {"mxfp8_e5m2", kMxRule},
    {"mx", kMxRule},
    {"fp8", "a format: set format=e4m3 or e5m2, and name a stack, as rule=vllm"},
    {"e4m3", "a format: format=e4m3"},
    {"e5m2", "a format: format=e5m2"},
    {"e8m0", "a type of scales: scale=e8m0"},
    {"f32", "a type of scales: scale=f32"},
    {"nvfp4", kOfFourBits},
    {"mxfp4", kOfFourBits},
    {"deepseek", "which code of it: deepgemm (its weights and activations), deepep or tilelang"},
    {"deepseek_v3", "which code of it: deepgemm (its weights and activations), deepep or tilelang"},
    {"rceil", "how e8m0 scales are rounded: scale_mode=rceil"},
    {"floor", "how e8m0 scales are rounded: scale_mode=floor"},
    {"ceil", "how e8m0 scales are rounded: scale_mode=ceil"},
    {"even", "how e8m0 scales are rounded: scale_mode=even"},
});

constexpr auto kBlockAdvice = std::to_array<Name>({
    {"per_channel",
     "1xK for the output channels of a weight [N, K]; a column is Rx1, 128 of its rows "
     "128x1 (DeepGEMM's per_channel_cast_to_fp8)"},
    {"channelwise", "1xK for the output channels of a weight [N, K]; a column is Rx1"},
    {"per_block", kGroupBlock},
    {"blockwise", kGroupBlock},
    {"per_group", kGroupBlock},
    {"groupwise", kGroupBlock},
    {"per_token_group", kGroupBlock},
});

constexpr auto kFormatAdvice = std::to_array<Name>({
    {"fp8", "needs e4m3 (torch.float8_e4m3fn) or e5m2"},
    {"float8", "needs e4m3 (torch.float8_e4m3fn) or e5m2"},
    {"float8_e4m3",
     "needs e4m3 for float8_e4m3fn; float8_e4m3 of ml_dtypes has infinities and is not supported"},
    {"nvfp4", kOfFourBits},
    {"mxfp4", kOfFourBits},
    {"fp4", kOfFourBits},
    {"e2m1", kOfFourBits},
    {"float4_e2m1fn", kOfFourBits},
    {"float4_e2m1fn_x2", kOfFourBits},
});

std::span<const Name> advice_of(Word kind) {
  switch (kind) {
    case Word::rule: return kRuleAdvice;
    case Word::block: return kBlockAdvice;
    case Word::format: return kFormatAdvice;
    default: return {};
  }
}

std::span<const Name> names_of(Word kind) {
  switch (kind) {
    case Word::operation: return kOperations;
    case Word::parameter: return kParameters;
    case Word::scale_layout: return kScaleLayouts;
    case Word::block: return kBlocks;
    case Word::sum: return kSums;
    case Word::rule: return kRules;
    case Word::recipe: return kRecipes;
    case Word::format: break;
  }
  return kFormats;
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view found_in(std::span<const Name> names, Word kind, std::string_view typed) {
  if (kind == Word::format) {  // torch.float8_e4m3fn
    typed.remove_prefix(typed.rfind('.') + 1);
  }
  for (const Name& name : names) {
    if (same_letters(name.typed, typed)) return name.here;
  }
  return {};
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string_view canonical_name(Word kind, std::string_view typed) {
  return found_in(names_of(kind), kind, typed);
}

std::string advice_on(Word kind, std::string_view typed) {
  std::string said(found_in(advice_of(kind), kind, typed));
  if (!said.empty()) return said;
  if (kind == Word::block && all_digits(typed) && typed[0] != '0') {
    const std::string n(typed);
    return "1x" + n + " for " + n + " along a row, " + n + "x" + n + " for a square of a weight";
  }
  if (kind != Word::rule) return {};
  if (const std::string_view block = canonical_name(Word::block, typed); !block.empty()) {
    return "a block: block=" + std::string(block);
  }
  if (const std::string_view format = canonical_name(Word::format, typed); !format.empty()) {
    const char* key = format == "e8m0" ? "a type of scales: scale=" : "a format: format=";
    return key + std::string(format);
  }
  return {};
}

}  // namespace mxo
