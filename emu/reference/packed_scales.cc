// Scales to other libraries' layouts and back, one at a time.
#include "ops/packed_scales.h"

#include <cstring>

#include "emu/reference/packed_place.h"
#include "emu/reference/reference_backend.h"

namespace mxo {
namespace {

/// Where a scale lies: its bytes among the scales, and those of its place in the packed ones.
template <typename Scales, typename Move>
void each_scale(PackedLayout layout, const AnyView<Scales>& scales, const Move& move) {
  const int first = scales.rank - 2;
  const Index matrices = first == 1 ? scales.extent[0] : 1;
  const Index rows = scales.extent[first];
  const Index columns = scales.extent[first + 1];
  for (Index e = 0; e < matrices; ++e) {
    for (Index m = 0; m < rows; ++m) {
      for (Index k = 0; k < columns; ++k) {
        const Index from = (first == 1 ? e * scales.stride[0] : 0) + m * scales.stride[first] +
                           k * scales.stride[first + 1];
        move(from, packed_byte(layout, rows, columns, e, m, k));
      }
    }
  }
}

}  // namespace

void ReferenceBackend::run(const PackScales& op) {
  auto* packed = static_cast<std::uint8_t*>(op.packed.data);
  const auto bytes = static_cast<std::size_t>(op.packed.elements()) * size_of(op.packed.dtype);
  if (bytes > 0) std::memset(packed, 0, bytes);
  const bool wide = op.scales.dtype == Dtype::f32;
  each_scale(op.layout, op.scales, [&](Index from, Index to) {
    const auto* scale = static_cast<const std::uint8_t*>(op.scales.data) + from * (wide ? 4 : 1);
    if (packed_dtype(op.layout) == Dtype::f32) {
      std::memcpy(packed + to, scale, 4);
    } else if (wide) {
      std::uint32_t word = 0;
      std::memcpy(&word, scale, 4);
      packed[to] = static_cast<std::uint8_t>(word >> 23);
    } else {
      packed[to] = *scale;
    }
  });
}

void ReferenceBackend::run(const UnpackScales& op) {
  const auto* packed = static_cast<const std::uint8_t*>(op.packed.data);
  auto* scales = static_cast<std::uint8_t*>(op.scales.data);
  const std::size_t size = size_of(op.scales.dtype);
  each_scale(op.layout, op.scales, [&](Index to, Index from) {
    std::memcpy(scales + to * static_cast<Index>(size), packed + from, size);
  });
}

}  // namespace mxo
