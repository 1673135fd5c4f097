// Grouped products of few elements, with codes and scales that tests make themselves.
#pragma once

#include <vector>

#include "golden/explain/case/call.h"
#include "tests/golden/tensors.h"

namespace mxo {

/// Codes of e4m3, finite, of both signs, that are no pattern.
inline Tensor some_codes(std::vector<Index> shape, std::uint32_t seed) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.as<std::uint8_t>()[i] =
        static_cast<std::uint8_t>((seed >> 24 & 0x80) | (0x30 + (seed >> 20) % 17));
  }
  return t;
}

/// Scales 1/2, 1 and 2.
inline Tensor some_scales(std::vector<Index> shape, std::uint32_t seed) {
  Tensor t(Dtype::u8, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(126 + (seed >> 20) % 3);
  }
  return t;
}

/// y = x w of groups of rows, a scale for 32 of K.
inline Call forward_call(const std::vector<Index>& ends, Index n, Index k) {
  const auto groups = static_cast<Index>(ends.size());
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", some_codes({ends.back(), k}, 1));
  call.replace("x.scales", some_scales({ends.back(), (k + 31) / 32}, 2));
  call.replace("w.codes", some_codes({groups, n, k}, 3));
  call.replace("w.scales", some_scales({groups, n, (k + 31) / 32}, 4));
  call.replace("group_ends", ends_at(ends));
  return call;
}

/// dw = dy x of groups of rows, a scale for 32 of them.
inline Call gradient_call(const std::vector<Index>& ends, Index lines, Index n) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", some_codes({ends.back(), lines}, 1));
  call.replace("dy.scales", some_scales({(ends.back() + 31) / 32, lines}, 2));
  call.replace("x.codes", some_codes({ends.back(), n}, 3));
  call.replace("x.scales", some_scales({(ends.back() + 31) / 32, n}, 4));
  call.replace("group_ends", ends_at(ends));
  return call;
}

}  // namespace mxo
