// Reproducible inputs: every element is a function of the seed, the tensor and its number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/philox.h"
#include "formats/tensor.h"

namespace mxo {

/// The random words of one case.  Stream = FNV-1a of "<case id>/<operand>" (32 bits); the words of
/// element i are philox(counter = (i low, i high, stream, 0), key = seed).
class InputStream {
 public:
  InputStream(std::uint64_t seed, std::string_view case_id) : seed_(seed), case_(case_id) {}

  PhiloxWords words(std::string_view operand, Index element) const {
    return philox(static_cast<std::uint64_t>(element), stream(operand), seed_);
  }

  /// Bell-shaped values: (sum of the eight 16-bit halves of the words - 262140) * 2^(exponent -
  /// 16), standard deviation 0.82 * 2^exponent; exact in f32, rounded to bf16 or f16 if asked.
  Tensor normal(std::string_view operand, Dtype dtype, std::vector<Index> shape,
                int exponent = 0) const;
  /// Rows of normal(operand, dtype, {.., columns}), without the rest of it.
  Tensor normal_rows(std::string_view operand, Dtype dtype, Index columns,
                     const std::vector<Index>& rows) const;
  /// As normal with exponent 0, times 2^(word 3 mod 2^16 mod (2 spread + 1) - spread).
  Tensor wide(std::string_view operand, Dtype dtype, std::vector<Index> shape, int spread) const;
  /// Random bit patterns of the element type.
  Tensor bits(std::string_view operand, Dtype dtype, std::vector<Index> shape) const;

  std::uint32_t stream(std::string_view operand) const;
  /// The same seed under another name: the words that cases share.
  InputStream named(std::string_view name) const { return InputStream(seed_, name); }

 private:
  std::uint64_t seed_;
  std::string case_;
};

}  // namespace mxo
