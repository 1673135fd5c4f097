// Whole products as cuBLASLt computes them, sampled at a few rows and columns.
#pragma once

#include <cstdint>
#include <string>

#include "golden/files/safetensors.h"

namespace mxo::capture {

/// y[m, n] = sum_k x[m, k] w[n, k].
struct Product {
  std::int64_t m, k, n;
};

enum class Kind : std::uint8_t {
  fp8_fast,      ///< e4m3 x e4m3 -> f32, fast accumulation
  fp8_promoted,  ///< the same without it
  bf16,          ///< bf16 x bf16 -> bf16, f32 accumulation
};

/// Adds `<kind>.<m>x<k>x<n>.y`, where sampled rows of x and of w cross, to `file` and, as metadata
/// under the same name, the seed of the operands and the library's split count, tile and stages.
void capture_product(Kind kind, const Product& product, std::uint64_t seed, TensorFile& file);

}  // namespace mxo::capture
