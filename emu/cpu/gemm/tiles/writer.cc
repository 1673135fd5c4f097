// From sums to rounded outputs; those that failed the rounding test go to fixed point.
#include "emu/cpu/gemm/tiles/writer.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/simd/streaming.h"

namespace mxo::cpu {
void put_failed(const Writer& writer, const MicroPanel& a, const MicroPanel& b, int m,
                std::uint32_t columns, StageCounts& stages) {
  for (; columns != 0; columns &= columns - 1) {
    const int n = std::countr_zero(columns);
    if (a.bound[m].nan || b.bound[n].nan) {
      writer.put_nan(a.first + m, b.first + n);
    } else {
      writer.put_exact(a.first + m, b.first + n);
      ++stages.by_fixed_point;
    }
  }
}

void write_exact(const Kernels& kernels, const Product& product, const MicroPanel& a,
                 const MicroPanel& b, const double* sums, StageCounts& stages) {
  stages.outputs += Index{a.width} * b.width;
  const Writer writer(product);
  const double reach = *std::max_element(b.ends.reach, b.ends.reach + b.width);
  for (int m = 0; m < a.width; ++m) {
    alignas(64) std::uint32_t bits[kMaxNr];
    if (product.form != ScaleForm::rowwise && a.ends.reach[m] * reach <= 0x1p53) {
      kernels.round_exact(sums + m * kernels.nr, b.width, product.out.dtype, bits);
      writer.put_row(a.first + m, b.first, b.width, bits);
      continue;
    }
    std::uint32_t failed = kernels.round(a.row_end(m), b.ends, sums + m * kernels.nr, b.width,
                                         product.out.dtype, bits);
    writer.put_row(a.first + m, b.first, b.width, bits);
    put_failed(writer, a, b, m, failed, stages);
  }
}

void write_tile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      write_exact(kernels, tile.product(), tile.a[i], tile.b[j],
                  block_of(*tile.tile, scratch, i, j), scratch.stages);
    }
  }
  finish_streams();  // before the threads join
}

void write_zeros(std::span<const Product> products, int threads) {
  constexpr Index kAtOnce = 1024;
  alignas(64) static constexpr std::byte kZeros[kAtOnce * sizeof(float)] = {};
#pragma omp parallel num_threads(threads) firstprivate(ieee_thread)
  {
    for (const Product& product : products) {
      const Writer writer(product);
#pragma omp for schedule(static) nowait
      for (Index row = 0; row < product.a.rows; ++row) {
        for (Index column = 0; column < product.b.rows; column += kAtOnce) {
          const Index count = std::min(kAtOnce, product.b.rows - column);
          writer.put_row(row, column, static_cast<int>(count), kZeros);
        }
      }
    }
    finish_streams();  // before the threads join
  }
}

}  // namespace mxo::cpu
