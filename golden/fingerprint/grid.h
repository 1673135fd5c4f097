// The accumulations a fingerprint tries, as parameters of a product.
#pragma once

#include <vector>

#include "ops/sums.h"

namespace mxo {

struct SumTrial {
  const SumRow* row;  ///< of the table, that the settings start from
  Parameters set;
  Accumulation sum;
};

/// How thoroughly chunk, bits and output are varied.
enum class Shapes : std::uint8_t { all, likely };

/// The rows of the table for `kind`, and for fused sums other chunks, fraction bits and outputs;
/// no two are the same sum.
std::vector<SumTrial> shape_trials(const Parameters& base, OperandKind kind, Shapes shapes);
/// `trials` with other floors of the largest exponent, where results can underflow.
std::vector<SumTrial> floor_trials(const std::vector<SumTrial>& trials, OperandKind kind);
/// `trials` with every promotion interval, split and tile.
std::vector<SumTrial> schedule_trials(const std::vector<SumTrial>& trials, OperandKind kind);
/// `trial` with one parameter moved to its neighbours; `key` as in --set.
std::vector<SumTrial> neighbours(const SumTrial& trial, OperandKind kind, const std::string& key);

}  // namespace mxo
