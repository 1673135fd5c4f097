// How work is cut into blocks of threads, and views as kernels take them.
#pragma once

#include <algorithm>
#include <optional>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/device_backend.cuh"
#include "formats/any_view.h"

namespace mxo::cuda {

/// Threads of a block where nothing speaks for another number.
inline constexpr int kThreads = 256;

/// Blocks of `per_block` items each, for kernels that stride over the grid; at least one.
inline unsigned blocks_for(Index items, Index per_block = kThreads) {
  return static_cast<unsigned>(std::clamp<Index>(ceil_div(items, per_block), 1, 1 << 30));
}

__device__ inline Index grid_thread() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline Index grid_threads() { return static_cast<Index>(gridDim.x) * blockDim.x; }

/// Element offset of row-major position `i` in a view of any stride.
template <typename Void>
__device__ inline Index device_offset(const AnyView<Void>& view, Index i) {
  Index offset = 0;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    offset += i % view.extent[axis] * view.stride[axis];
    i /= view.extent[axis];
  }
  return offset;
}

template <typename Void>
bool aligned(const AnyView<Void>& view, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(view.data) % bytes == 0;
}

/// True if every row of a matrix starts on a multiple of `bytes` and its elements are neighbours.
template <typename Void>
bool rows_aligned(const AnyView<Void>& view, std::uintptr_t bytes) {
  const auto size = static_cast<Index>(size_of(view.dtype));
  const Index width = view.extent[view.rank - 1];
  if (!aligned(view, bytes) || (width > 1 && view.stride[view.rank - 1] != 1)) return false;
  for (int axis = 0; axis < view.rank - 1; ++axis) {
    if (view.stride[axis] * size % static_cast<Index>(bytes) != 0) return false;
  }
  return width * size % static_cast<Index>(bytes) == 0;
}

/// Elements from one row to the next where that is the same for all rows of all matrices, else
/// nothing; rows have neighbouring elements.
template <typename Void>
std::optional<Index> row_pitch(const AnyView<Void>& view) {
  const Index pitch = view.rank >= 2 ? view.stride[view.rank - 2] : 0;
  Index step = pitch;
  for (int axis = view.rank - 2; axis >= 0; --axis) {
    if (view.extent[axis] != 1 && view.stride[axis] != step) return std::nullopt;
    step *= view.extent[axis];
  }
  return pitch;
}

/// N neighbours that are read or written in words of up to 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T v[N];
};

}  // namespace mxo::cuda
