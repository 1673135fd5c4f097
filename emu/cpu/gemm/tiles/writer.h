// Turns sums into outputs, and writes their rounded bits.
#pragma once

#include <cmath>
#include <cstring>
#include <span>

#include "emu/cpu/gemm/tiles/tile.h"
#include "emu/cpu/streaming.h"
#include "emu/reference/dot.h"

namespace mxo::cpu {

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
  /// `bits` as Kernels::round returns them.
  void put_row(Index row, Index column, int n, const void* bits) const {
    if (product_.out_column_step == 1) {
      const std::size_t size = wide_ ? 4 : 2;
      std::byte* to = static_cast<std::byte*>(product_.out.data) +
                      static_cast<std::size_t>(offset(row, column)) * size;
      const std::size_t bytes = static_cast<std::size_t>(n) * size;
      if (streams_ && (reinterpret_cast<std::uintptr_t>(to) | bytes) % kLine == 0) {
        stream_aligned(to, static_cast<const std::byte*>(bits), bytes);
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
  /// Where a row of 32 bf16 goes if its elements are neighbours, else null.
  std::uint16_t* row(Index row, Index column) const {
    if (wide_ || product_.out_column_step != 1) return nullptr;
    return static_cast<std::uint16_t*>(product_.out.data) + offset(row, column);
  }
  Index row_step() const { return product_.out_row_step; }
  /// Whether rows at `to` are aligned and the result large enough for non-temporal stores.
  bool streams(const std::uint16_t* to) const {
    return streams_ && reinterpret_cast<std::uintptr_t>(to) % kLine == 0 &&
           product_.out_row_step * 2 % static_cast<Index>(kLine) == 0;
  }
  void put_nan(Index row, Index column) const { put(row, column, wide_ ? 0x7FC00000u : 0x7FC0u); }
  void put_exact(Index row, Index column) const {
    const ExactSum sum =
        exact_dot(product_.a.k_vector(row), product_.b.k_vector(column), product_.depth);
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

  Index offset(Index row, Index column) const {
    return product_.out_start + row * product_.out_row_step + column * product_.out_column_step;
  }
  const Product& product_;
  bool wide_;
  bool streams_;
};

/// The bf16 of output (m, n) of a pair, if its sum in f64 passes the rounding test.
bool round_one(const MicroPanel& a, const MicroPanel& b, int m, int n, double sum,
               std::uint16_t& bits);

/// Computes in fixed point the outputs of row m of a pair that failed every rounding test, one bit
/// per column.
void put_failed(const Writer& writer, const MicroPanel& a, const MicroPanel& b, int m,
                std::uint32_t columns, StageCounts& stages);
/// One pair of panels: sums [m][nr] in f64, rounded once.
void write_exact(const Kernels& kernels, const Product& product, const MicroPanel& a,
                 const MicroPanel& b, const double* sums, StageCounts& stages);
/// All pairs of a tile.
void write_tile(const Kernels& kernels, const KcTile& tile, TileScratch& scratch);
/// Products with K = 0, the weight gradients of groups without rows: every output is +0.
void write_zeros(std::span<const Product> products, int threads);

}  // namespace mxo::cpu
