// formats/ as device code: compiled, never run.  Every header of the floor, and its codecs.
#include "formats/aliases.h"
#include "formats/any_view.h"
#include "formats/approximate.h"
#include "formats/approximate_lg2_tanh.h"
#include "formats/approximate_lg2_tanh_tables.h"
#include "formats/approximate_tables.h"
#include "formats/delayed_scale.h"
#include "formats/dtype.h"
#include "formats/erf.h"
#include "formats/error.h"
#include "formats/exp.h"
#include "formats/format_spec.h"
#include "formats/host_device.h"
#include "formats/input_choices.h"
#include "formats/inputs.h"
#include "formats/memory_room.h"
#include "formats/minifloat.h"
#include "formats/mx_block.h"
#include "formats/mx_scale.h"
#include "formats/nearest_name.h"
#include "formats/philox.h"
#include "formats/rounded_once.h"
#include "formats/rounding.h"
#include "formats/scale_exponent.h"
#include "formats/scale_layout.h"
#include "formats/scale_profile.h"
#include "formats/scale_rules.h"
#include "formats/scaled_block.h"
#include "formats/softplus.h"
#include "formats/stack_rules.h"
#include "formats/tensor.h"
#include "formats/tensor_view.h"

namespace mxo {

// The kernels take a format as a type: nvcc 13 cannot spell the host's side of a kernel whose
// template argument is a FormatSpec.
template <typename Code>
__global__ void round_trip(const float* x, float* y, Index n) {
  const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = decode(encode<Code::spec>(x[i], Overflow::saturate));
}

template <typename Code>
__global__ void quantize_blocks(Matrix<const float> x, std::uint8_t* codes, E8M0* scales,
                                ScaleMode mode, ScaleProfile profile) {
  const Index block = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block >= x.extent[0]) return;
  std::uint32_t amax = 0;
  for (Index k = 0; k < kMxBlock; ++k) amax = join_amax(amax, x(block, k), profile.nan);
  const E8M0 scale = shared_scale<Code::spec>(bit_cast<float>(amax), mode, profile);
  scales[blocked_offset(block, 0, 1)] = scale;
  for (Index k = 0; k < kMxBlock; ++k) {
    codes[block * kMxBlock + k] = quantize_element<Code::spec>(x(block, k), scale).bits;
  }
}

template <typename Code>
__global__ void dequantize(const Code* codes, const E8M0* scales, BF16* x, Index n) {
  const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) x[i] = dequantize_bf16(codes[i], scales[i / kMxBlock]);
}

__global__ void logistic(const float* x, float* y, Index n) {
  const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = exp_rn(x[i]) * sigmoid_rn(x[i]);
}

template <typename Code>
void launch_all(const float* x, float* y, Code* codes, E8M0* scales, BF16* wide, Index n) {
  round_trip<Code><<<1, 32>>>(x, y, n);
  quantize_blocks<Code><<<1, 32>>>(row_major(x, n / kMxBlock, kMxBlock), &codes->bits, scales,
                                   ScaleMode::rceil, kTorchao);
  logistic<<<1, 32>>>(x, y, n);
  dequantize<Code><<<1, 32>>>(codes, scales, wide, n);
}

template void launch_all(const float*, float*, E4M3*, E8M0*, BF16*, Index);
template void launch_all(const float*, float*, E4M3Fnuz*, E8M0*, BF16*, Index);
template void launch_all(const float*, float*, E5M2*, E8M0*, BF16*, Index);
template void launch_all(const float*, float*, E5M2Fnuz*, E8M0*, BF16*, Index);

}  // namespace mxo
