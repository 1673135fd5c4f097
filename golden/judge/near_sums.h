// Sums of products in f32, many at once: near enough to say of most results that they may stand.
// Thread safety: a value; any threads at once.
#pragma once

#include <functional>
#include <vector>

#include "golden/judge/error_bound.h"
#include "golden/judge/judged_product.h"

namespace mxo {

/// Products of one line with up to kLines others, all of `k` doubles that are floats.
///
/// Sums of kRun products each are added up: a product passes at most roundings() of them, so that
/// with M = sum |a b| a total is within gamma_roundings M + k 2^-150 of the real sum (u = 2^-24;
/// docs/gates.md).  Every sixteenth run adds to `magnitude`, less what it may have rounded upward:
/// at most M.  What overflows is no number, or infinite.
class NearSums {
 public:
  static constexpr int kLines = 32;

  /// `lines` lines of `k` from `values` on, one every `stride`.
  NearSums(const double* values, Index stride, int lines, Index k);

  struct Sums {
    float total[kLines];
    double magnitude[kLines];
  };
  Sums of(const double* a) const;

  Index roundings() const;

 private:
  static constexpr Index kRun = 32;
  Index k_;
  std::vector<float> panel_;  ///< [k][kLines], zeros past the last line
};

/// True where sums in floats can tell that outputs pass: operands that are floats, no scales.
bool sums_in_floats(const JudgedProduct& product);

/// Elements of a block for which |value(i) - real| <= K u M shows by NearSums (ErrorBound::sure):
/// any order of f32 may have given them.
std::vector<bool> within_any_order(const JudgedProduct& product, const OutputBlock& block,
                                   const std::function<double(Index)>& value);

}  // namespace mxo
