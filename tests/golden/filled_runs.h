// Outputs in which one bit pattern stands where others are owed, and what is said of them.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {

/// Bits that are neither zeros nor NaN in any type, no two neighbours alike.
inline Tensor of_no_fill(Dtype dtype, std::vector<Index> shape) {
  Tensor t(dtype, std::move(shape));
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < t.bytes() / size; ++i) {
    std::memset(t.data() + i * size, static_cast<int>(0x21 + i % 5), size);
  }
  return t;
}

/// `t` of which `n` elements from `first` on, `step` apart, are these bits.
inline Tensor with_fill(Tensor t, Index first, Index n, std::uint64_t bits, Index step = 1) {
  const std::size_t size = size_of(t.dtype());
  for (Index i = 0; i < n; ++i) {
    std::memcpy(t.data() + static_cast<std::size_t>(first + i * step) * size, &bits, size);
  }
  return t;
}

/// What is said of an output, each with its id and elements: "never_written.zero 8: row 1 ...".
inline std::vector<std::string> fills_said(Came& came) {
  std::vector<std::string> all;
  for (const Claim& c : recover_unwritten(came.output)) {
    all.push_back(c.id + " " + std::to_string(static_cast<Index>(c.elements)) + ": " + c.sentence);
  }
  return all;
}

inline std::vector<std::string> fills_said(const Tensor& owed, Tensor actual,
                                           const std::string& name = "y") {
  Came came(owed, std::move(actual), {"any", {}, {}}, name);
  return fills_said(came);
}

/// The sentence of zeros at a place.
inline std::string zeros_at(Index elements, const std::string& place) {
  return "never_written.zero " + std::to_string(elements) + ": " + place +
         " zeros: never written, cleared, or made of zeros";
}

}  // namespace mxo
