// Two panels of slices whose products are summed: rows are rounded in f32; outputs that fail there
// are recombined one by one, residuals included.
#pragma once

#include <bit>

#include "emu/cpu/gemm/tiles/pair_rows.h"
#include "emu/exact/slices.h"

namespace mxo::cpu {

/// Where element c of a chunk lies in a tile of 64 elements by 16 lanes, four neighbours in a
/// dword.
constexpr int place_in_tile_of_b(int lane, int c) {
  return c / 4 * kTileLanes * 4 + lane % kTileLanes * 4 + c % 4;
}

/// Slices: Sums, those of a 16 x 16 tile; recombined(sums, m, n); integer_of_a(panel, lane, at) and
/// integer_of_b(panel, runs, lane, at) of element `at`; round(first, end, pair, to), rows to bf16.
template <typename Slices>
class SlicePair {
 public:
  using Sums = typename Slices::Sums;

  SlicePair(const KBlock& k_block, const MicroPanel& a, const MicroPanel& b, const Sums* halves)
      : k_block_(k_block), a_(a), b_(b), halves_(halves) {}

  void write(const Writer& writer, int first, int end, TileScratch& scratch) const {
    const auto round = [this](int begin, int end_row, RoundedRows& to) {
      Slices::round(begin, end_row, *this, to);
    };
    const auto sum_of = [this](int m, int n) { return sum(m, n); };
    write_rows(writer, a_, b_, first, end, round, sum_of, scratch.rows, scratch.stages);
  }

  /// Adds to the row's sums, in f32 and in units of both K-vectors, the products of residuals of
  /// row m and of `columns` with the other K-vector's integers.
  void sum_residuals(int m, std::uint32_t columns, float (&row)[kMaxNr]) const {
    for (std::uint32_t left = columns; left != 0; left &= left - 1) {
      const int n = std::countr_zero(left);
      for (const Residual& r : a_.residuals_of(m)) {
        row[n] += static_cast<float>(r.value / a_.unit[m]) * static_cast<float>(integer_of_b(n, r));
      }
      for (const Residual& r : b_.residuals_of(n)) {
        row[n] += static_cast<float>(r.value / b_.unit[n]) * static_cast<float>(integer_of_a(m, r));
      }
    }
  }

  const KVectorErrors& errors_of_a() const { return a_.errors; }
  const KVectorErrors& errors_of_b() const { return b_.errors; }
  const Sums& half(int i) const { return halves_[i]; }
  Index k_extent() const { return k_block_.count; }

 private:
  /// The sum of the integers' products and of all products with a residual; no more roundings than
  /// the K-vectors' bounds count.
  double sum(int m, int n) const {
    const auto integers = Slices::recombined(halves_[n / kTileLanes], m, n % kTileLanes);
    double x = static_cast<double>(integers) * a_.unit[m] * b_.unit[n];
    const std::span<const Residual> of_a = a_.residuals_of(m);
    for (const Residual& r : of_a) x += r.value * (integer_of_b(n, r) * b_.unit[n]);
    auto match = of_a.begin();  // residuals of both K-vectors are sorted by element
    for (const Residual& r : b_.residuals_of(n)) {
      x += r.value * (integer_of_a(m, r) * a_.unit[m]);
      while (match != of_a.end() && match->at < r.at) ++match;
      if (match != of_a.end() && match->at == r.at) x += match->value * r.value;
    }
    return x;
  }
  int integer_of_a(int m, const Residual& r) const {
    return Slices::integer_of_a(a_, m, static_cast<int>(r.at));
  }
  int integer_of_b(int n, const Residual& r) const {
    return Slices::integer_of_b(b_, k_block_.runs(), n, static_cast<int>(r.at));
  }

  const KBlock& k_block_;
  const MicroPanel& a_;
  const MicroPanel& b_;
  const Sums* halves_;
};

}  // namespace mxo::cpu
