// In how many parts cuBLASLt says it sums K, for every number of rows.
#pragma once

#include <cstdint>
#include <cstdio>
#include <vector>

namespace mxo::capture {

struct Layer {
  std::int64_t n, k;
};
/// Width and hidden width of experts: both products forward and back, the gate alone or with the up
/// half; the projections of DeepSeek-V3's attention; products of few tiles.
std::vector<Layer> layers();

/// Asks the library's heuristics, without a product, for the layers of published MoE models and all
/// rows from 1 to 131072, and writes a line for each kind of product and each N x K:
///   kind N K rows:parts rows:parts ..
/// `parts` holds from its `rows` on; 0: the library has no such product.  To 4096 rows each number
/// is asked; beyond, both sides of every multiple of 64, and what lies between where they differ.
void write_splits(std::FILE* to);

}  // namespace mxo::capture
