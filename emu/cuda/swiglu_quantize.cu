// swiglu_quantize and its gradients on the device: in one pass for MX blocks of whole rows, else in
// two steps with what is between them in memory of the backend.
#include "ops/swiglu_quantize.h"

#include "emu/cuda/gate_estimate.cuh"
#include "emu/cuda/quantize.cuh"
#include "emu/cuda/quantize_kernels.cuh"
#include "emu/reference/elementwise.h"
#include "ops/backend_tensor.h"

namespace mxo::cuda {
namespace {

constexpr int kNeighbours = 8;

/// The eight codes of a lane and the scale of its four lanes from estimates; false where a lane of
/// the four cannot tell.  Scales and codes rise with what they are made of, so that both ends of an
/// interval giving one byte decide it.
template <typename Code, typename X, bool Weighted, typename Rule>
__device__ bool estimated_codes(const GateInputs<X, Weighted>& in, const Rule& rule,
                                BlockScale& scale, uint2& codes) {
  float value[8];
  float top = 0.0f;
  bool small = false;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    value[j] = in.estimate(j);
    small |= !(fabsf(value[j]) > kGateSmallest);
    top = fmaxf(top, fabsf(value[j]));
  }
  bool sure = in.usual;
  if (small) {
#pragma unroll
    for (int j = 0; j < 8; ++j) sure &= fabsf(value[j]) > kGateSmallest || in.is_zero(j);
  }
  top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 1));
  top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFFu, top, 2));
  // Even lanes ask the one end for its scale, odd lanes the other.
  const float end = threadIdx.x % 2 == 0 ? 1.0f - kGateSlack : 1.0f + kGateSlack;
  scale = block_scale<Code>(__float_as_uint(top * end), rule);
  sure &= scale.bits == __shfl_xor_sync(0xFFFFFFFFu, scale.bits, 1);
  // A power of two by 1 +- the slack is exact.
  const float below = scale.factor * (1.0f - kGateSlack);
  const float above = scale.factor * (1.0f + kGateSlack);
  float lo[8];
  float hi[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    lo[j] = value[j] * below;
    hi[j] = value[j] * above;
  }
  codes = saturated_eight<Code>(lo);
  const uint2 others = saturated_eight<Code>(hi);
  sure &= codes.x == others.x && codes.y == others.y;
  const unsigned four = 0xFu << (threadIdx.x % 32 / 4 * 4);
  return (__ballot_sync(0xFFFFFFFFu, sure) & four) == four;
}

/// The same with every f32 step of the definition.
template <typename Code, typename X, bool Weighted, typename Rule>
__device__ void exact_codes(const GateInputs<X, Weighted>& in, const Rule& rule, BlockScale& scale,
                            uint2& codes) {
  float value[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) value[j] = in.exact(j);
  Eight<float> y;
  y.word[0] = make_float4(value[0], value[1], value[2], value[3]);
  y.word[1] = make_float4(value[4], value[5], value[6], value[7]);
  scale = scale_of_four_lanes<Code>(y, rule);
  y.values(scale.factor, value);
  codes = saturated_eight<Code>(value);
}

/// codes [R, F], scales [R, F/32]; y is rounded to bf16 first where `Rounding` is BF16.  A thread
/// has several packs under way: what follows a load takes long.
template <int Packs, typename Rounding, typename X, bool Weighted, typename Code, typename Rule>
__global__ void __launch_bounds__(kThreads)
    gate_quantize_kernel(Matrix<const X> x, TensorView<const float, 1> probs, Matrix<Code> codes,
                         Matrix<E8M0> scales, Rule rule) {
  const Index r = blockIdx.x;
  const Index width = codes.extent[1];
  Eight<X> a[Packs];
  Eight<X> b[Packs];
  const auto column = [&](int p) {
    return static_cast<Index>((blockIdx.y * Packs + p) * blockDim.x + threadIdx.x) * kNeighbours;
  };
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    const Index f = column(p);
    if (f >= width) continue;  // the lanes of a block all are inside, or none
    a[p].load(&x(r, f));
    b[p].load(&x(r, width + f));
  }
  const float probability = Weighted ? probs(r) : 1.0f;
