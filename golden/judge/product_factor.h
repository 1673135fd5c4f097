// One side of a product as numbers: elements along what is summed, and the scales beside them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ops/catalogue.h"

namespace mxo {

/// Lines of `k` elements; line l of group g is g * lines + l.
struct ProductFactor {
  std::vector<double> value;   ///< code * scale where scales are e8m0: exact
  std::vector<double> binade;  ///< 2^exponent as a matrix unit takes it; 0 of a zero
  Dtype type = Dtype::f32;     ///< of the elements
  bool blocks_of_32 = false;   ///< with e8m0 scales
  Index lines = 0;
  Index k = 0;

  /// f32 scales, not part of the values; none: 1.
  const Tensor* scales = nullptr;
  Index line_block = 1;   ///< lines that share one
  Index line_blocks = 1;  ///< of a group
  Index blocks = 1;       ///< along k
  Index block_k = 0;      ///< k that share one; all where blocks is 1
  double scale(Index group, Index line, Index block) const;

  /// Of columns, whose blocks restart at each group: its first row of scales, and the scale of
  /// element `at` of one of its lines.
  std::vector<Index> first_row;
  double scale_below(Index group, Index line, Index at) const;

  const double* values_of(Index line) const { return value.data() + line * k; }
  const double* binades_of(Index line) const { return binade.data() + line * k; }
};

/// Operand `name` of a product whose rows are contracted along the last axis, plain, with e8m0
/// scales in blocks of 1x32, or f32 ones (a row's, 1x128, 128x128).  Nothing for any other.
std::optional<ProductFactor> factor_of_rows(const NamedTensors& inputs, const std::string& name,
                                            const Parameters& set);
/// True where they have more than 16 magnitudes.
bool has_many_magnitudes(std::span<const double> values);

/// Operand `name` of a weight gradient, contracted along the first axis, plain, with e8m0 scales in
/// blocks of 32x1, or f32 ones of blocks of any extents (block_k is 0 where one has all rows of its
/// group): its columns are the lines.  Nothing for any other.
std::optional<ProductFactor> factor_of_columns(const NamedTensors& inputs, const std::string& name,
                                               const Parameters& set);

/// The elements as a machine has them that dequantises blocks to bf16 first.
void dequantise_to_bf16(ProductFactor& factor);

}  // namespace mxo
