// Scales to other libraries' layouts and back: a thread a scale.
#include "emu/cuda/launch.cuh"
#include "emu/reference/packed_place.h"

namespace mxo::cuda {
namespace {

/// Scale i, row-major, among the scales and in the packed buffer.
template <typename Void>
struct Place {
  Index scale;   ///< in elements
  Index packed;  ///< in bytes

  __device__ Place(PackedLayout layout, const AnyView<Void>& scales, Index i)
      : scale(device_offset(scales, i)) {
    const Index rows = scales.extent[scales.rank - 2];
    const Index columns = scales.extent[scales.rank - 1];
    packed =
        packed_byte(layout, rows, columns, i / (rows * columns), i / columns % rows, i % columns);
  }
};

/// Every place of the buffer has one scale at most.
__global__ void pack_kernel(PackedLayout layout, Operand scales, Index elements,
                            std::uint8_t* packed) {
  const bool floats = scales.dtype == Dtype::f32;
  const bool to_floats = floats && layout != PackedLayout::packed_ue8m0;
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < elements; i += step) {
    const Place<const void> at(layout, scales, i);
    if (!floats) {
      packed[at.packed] = static_cast<const std::uint8_t*>(scales.data)[at.scale];
      continue;
    }
    const std::uint32_t word = static_cast<const std::uint32_t*>(scales.data)[at.scale];
    if (to_floats) {
      *reinterpret_cast<std::uint32_t*>(packed + at.packed) = word;
    } else {
      packed[at.packed] = static_cast<std::uint8_t>(word >> 23);
    }
  }
}

__global__ void unpack_kernel(PackedLayout layout, const std::uint8_t* packed, Result scales,
                              Index elements) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < elements; i += step) {
    const Place<void> at(layout, scales, i);
    if (scales.dtype == Dtype::f32) {
      static_cast<std::uint32_t*>(scales.data)[at.scale] =
          *reinterpret_cast<const std::uint32_t*>(packed + at.packed);
    } else {
      static_cast<std::uint8_t*>(scales.data)[at.scale] = packed[at.packed];
    }
  }
}

}  // namespace

void DeviceBackend::run(const PackScales& op) {
  const auto bytes = static_cast<std::size_t>(op.packed.elements()) * size_of(op.packed.dtype);
  if (bytes == 0) return;
  fill_zero(static_cast<std::byte*>(op.packed.data), bytes);
  pack_kernel<<<blocks_for(op.scales.elements()), kThreads, 0, stream()>>>(
      op.layout, op.scales, op.scales.elements(), static_cast<std::uint8_t*>(op.packed.data));
  check_launch("pack_scales");
}

void DeviceBackend::run(const UnpackScales& op) {
  if (op.scales.elements() == 0) return;
  unpack_kernel<<<blocks_for(op.scales.elements()), kThreads, 0, stream()>>>(
      op.layout, static_cast<const std::uint8_t*>(op.packed.data), op.scales, op.scales.elements());
  check_launch("unpack_scales");
}

}  // namespace mxo::cuda
