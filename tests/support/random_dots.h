// Operands that make matrix-unit models differ: every code, wide exponents, cancellation, zeros
// beside extremes, accumulators of every kind.
#pragma once

#include "ops/catalogue.h"
#include "ops/sums.h"

namespace mxo::test {

/// Inputs of fused_dot for a row of the table, `batch` problems of m x n dots over k.  The style
/// changes from problem to problem; the same seed gives the same bytes.
NamedTensors random_dots(OperandKind kind, std::uint64_t seed, Index batch, Index m, Index n,
                         Index k);

/// "sum=...", and the formats of the kind: e5m2 against e4m3 where `mixed`.
std::vector<std::string> settings_of(const SumRow& row, bool mixed);

}  // namespace mxo::test
