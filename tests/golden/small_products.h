// Grouped products of few elements, with codes, scales and sums that tests make themselves.
#pragma once

#include <algorithm>
#include <vector>

#include "golden/explain/case/product.h"
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

/// The output of p in f32 whose elements are value(group, line of a, line of b).
template <typename Value>
Tensor output_of(const Product& p, const Value& value) {
  Tensor t(Dtype::f32, p.wgrad ? std::vector<Index>{p.groups(), p.a_lines, p.n}
                               : std::vector<Index>{p.a_lines, p.n});
  for (Index g = 0; g < p.groups(); ++g) {
    std::vector<std::vector<double>> b;
    for (Index j = 0; j < p.n; ++j) b.push_back(p.line_b(g, j));
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      const std::vector<double> a = p.line_a(g, i);
      for (Index j = 0; j < p.n; ++j) {
        t.as<float>()[p.output_row(g, i) * p.n + j] =
            static_cast<float>(value(g, a, b[static_cast<std::size_t>(j)]));
      }
    }
  }
  return t;
}

/// The output of p whose terms count multiple(group, depth) times.
template <typename Multiple>
Tensor sums_with(const Product& p, const Multiple& multiple) {
  return output_of(p, [&](Index g, const auto& a, const auto& b) {
    double sum = 0.0;
    for (std::size_t d = 0; d < a.size(); ++d) {
      sum += multiple(g, static_cast<Index>(d)) * a[d] * b[d];
    }
    return sum;
  });
}

inline Tensor sums_of(const Product& p) {
  return sums_with(p, [](Index, Index) { return 1; });
}

inline bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::equal(a.data(), a.data() + a.bytes(), b.data());
}

}  // namespace mxo