#pragma unroll
  for (int p = 0; p < Packs; ++p) {
    const GateInputs<X, Weighted> in(a[p], b[p], probability);
    BlockScale scale;
    uint2 eight;
    if constexpr (std::is_same_v<Rounding, BF16>) {
      const Eight<BF16> y = gate_in_bf16(in);
      scale = scale_of_four_lanes<Code>(y, rule);
      float scaled[8];
      y.values(scale.factor, scaled);
      eight = saturated_eight<Code>(scaled);
    } else {
      const bool sure = estimated_codes<Code>(in, rule, scale, eight);
      if (!__all_sync(0xFFFFFFFFu, sure)) exact_codes<Code>(in, rule, scale, eight);
    }
    const Index f = column(p);
    if (f >= width) continue;
    *reinterpret_cast<uint2*>(&codes(r, f)) = eight;
    if (threadIdx.x % 4 == 0) scales(r, f / kMxBlock) = {scale.bits};
  }
}

constexpr int kPacks = 2;
constexpr int kGateThreads = 64;

/// True if the call was taken: the plain gate, MX blocks of whole rows, rules of torchao's family,
/// no f16.
bool run_in_one_pass(cudaStream_t stream, const SwigluQuantize& op) {
  const Index rows = op.x.extent[0];
  const Index width = op.x.extent[1] / 2;
  if (op.x.dtype == Dtype::f16 || op.rounding == Dtype::f16) return false;
  if (op.gate != GateRule{} || op.to.block != kMxColumns || op.to.scales.dtype != Dtype::e8m0 ||
      op.to.storage != ScaleStorage::row_major || op.group_ends.given() || !is_regular(op.rule) ||
      width % kMxBlock != 0 || width > kWidestPacked || !rows_aligned(op.x, 16) ||
      !rows_aligned(op.to.codes, kNeighbours)) {
    return false;
  }
  if (rows == 0 || width == 0) return true;
  const PackedRows at(rows, width / kNeighbours, kGateThreads, kPacks);
  visit_rule(op.to.codes.dtype, op.rule.mode, op.rule.e8m0, [&](auto code, auto rule) {
    visit_f32_or_bf16(op.x.dtype, [&](auto from) {
      visit_f32_or_bf16(op.rounding, [&](auto rounding) {
        visit_weighted(op.probs, [&](auto weighted) {
          using Code = typename decltype(code)::type;
          using X = typename decltype(from)::type;
          using Rounding = typename decltype(rounding)::type;
          constexpr bool kWeighted = decltype(weighted)::value;
          gate_quantize_kernel<kPacks, Rounding, X, kWeighted, Code>
              <<<at.blocks, at.threads, 0, stream>>>(
                  op.x.as<const X, 2>(), op.probs.as<const float, 1>(), op.to.codes.as<Code, 2>(),
                  op.to.scales.as<E8M0, 2>(), rule);
        });
      });
    });
  });
  check_launch("swiglu_quantize");
  return true;
}

}  // namespace

void DeviceBackend::run(const SwigluQuantize& op) {
  if (run_in_one_pass(stream(), op)) return;
  BackendTensor y(*this, op.rounding, {op.x.extent[0], op.x.extent[1] / halves_of(op.gate)});
  run(Swiglu{op.x, op.probs, y.result(), op.gate});
  run(Quantize{y.operand(), op.group_ends, op.to, op.rule});
}

void DeviceBackend::run(const SwigluQuantizeBackward& op) {
  BackendTensor dx(*this, op.rounding, {op.x.extent[0], op.x.extent[1]});
  run(SwigluBackward{op.x, op.probs, op.dy, dx.result(), op.dprobs, op.gate});
  run(Quantize{dx.operand(), op.group_ends, op.to, op.rule});
}

}  // namespace mxo::cuda
