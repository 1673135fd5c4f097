// From sums to rounded outputs; those that the bound leaves open go to the superaccumulator.
#include "emu/cpu/gemm/tile_write.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emu/reference/dot.h"

namespace mxo::cpu {
namespace {

constexpr std::uint32_t kNanF32 = 0x7FC00000u;
constexpr std::uint32_t kNanBf16 = 0x7FC0u;

/// Writes rounded outputs of one product.
class Writer {
 public:
  explicit Writer(const Product& product)
      : product_(product),
        wide_(product.out.dtype == Dtype::f32),
        streams_(product.a.rows * product.b.rows * (wide_ ? 4 : 2) >= kStreamedBytes) {}

  void put(Index row, Index column, std::uint32_t bits) const {
    const Index at = offset(row, column);
    if (wide_) {
      static_cast<std::uint32_t*>(product_.out.data)[at] = bits;
    } else {
      static_cast<std::uint16_t*>(product_.out.data)[at] = static_cast<std::uint16_t>(bits);
    }
  }
  /// `bits` as Kernels::round leaves them.
  void put_row(Index row, Index column, int n, const void* bits) const {
    if (product_.out_column_step == 1) {
      const std::size_t size = wide_ ? 4 : 2;
      std::byte* to = static_cast<std::byte*>(product_.out.data) +
                      static_cast<std::size_t>(offset(row, column)) * size;
      const std::size_t bytes = static_cast<std::size_t>(n) * size;
      if (streams_ && (reinterpret_cast<std::uintptr_t>(to) | bytes) % kLine == 0) {
        stream(to, bits, bytes);
      } else {
        std::memcpy(to, bits, bytes);
      }
      return;
    }
    for (int i = 0; i < n; ++i) {
      put(row, column + i,
          wide_ ? static_cast<const std::uint32_t*>(bits)[i]
                : static_cast<const std::uint16_t*>(bits)[i]);
    }
  }
  void put_nan(Index row, Index column) const { put(row, column, wide_ ? kNanF32 : kNanBf16); }
  void put_exact(Index row, Index column) const {
    const ExactSum sum = exact_dot(product_.a.line(row), product_.b.line(column), product_.depth);
    put(row, column,
        wide_ ? bit_cast<std::uint32_t>(sum.round_to_f32()) : sum.round_to_bf16().bits);
  }
  void put_f32(Index row, Index column, float value) const {
    if (std::isnan(value)) return put_nan(row, column);
    put(row, column, wide_ ? bit_cast<std::uint32_t>(value) : encode<kBF16>(value).bits);
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr Index kStreamedBytes = Index{4} << 20;

  /// Whole lines of a large result do not pass through the caches.
  static void stream(std::byte* to, const void* bits, std::size_t bytes) {
    const auto* from = static_cast<const __m128i*>(bits);
    for (std::size_t i = 0; i < bytes / 16; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, _mm_load_si128(from + i));
    }
  }

  Index offset(Index row, Index column) const {
    return product_.out_start + row * product_.out_row_step + column * product_.out_column_step;
  }
  const Product& product_;
  bool wide_;
  bool streams_;
};

void write_chain(const Kernels& kernels, const Product& product, const Panel& a, const Panel& b,
                 const float* sums) {
  const Writer writer(product);
  for (int m = 0; m < a.width; ++m) {
    for (int n = 0; n < b.width; ++n) {
      float value = sums[m * kernels.lanes_b + n];
      if (product.scaling == Scaling::rowwise) {
        value = value * product.a.line(a.first + m).scale(0) * product.b.line(b.first + n).scale(0);
      }
      writer.put_f32(a.first + m, b.first + n, value);
    }
  }
}

}  // namespace

void write_exact(const Kernels& kernels, const Product& product, const Panel& a, const Panel& b,
                 const double* sums) {
  const Writer writer(product);
  const double reach = *std::max_element(b.ends.reach, b.ends.reach + b.width);
  for (int m = 0; m < a.width; ++m) {
    alignas(64) std::uint32_t bits[kMaxLanesB];
    if (product.scaling != Scaling::rowwise && a.ends.reach[m] * reach <= 0x1p53) {
      kernels.round_exact(sums + m * kernels.lanes_b, b.width, product.out.dtype, bits);
      writer.put_row(a.first + m, b.first, b.width, bits);
      continue;
    }
    std::uint32_t open = kernels.round(a.row_end(m), b.ends, sums + m * kernels.lanes_b, b.width,
                                       product.out.dtype, bits);
    writer.put_row(a.first + m, b.first, b.width, bits);
    for (; open != 0; open &= open - 1) {
      const int n = std::countr_zero(open);
      if (a.bound[m].nan || b.bound[n].nan) {
        writer.put_nan(a.first + m, b.first + n);
      } else {
        writer.put_exact(a.first + m, b.first + n);
      }
    }
  }
}

void write_tile(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  const Job& job = *part.tile->job;
  if (job.engine == Engine::chain) {
    for (int j = 0; j < part.wide(); ++j) {
      for (int i = 0; i < part.tall(); ++i) {
        write_chain(kernels, *job.product, part.a[i], part.b[j],
                    reinterpret_cast<const float*>(block_of(*part.tile, scratch, i, j)));
      }
    }
    return;
  }
  for (int j = 0; j < part.wide(); ++j) {
    for (int i = 0; i < part.tall(); ++i) {
      write_exact(kernels, *job.product, part.a[i], part.b[j], block_of(*part.tile, scratch, i, j));
    }
  }
  _mm_sfence();  // streamed stores become visible before the threads join
}

}  // namespace mxo::cpu
