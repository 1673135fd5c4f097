// What each stack does to scale a block, as constants: the rows of formats/scale_rules.h name them.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/scaled_block.h"

namespace mxo {

/// torchao block-wise training.  Its Triton kernels raise amax to epsilon before they widen it:
/// another last bit where amax is below 1e-12.
inline constexpr F32ScaleRule kTorchaoBlockwise{};
/// torchao row-wise training.
inline constexpr F32ScaleRule kTorchaoRowwise{.power_of_2 = PowerOfTwo::down};
/// torchao's Float8TrainingTensor: the same scale, kept as the multiplier that it is.
inline constexpr F32ScaleRule kTorchaoMultiplier{.stores = StoredScale::multiplier};
/// torchao's Float8Tensor in torch: amax and its quotient have the type of x.
inline constexpr F32ScaleRule kTorchaoTensor{.quotient = Quotient::amax_over_max,
                                             .epsilon = 0.0,
                                             .floor = AmaxFloor::in_x,
                                             .code = CodeScaling::divide,
                                             .in_x = StepsInX::scale};
/// TransformerEngine Float8BlockScaling: power of two, epsilon 0; NaN does not reach amax, and Inf
/// and zero have scale 1.
inline constexpr F32ScaleRule kTeBlockwise{.quotient = Quotient::max_over_amax,
                                           .power_of_2 = PowerOfTwo::down,
                                           .epsilon = 0.0,
                                           .floor = AmaxFloor::in_f32,
                                           .nan = NanRule::ignore,
                                           .zero = SpecialAmax::one,
                                           .infinity = SpecialAmax::one,
                                           .too_large = TooLarge::input_max};
/// FP8-Flow-MoE: TransformerEngine's kernel with amax raised to 1e-10.
inline constexpr F32ScaleRule kFlowBlockwise{.quotient = Quotient::max_over_amax,
                                             .power_of_2 = PowerOfTwo::down,
                                             .epsilon = 1e-10,
                                             .floor = AmaxFloor::in_f32,
                                             .nan = NanRule::ignore,
                                             .zero = SpecialAmax::one,
                                             .infinity = SpecialAmax::one,
                                             .too_large = TooLarge::input_max};
/// TransformerEngine, one scale a tensor, from its own amax.
inline constexpr F32ScaleRule kTeTensor{.quotient = Quotient::max_over_amax,
                                        .epsilon = 0.0,
                                        .floor = AmaxFloor::in_f32,
                                        .nan = NanRule::ignore,
                                        .zero = SpecialAmax::one,
                                        .infinity = SpecialAmax::one,
                                        .too_large = TooLarge::float_max};

/// torch casts without a clamp: what overflows becomes NaN.
inline constexpr ElementRule kTorchCast{.overflow = Overflow::nonfinite};
/// min(max(v, -max), max) of CUDA and Triton, which turns NaN into -max.
inline constexpr ElementRule kClampUpLast{.nan = NanCode::lowest};
inline constexpr ElementRule kClampUpLast224{.nan = NanCode::lowest, .fnuz_max = 224};
/// max(-max, min(v, max)), which turns NaN into max.
inline constexpr ElementRule kClampDownLast{.nan = NanCode::highest};
inline constexpr ElementRule kClampDownLast224{.nan = NanCode::highest, .fnuz_max = 224};
/// torch.clamp, which keeps NaN.
inline constexpr ElementRule kTorchClamp224{.fnuz_max = 224};

/// DeepGEMM per_token_, per_block_ and per_channel_cast_to_fp8.  In e4m3fnuz its codes as vLLM
/// reads them (normalize_e4m3fn_to_e4m3fnuz): each byte is half of what it was, each scale doubled,
/// which is amax / 224; what was NaN stays NaN.
inline constexpr F32ScaleRule kDeepGemm{.quotient = Quotient::amax_over_max,
                                        .epsilon = 1e-4,
                                        .floor = AmaxFloor::in_f32,
                                        .fnuz_max = 224};
/// The same on a GPU, where torch multiplies by 1 / 448 where a tensor is divided by a number.
inline constexpr F32ScaleRule kDeepGemmCuda{
    .quotient = Quotient::amax_times_reciprocal, .epsilon = 1e-4, .floor = AmaxFloor::in_f32};

/// native_per_token_group_quant_fp8 of vLLM and SGLang, in torch.
inline constexpr F32ScaleRule kNativeGroup{.quotient = Quotient::amax_over_max,
                                           .epsilon = 1e-10,
                                           .floor = AmaxFloor::in_x,
                                           .code = CodeScaling::divide,
                                           .fnuz_max = 224};
/// vLLM's torch path of one scale a token or a tensor.
inline constexpr F32ScaleRule kVllmToken{.quotient = Quotient::amax_over_max,
                                         .epsilon = 0.0,
                                         .floor = AmaxFloor::in_f32,
                                         .least = LeastScale::before_power,
                                         .fnuz_max = 224};
/// QuantFP8 of vLLM, groups in torch: no floor of amax, one of the scale, after the power of two.
inline constexpr F32ScaleRule kVllmModule{.quotient = Quotient::amax_over_max,
                                          .epsilon = 0.0,
                                          .floor = AmaxFloor::in_f32,
                                          .code = CodeScaling::divide,
                                          .least = LeastScale::after_power,
                                          .fnuz_max = 224};
/// max / amax of a tensor in torch, which is max * (1 / amax).
inline constexpr F32ScaleRule kTorchReciprocal{.quotient = Quotient::max_times_reciprocal,
                                               .floor = AmaxFloor::in_f32};
/// vLLM's scaled_quantize, all of it in the type of x.
inline constexpr F32ScaleRule kVllmScaled{
    .quotient = Quotient::max_times_reciprocal, .floor = AmaxFloor::in_x, .in_x = StepsInX::every};
/// SGLang's input_to_float8.
inline constexpr F32ScaleRule kSglangTensor{
    .quotient = Quotient::max_times_reciprocal, .floor = AmaxFloor::in_f32, .fnuz_max = 224};
/// torchao's kernels for inference as Triton's interpreter runs them: 448 whatever the format, no
/// floor, no clamp.
inline constexpr F32ScaleRule kTorchaoInference{.quotient = Quotient::amax_over_max,
                                                .epsilon = 0.0,
                                                .floor = AmaxFloor::in_f32,
                                                .nan = NanRule::ignore,
                                                .code = CodeScaling::divide,
                                                .max = 448};
/// The same compiled for a GPU: div.full of amax by 448 is amax * fl(1 / 448).
inline constexpr F32ScaleRule kTorchaoInferenceCuda{.quotient = Quotient::amax_times_reciprocal,
                                                    .epsilon = 0.0,
                                                    .floor = AmaxFloor::in_f32,
                                                    .nan = NanRule::ignore,
                                                    .code = CodeScaling::divide,
                                                    .max = 448};
/// vLLM's CUDA kernel of groups.
inline constexpr F32ScaleRule kVllmCudaGroup{.quotient = Quotient::amax_over_max,
                                             .epsilon = 1e-10,
                                             .floor = AmaxFloor::in_f32,
                                             .nan = NanRule::ignore,
                                             .code = CodeScaling::divide,
                                             .power_floor = 1e-10,
                                             .fnuz_max = 224};
/// Its kernel of groups whose scales are packed bytes, made from bits.
inline constexpr F32ScaleRule kVllmCudaPacked{.quotient = Quotient::amax_over_max,
                                              .power_of_2 = PowerOfTwo::up,
                                              .epsilon = 1e-10,
                                              .floor = AmaxFloor::in_f32,
                                              .nan = NanRule::ignore,
                                              .code = CodeScaling::divide,
                                              .power_floor = 1e-10};
/// Its kernel of one scale a token.
inline constexpr F32ScaleRule kVllmCudaToken{.quotient = Quotient::amax_over_max,
                                             .epsilon = 0.0,
                                             .floor = AmaxFloor::in_f32,
                                             .nan = NanRule::ignore,
                                             .code = CodeScaling::divide,
                                             .least = LeastScale::before_power,
                                             .fnuz_max = 224};
/// Its kernels of one scale a tensor, and SGLang's: a tensor of zeros has scale 0, and 0 x Inf for
/// codes.
inline constexpr F32ScaleRule kVllmCudaTensor{.quotient = Quotient::amax_over_max,
                                              .epsilon = 0.0,
                                              .floor = AmaxFloor::in_f32,
                                              .nan = NanRule::ignore,
                                              .fnuz_max = 224};
/// SGLang's CUDA kernel of groups.
inline constexpr F32ScaleRule kSglangCudaGroup{.quotient = Quotient::amax_times_reciprocal,
                                               .epsilon = 1e-10,
                                               .floor = AmaxFloor::in_f32,
                                               .nan = NanRule::ignore,
                                               .code = CodeScaling::own_quotient};
/// Its kernel of one scale a token, a warp each.
inline constexpr F32ScaleRule kSglangCudaToken{.quotient = Quotient::amax_over_max,
                                               .epsilon = 0.0,
                                               .floor = AmaxFloor::in_f32,
                                               .nan = NanRule::ignore,
                                               .zero = SpecialAmax::no_factor};
/// The group quantiser of vLLM and SGLang in Triton: amax / 448 compiles to amax * fl(1 / 448).
inline constexpr F32ScaleRule kTritonGroup{.quotient = Quotient::amax_times_reciprocal,
                                           .epsilon = 1e-10,
                                           .floor = AmaxFloor::in_f32,
                                           .nan = NanRule::ignore,
                                           .code = CodeScaling::divide,
                                           .fnuz_max = 224};
/// FBGEMM quantize_fp8_row and _block in eager torch.
inline constexpr F32ScaleRule kFbgemm{.quotient = Quotient::max_times_reciprocal,
                                      .epsilon = 1e-12,
                                      .floor = AmaxFloor::in_x,
                                      .zero = SpecialAmax::one};
/// Its Triton kernels, whose divisions are div.full.
inline constexpr F32ScaleRule kFbgemmTriton{.quotient = Quotient::max_div_full_amax,
                                            .epsilon = 1e-12,
                                            .floor = AmaxFloor::in_f32,
                                            .nan = NanRule::ignore};
/// TileLang's kernels of tokens and groups.
inline constexpr F32ScaleRule kTileLang{.quotient = Quotient::amax_over_max,
                                        .epsilon = 1e-4,
                                        .floor = AmaxFloor::in_f32,
                                        .nan = NanRule::ignore,
                                        .code = CodeScaling::divide};
/// DeepEP's cast before a low-latency dispatch.
inline constexpr F32ScaleRule kDeepEp{.quotient = Quotient::amax_times_reciprocal,
                                      .epsilon = 1e-4,
                                      .floor = AmaxFloor::in_f32,
                                      .nan = NanRule::ignore,
                                      .code = CodeScaling::own_quotient};
/// The same in eager torch, in DeepEP's tests and as TileLang's reference.
inline constexpr F32ScaleRule kDeepEpTorch{.quotient = Quotient::amax_over_max,
                                           .epsilon = 1e-4,
                                           .floor = AmaxFloor::in_f32,
                                           .code = CodeScaling::own_reciprocal};
/// aiter pertoken_quant: a scale that comes out 0 is 1.
inline constexpr F32ScaleRule kAiter{.quotient = Quotient::amax_over_max,
                                     .epsilon = 0.0,
                                     .floor = AmaxFloor::in_f32,
                                     .zero = SpecialAmax::one,
                                     .code = CodeScaling::divide};
/// aiter's HIP kernel of groups.
inline constexpr F32ScaleRule kAiterHip{.quotient = Quotient::amax_times_reciprocal,
                                        .epsilon = 1e-10,
                                        .floor = AmaxFloor::in_f32,
                                        .nan = NanRule::ignore};

/// aiter f32_to_mx_e8m0_scale, all four modes.
inline constexpr ScaleProfile kAiterMx{
    .descale = Descale::division, .floor = FloorRule::multiply, .up = SubnormalUp::always};
/// aiter's Triton kernel of MXFP8, whose rounding is that of MXFP4.
inline constexpr ScaleProfile kAiterTritonMx{.infinity = InfinityRule::saturate_flush,
                                             .nan = NanRule::ignore,
                                             .exponent = ExponentRule::quarter};
/// JAX block-scaled quantize, as a GPU computes it: a NaN wraps to byte 0.  XLA on a CPU flushes
/// subnormal scales.
inline constexpr ScaleProfile kJaxMx{
    .descale = Descale::division_in_x, .infinity = InfinityRule::flush, .nan_scale = 0};
/// flashinfer's trace reference on a GPU; on a CPU the exponent of an infinity is -127.
inline constexpr ScaleProfile kFlashinferMx{
    .infinity = InfinityRule::flush, .exponent = ExponentRule::floor_quotient, .nan_scale = 0x7F};
/// MLX before it rounded scales up.
inline constexpr ScaleProfile kMlxMx{.exponent = ExponentRule::nearest_quotient};
/// vLLM's MXFP8 in torch: the byte of a NaN wraps to 0.
inline constexpr ScaleProfile kVllmMx{.infinity = InfinityRule::saturate,
                                      .exponent = ExponentRule::ceil_quotient,
                                      .nan_scale = 0,
                                      .nan_codes = true};
/// What vllm-project/vllm#53110 reports.
inline constexpr ScaleProfile kVllm53110{.exponent = ExponentRule::floor_amax};
/// microxcaling.
inline constexpr ScaleProfile kMicroxcaling{.exponent = ExponentRule::floor_log2};
/// Its default rounding of elements, and signs of what underflows.
inline constexpr ElementRule kMicroxcalingElement{.rounding = Rounding::ties_away,
                                                  .zero = ZeroSign::lost};

}  // namespace mxo
