// From sums to rounded outputs; those that failed the rounding test go to fixed point.
#include "emu/cpu/gemm/tiles/writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/streaming.h"
#include "emu/exact/rounding.h"
#include "emu/exact/rounding_test.h"

namespace mxo::cpu {
namespace {

constexpr int kDropped = 45;  // bits of binary64 that bf16 lacks
constexpr std::uint64_t kTie = std::uint64_t{1} << (kDropped - 1);

/// Far from the ends of bf16's exponents.
bool is_normal(std::uint64_t word) {
  return std::abs(static_cast<int>(word >> 52 & 0x7FF) - 1023) <= 120;
}
std::uint16_t upper_bits(std::uint64_t rounded) {
  const auto magnitude = static_cast<std::uint32_t>(rounded >> kDropped) & 0x3FFFFu;
  return static_cast<std::uint16_t>((magnitude - ((1023 - 127) << 7)) | (rounded >> 63) << 15);
}

/// Rounds to bf16 a sum with an error below 2^12 of its last places, unless it is that close to a
/// tie; one branch, where test_rounding has many.
bool round_far_from_ties(std::uint64_t sum, std::uint16_t& bits) {
  const auto from_tie = static_cast<std::int64_t>((sum & (2 * kTie - 1)) - kTie);
  if (std::abs(from_tie) <= 1 << 12) return false;
  bits = upper_bits(sum + kTie);
  return true;
}

}  // namespace

bool round_one(const MicroPanel& a, const MicroPanel& b, int m, int n, double sum,
               std::uint16_t& bits) {
  const auto word = bit_cast<std::uint64_t>(sum);
  if (a.ends.reach[m] * b.ends.reach[n] <= 0x1p53 && is_normal(word)) {  // the sum is exact
    bits = upper_bits(word + kTie - 1 + (word >> kDropped & 1));
    return true;
  }
  const double off =
      bound_of_sum(a.ends.norm[m] * b.ends.norm[n], a.ends.reach[m] * b.ends.reach[n],
                   a.ends.roundings[m] + b.ends.roundings[n]);
  if (off <= 0x1p-42 * std::abs(sum) && is_normal(word) && round_far_from_ties(word, bits)) {
    return true;
  }
  const RoundingTest test = test_rounding(sum, off, 1.0, bf16_bits);
  bits = static_cast<std::uint16_t>(test.bits);
  return test.passed;
}

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
