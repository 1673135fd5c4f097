// Rows of zeros, all threads at each product.
#include "emu/cpu/gemm/tiles/zeros.h"

#include <algorithm>
#include <cstddef>

#include "emu/cpu/gemm/tiles/writer.h"
#include "emu/cpu/simd/streaming.h"

namespace mxo::cpu {

void write_zeros(std::span<const Product> products, int threads) {
  constexpr Index kAtOnce = 1024;
  alignas(64) static constexpr std::byte kZeros[kAtOnce * sizeof(float)] = {};
#pragma omp parallel num_threads(threads)
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
