// The outputs of a product: what is multiplied and summed for each.
// Thread safety: values; any threads read at once.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "golden/judge/product_factor.h"

namespace mxo {

/// Both sides of a product, and where the lines of an output lie.
struct JudgedProduct {
  ProductFactor a;
  ProductFactor b;
  std::vector<Index> ends;
  bool gradient;  ///< contracted along the rows of each group
  bool scaled;    ///< by f32
  Index shared;   ///< k that share both f32 scales; 0: all

  /// What is multiplied and summed for one output.
  struct Output {
    const JudgedProduct& of;
    Index group;
    Index line_a, line_b;  ///< of the group, but for rows of x
    Index first;           ///< of k
    Index k;

    Index block() const { return std::max<Index>(of.shared == 0 ? k : of.shared, 1); }
    Index blocks() const { return ceil_div(k, block()); }
    Index place_b() const { return of.gradient ? line_b : group * of.b.lines + line_b; }
    const double* values_a() const { return of.a.values_of(line_a) + first; }
    const double* values_b() const { return of.b.values_of(place_b()) + first; }
    const double* binades_a() const { return of.a.binades_of(line_a) + first; }
    const double* binades_b() const { return of.b.binades_of(place_b()) + first; }
    double scale_a(Index at) const {
      return of.gradient ? of.a.scale_below(group, line_a, at * block())
                         : of.a.scale(0, line_a, at);
    }
    double scale_b(Index at) const {
      return of.gradient ? of.b.scale_below(group, line_b, at * block())
                         : of.b.scale(group, line_b, at);
    }
  };

  Index outputs() const {
    return gradient ? static_cast<Index>(ends.size()) * a.lines * b.lines : a.lines * b.lines;
  }
  /// Element i, row-major; nothing where no group owns it.
  std::optional<Output> at(Index i) const {
    const Index line = i / b.lines;
    const auto owner = std::upper_bound(ends.begin(), ends.end(), line);
    if (!gradient && owner == ends.end()) return std::nullopt;
    const Index group = gradient ? line / a.lines : owner - ends.begin();
    const Index begin = group == 0 ? 0 : ends[static_cast<std::size_t>(group - 1)];
    return Output{*this,
                  group,
                  gradient ? line % a.lines : line,
                  i % b.lines,
                  gradient ? begin : 0,
                  gradient ? ends[static_cast<std::size_t>(group)] - begin : a.k};
  }
};

}  // namespace mxo
