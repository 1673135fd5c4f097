// Two panels of two slices whose K is one span: outputs one by one, those
// that failed the rounding test in f32.
#pragma once

#include "emu/cpu/gemm/engines/two_slices/two_slices.h"

namespace mxo::cpu {

class TwoSlicePair {
 public:
  TwoSlicePair(const KBlock& k_block, const MicroPanel& a, const MicroPanel& b,
               const TwoSliceSums* halves)
      : k_block_(k_block), a_(a), b_(b), halves_(halves) {}

  /// The sum of the integers' products, and of all with a residual; as many roundings as the
  /// K-vectors' bounds count.
  double sum(int m, int n) const;
  /// Adds, in f32 and in units of both K-vectors, the products of a residual of row m or of one of
  /// `columns` with the other K-vector's integers to the row's sums.
  void sum_residuals(int m, std::uint32_t columns, float (&row)[kMaxNr]) const;

  const KVectorErrors& errors_of_a() const { return a_.errors; }
  const KVectorErrors& errors_of_b() const { return b_.errors; }
  const TwoSliceSums& half(int i) const { return halves_[i]; }
  /// Sums of a greater K may exceed 2^24 in the lowest slice.
  bool is_deep() const { return k_block_.count > 256; }

 private:
  int integer_of_a(int m, int at) const;
  int integer_of_b(int n, int at) const;

  const KBlock& k_block_;
  const MicroPanel& a_;
  const MicroPanel& b_;
  const TwoSliceSums* halves_;
};

}  // namespace mxo::cpu
