// The ways to quantise on a device; the fast ones say whether they took the call.
#pragma once

#include "emu/cuda/device_backend.cuh"
#include "emu/cuda/launch.cuh"
#include "formats/scale_layout.h"
#include "ops/quantize.h"

namespace mxo::cuda {

/// Along which axis neighbours share an e8m0 scale.
enum class BlockAxis : std::uint8_t { columns, rows };

/// Quantize in whole blocks of one row or one column, with e8m0 scales.
struct LineBlocks {
  Operand x;
  Result codes;
  Result scales;
  ScaleMode mode = ScaleMode::rceil;
  ScaleProfile profile = kTorchao;
  BlockAxis axis = BlockAxis::columns;
  Index block = kMxBlock;
  ScaleStorage storage = ScaleStorage::row_major;
};

/// Calls run(TypeTag<X>, TypeTag<Code>) for the types of x that the fast kernels know.
template <typename Fn>
void visit_f32_or_bf16(Dtype x, Dtype codes, Fn&& run) {
  visit_minifloat8(codes, [&](auto code) {
    if (x == Dtype::f32) {
      run(TypeTag<float>{}, code);
    } else {
      run(TypeTag<BF16>{}, code);
    }
  });
}

/// Contiguous tensors along the last axis, scales in order or in 128x4 tiles.
bool quantize_rows_32(cudaStream_t stream, const LineBlocks& op);
/// Contiguous x along axis -2; codes in place or transposed.
bool quantize_columns_32(cudaStream_t stream, const LineBlocks& op);
/// Any strides: one thread a block.
void quantize_any(cudaStream_t stream, const LineBlocks& op);

// f32 scales of x in f32 or bf16, by a rule that multiplies.
/// A whole row a scale, or a whole column of a group.
void quantize_whole_lines(DeviceBackend& backend, const Quantize& op);
/// Blocks of 1x128 in rows of whole words; says whether it took the call.
bool quantize_rows_128(cudaStream_t stream, const Quantize& op);
/// Blocks of 1x128, 128x1 and 128x128.
void quantize_tiles_128(DeviceBackend& backend, const Quantize& op);

/// Blocks of any extents by any rule: a block of threads each.
void quantize_any_blocks(DeviceBackend& backend, const Quantize& op);
void dequantize_any_blocks(DeviceBackend& backend, const Dequantize& op);

}  // namespace mxo::cuda
