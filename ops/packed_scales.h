// Scales as other libraries lay them out besides the 128x4 tiles, and back.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <vector>

#include "formats/any_view.h"

namespace mxo {

class Backend;

/// Where scale (m, k) lies; R4 and C4 are rows and columns rounded up to 4.
enum class PackedLayout : std::uint8_t {
  mn_major_tma,  ///< f32 [.., C, R4]: element (k, m)
  cublas_1x128,  ///< the same of one matrix: cuBLAS's scales of 1x128 blocks
  packed_ue8m0,  ///< i32 [.., C4 / 4, R4]: byte k % 4, from the lowest, of element (k / 4, m)
  tiles_8x4,     ///< u8 [R8 * C4]: byte ((m / 8) * C4 / 4 + k / 4) * 32 + m % 8 * 4 + k % 4
};

/// packed = scales in that layout; what no scale fills is 0.
///
///   scales  [R, C], or [E, R, C] for mn_major_tma and packed_ue8m0; any strides
///           f32 for mn_major_tma and cublas_1x128; e8m0, u8 or f32, whose exponent field is taken,
///           for packed_ue8m0; e8m0 or u8 for tiles_8x4
///   packed  as the layout says, contiguous
///
/// Any extent may be 0.  Errors, before any byte is written: Error(shape), Error(dtype).
/// Source, read: DeepGEMM 54e2261, csrc/jit_kernels/impls/smxx_layout.hpp and tests/test_layout.py;
/// flashinfer, index map of SfLayout.layout_8x4 in its torch reference.  Published, not verified:
/// TransformerEngine's GEMM-ready 1x128 scales.
struct PackScales {
  Operand scales;
  Result packed;
  PackedLayout layout = PackedLayout::mn_major_tma;
};

/// The inverse; padding is not read.  packed_ue8m0 gives bytes.  Operands and errors as PackScales.
struct UnpackScales {
  Operand packed;
  Result scales;
  PackedLayout layout = PackedLayout::mn_major_tma;
};

/// The shape and the element type of `packed` for scales of shape `scales`.
std::vector<Index> packed_shape(PackedLayout layout, const std::vector<Index>& scales);
Dtype packed_dtype(PackedLayout layout);

void pack_scales(Backend& backend, const PackScales& op);
void unpack_scales(Backend& backend, const UnpackScales& op);

}  // namespace mxo
