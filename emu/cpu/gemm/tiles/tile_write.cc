// From sums to rounded outputs; those that failed the rounding test go to fixed point.
#include "emu/cpu/gemm/tiles/tile_write.h"
#include "emu/cpu/simd/streaming.h"

#include <algorithm>
#include <bit>

namespace mxo::cpu {
namespace {

void write_chain(const Kernels& kernels, const Product& product, const MicroPanel& a,
                 const MicroPanel& b, const float* sums) {
  const Writer writer(product);
  for (int m = 0; m < a.width; ++m) {
    for (int n = 0; n < b.width; ++n) {
      float value = sums[m * kernels.nr + n];
      if (product.scaling == Scaling::rowwise) {
        value = value * product.a.line(a.first + m).scale(0) * product.b.line(b.first + n).scale(0);
      }
      writer.put_f32(a.first + m, b.first + n, value);
    }
  }
}

}  // namespace

void put_failed(const Writer& writer, const MicroPanel& a, const MicroPanel& b, int m,
                std::uint32_t columns) {
  for (; columns != 0; columns &= columns - 1) {
    const int n = std::countr_zero(columns);
    if (a.bound[m].nan || b.bound[n].nan) {
      writer.put_nan(a.first + m, b.first + n);
    } else {
      writer.put_exact(a.first + m, b.first + n);
    }
  }
}

void write_exact(const Kernels& kernels, const Product& product, const MicroPanel& a,
                 const MicroPanel& b, const double* sums) {
  const Writer writer(product);
  const double reach = *std::max_element(b.ends.reach, b.ends.reach + b.width);
  for (int m = 0; m < a.width; ++m) {
    alignas(64) std::uint32_t bits[kMaxNr];
    if (product.scaling != Scaling::rowwise && a.ends.reach[m] * reach <= 0x1p53) {
      kernels.round_exact(sums + m * kernels.nr, b.width, product.out.dtype, bits);
      writer.put_row(a.first + m, b.first, b.width, bits);
      continue;
    }
    std::uint32_t failed = kernels.round(a.row_end(m), b.ends, sums + m * kernels.nr, b.width,
                                         product.out.dtype, bits);
    writer.put_row(a.first + m, b.first, b.width, bits);
    put_failed(writer, a, b, m, failed);
  }
}

void write_tile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch) {
  const PackedBlock& packed = *tile.tile->packed;
  if (packed.engine == Engine::chain) {
    for (int j = 0; j < tile.wide(); ++j) {
      for (int i = 0; i < tile.tall(); ++i) {
        write_chain(kernels, *packed.product, tile.a[i], tile.b[j],
                    reinterpret_cast<const float*>(block_of(*tile.tile, scratch, i, j)));
      }
    }
    return;
  }
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      write_exact(kernels, *packed.product, tile.a[i], tile.b[j],
                  block_of(*tile.tile, scratch, i, j));
    }
  }
  finish_streams();  // before the threads join
}

}  // namespace mxo::cpu
