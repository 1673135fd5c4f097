// Packed panels around the library's kernel of fused chains.
#include "tools/train/gemm.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "tools/train/parallel.h"

namespace mxo::tools {
namespace {

constexpr Index kDepth = 256;       // of a panel: 32 kB of B stay in a cache of the first level
constexpr Index kPanelsOfTask = 8;  // of A: what a thread takes at once

/// A buffer of this thread, kept for its next product.
float* scratch(std::size_t floats) {
  thread_local std::unique_ptr<float[]> memory;
  thread_local std::size_t size = 0;
  if (size < floats) {
    memory.reset(new float[floats]);
    size = floats;
  }
  return memory.get();
}

/// std::copy_n, without a call where n is a width of panels.
void copy(const float* from, Index n, float* to) {
  switch (n) {
    case 32: std::memcpy(to, from, 32 * sizeof(float)); break;
    case 16: std::memcpy(to, from, 16 * sizeof(float)); break;
    case 12: std::memcpy(to, from, 12 * sizeof(float)); break;
    case 8: std::memcpy(to, from, 8 * sizeof(float)); break;
    default: std::copy_n(from, n, to);
  }
}

/// to[k][lane] = row first + lane, column k0 + k of `v`; lanes from `lanes` to `step` are zero.
void pack(const cpu::Kernels& kernels, const FloatView& v, Index first, Index lanes, Index step,
          Index k0, Index depth, float* to) {
  const float* from = v.data + first * v.row_stride + k0 * v.column_stride;
  if (lanes < step) std::fill_n(to, step * depth, 0.0f);
  if (v.row_stride == 1) {
    for (Index k = 0; k < depth; ++k) copy(from + k * v.column_stride, lanes, to + k * step);
    return;
  }
  const Index whole = v.column_stride == 1 ? depth / 16 * 16 : 0;
  if (whole > 0) {
    kernels.interleave(static_cast<int>(lanes), static_cast<int>(whole),
                       reinterpret_cast<const std::uint32_t*>(from), static_cast<int>(v.row_stride),
                       reinterpret_cast<std::uint32_t*>(to), static_cast<int>(step));
  }
  for (Index lane = 0; lane < lanes; ++lane) {
    for (Index k = whole; k < depth; ++k) {
      to[k * step + lane] = from[lane * v.row_stride + k * v.column_stride];
    }
  }
}

/// One product: what all of its tasks see.
struct Product {
  const cpu::Kernels& kernels;
  const FloatView& a;
  const FloatView& b;
  float* c;
  Index stride;

  Index rows_of_task() const { return kPanelsOfTask * kernels.mr; }
  Index tasks() const { return (a.rows + rows_of_task() - 1) / rows_of_task(); }
  Index panels() const { return (b.columns + kernels.nr - 1) / kernels.nr; }

  void pack_b(Index panel, Index k0, Index depth, float* packed) const {
    const Index first = panel * kernels.nr;
    pack(kernels, b.transposed(), first, std::min<Index>(kernels.nr, b.columns - first), kernels.nr,
         k0, depth, packed + panel * kernels.nr * depth);
  }

  /// Rows of one task, over `depth` steps; `add`: to what c holds.
  void rows(Index task, Index k0, Index depth, const float* packed, bool add) const {
    const Index begin = task * rows_of_task();
    const Index end = std::min(begin + rows_of_task(), a.rows);
    float* mine = scratch(static_cast<std::size_t>(rows_of_task() * depth));
    for (Index row = begin; row < end; row += kernels.mr) {
      const Index lanes = std::min<Index>(kernels.mr, end - row);
      pack(kernels, a, row, lanes, lanes, k0, depth, mine + (row - begin) * depth);
    }
    for (Index panel = 0; panel < panels(); ++panel) {
      for (Index row = begin; row < end; row += kernels.mr) {
        tile(row, std::min<Index>(kernels.mr, end - row), panel, depth,
             mine + (row - begin) * depth, packed + panel * kernels.nr * depth, add);
      }
    }
  }

  void tile(Index row, Index lanes, Index panel, Index depth, const float* from_a,
            const float* from_b, bool add) const {
    alignas(64) float sums[cpu::kMaxMr * cpu::kMaxNr];
    const Index columns = std::min<Index>(kernels.nr, b.columns - panel * kernels.nr);
    float* to = c + row * stride + panel * kernels.nr;
    if (!add || columns < kernels.nr) std::fill_n(sums, lanes * kernels.nr, 0.0f);
    for (Index m = 0; add && m < lanes; ++m) copy(to + m * stride, columns, sums + m * kernels.nr);
    kernels.chain_f32(static_cast<int>(lanes), static_cast<int>(depth), from_a, from_b, sums);
    for (Index m = 0; m < lanes; ++m) {
      copy(sums + m * kernels.nr, columns, to + m * stride);
    }
  }
};

}  // namespace

void multiply(const FloatView& a, const FloatView& b, float* c, Index stride, bool add, int threads,
              cpu::Isa isa) {
  const Product product{cpu::kernels_of(isa), a, b, c, stride};
  if (a.columns == 0 && !add) {
    for (Index row = 0; row < a.rows; ++row) std::fill_n(c + row * stride, b.columns, 0.0f);
  }
  // Of the thread that calls; its tasks have buffers of their own.
  thread_local std::vector<float> packed;
  const Index deepest = std::min(kDepth, a.columns);
  packed.resize(std::max(
      packed.size(), static_cast<std::size_t>(product.panels() * deepest * product.kernels.nr)));
  float* of_b = packed.data();
  for (Index k0 = 0; k0 < a.columns; k0 += kDepth) {
    const Index depth = std::min(kDepth, a.columns - k0);
    for_each_task(product.panels(), threads,
                  [&](Index panel) { product.pack_b(panel, k0, depth, of_b); });
    for_each_task(product.tasks(), threads,
                  [&](Index task) { product.rows(task, k0, depth, of_b, add || k0 > 0); });
  }
}

}  // namespace mxo::tools
