// In how many parts cuBLASLt says it sums K, for every number of rows.
#pragma once

#include <cstdio>

namespace mxo::capture {

/// Asks the library's heuristics, without a product, for the layers of published MoE models and all
/// rows from 1 to 131072, and writes a line for each kind of product and each N x K:
///   kind N K rows:parts rows:parts ..
/// `parts` holds from its `rows` on; 0: the library has no such product.  To 4096 rows each number
/// is asked; beyond, both sides of every multiple of 64, and what lies between where they differ.
void write_splits(std::FILE* to);

}  // namespace mxo::capture
