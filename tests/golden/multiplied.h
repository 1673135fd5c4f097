// A small product of codes with f32 scales, and what came of other operands.
#pragma once

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "formats/minifloat.h"
#include "golden/explain/case/product.h"
#include "tests/golden/differing.h"
#include "tests/golden/tensors.h"

namespace mxo {

/// The product of a call, summed in double precision and stored as `dtype`.
inline Tensor multiplied(const Call& call, Dtype dtype = Dtype::f32) {
  const Product p = *product_of(call);
  Tensor y(dtype, p.wgrad ? std::vector<Index>{p.groups(), p.a_lines, p.n}
                          : std::vector<Index>{p.a_lines, p.n});
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      const std::vector<double> a = p.line_a(g, i);
      for (Index j = 0; j < p.n; ++j) {
        const std::vector<double> b = p.line_b(g, j);
        const double sum = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
        const Index at = p.output_row(g, i) * p.n + j;
        if (dtype == Dtype::f32) {
          y.as<float>()[at] = static_cast<float>(sum);
        } else {
          y.as<BF16>()[at] = encode<kBF16>(static_cast<float>(sum));
        }
      }
    }
  }
  return y;
}

/// Bits that do not come again.
inline std::uint32_t mixed(Index i, std::uint32_t seed) {
  std::uint32_t h = static_cast<std::uint32_t>(i) * 2654435761u + seed * 40503u + 12345u;
  h ^= h >> 15;
  h *= 2246822519u;
  h ^= h >> 13;
  return h;
}

/// Codes of e4m3 from 1/4 to 2, of either sign.
inline Tensor mixed_codes(std::vector<Index> shape, std::uint32_t seed) {
  return filled<std::uint8_t>(Dtype::u8, std::move(shape), [&](Index i) {
    const std::uint32_t h = mixed(i, seed);
    return (h & 0x80u) | (0x28u + (h >> 8) % 24u);
  });
}

/// Scales from 1 to 2, no two alike.
inline Tensor mixed_scales(std::vector<Index> shape, std::uint32_t seed) {
  return filled<float>(Dtype::f32, std::move(shape), [&](Index i) {
    return 1.0f + static_cast<float>(mixed(i, seed) >> 9) * 0x1p-23f;
  });
}

/// x [rows, 32 blocks] by w [groups, n, 32 blocks] with a scale for each 32 of K.
inline Call product_call(const std::vector<Index>& ends, Index n, Index blocks) {
  const auto groups = static_cast<Index>(ends.size());
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", mixed_codes({ends.back(), 32 * blocks}, 1));
  call.replace("x.scales", mixed_scales({ends.back(), blocks}, 2));
  call.replace("w.codes", mixed_codes({groups, n, 32 * blocks}, 3));
  call.replace("w.scales", mixed_scales({groups, n, blocks}, 4));
  call.replace("group_ends", ends_at(ends));
  return call;
}

/// A call with one operand edited.
template <typename T>
Call edited(const Call& call, const std::string& name, const std::function<void(T*)>& edit) {
  Call other = call;
  Tensor t = call.input(name);
  edit(t.as<T>());
  other.replace(name, std::move(t));
  return other;
}

/// The output of `given` where `taken` came of it.
inline Differing got_of(const Call& given, const Call& taken, Dtype dtype = Dtype::f32) {
  return {multiplied(given, dtype), multiplied(taken, dtype), given};
}

}  // namespace mxo
