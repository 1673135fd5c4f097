// One output of a matrix product, by the sums `exact` and `fma_chain`.
#include "emu/reference/dot.h"

#include <algorithm>
#include <cmath>

#include "emu/sums/fold.h"

namespace mxo {
namespace {

ExactNumber exact_element(const KVector& line, Index c) {
  return product(exact_number(line.code(c)), exact_number(line.scale(c)));
}

/// The chain over elements first .. end - 1, each with its scale or without.
float chain(Fold fold, const KVector& a, const KVector& b, Index first, Index end) {
  float acc = 0.0f;
  for (Index c = first; c < end; ++c) {
    const bool scaled = fold == Fold::term;
    const float x = scaled ? a.code(c) * a.scale(c) : a.code(c);
    const float y = scaled ? b.code(c) * b.scale(c) : b.code(c);
    acc = std::fma(x, y, acc);
  }
  return acc;
}

float chain_of_blocks(const Accumulation& sum, const KVector& a, const KVector& b, Index length) {
  if (sum.block == 0) return chain(sum.fold, a, b, 0, length);
  float acc = 0.0f;
  for (Index c = 0; c < length; c += sum.block) {
    const float p = chain(sum.fold, a, b, c, std::min(c + sum.block, length));
    acc = fold_block(sum.fold, p, a.scale(c), b.scale(c), acc);
  }
  return acc;
}

template <typename Out>
Out dot(const Accumulation& sum, const KVector& a, const KVector& b, Index length) {
  if (length == 0) return from_float<Out>(0.0f);
  if (sum.family == SumFamily::fma_chain) {
    return from_float<Out>(fma_chain_dot(sum, a, b, length));
  }
  const ExactSum exact = exact_dot(a, b, length);
  if constexpr (std::is_same_v<Out, float>) {
    return exact.round_to_f32();
  } else {
    return exact.round_to_bf16();
  }
}

}  // namespace

ExactSum exact_dot(const KVector& a, const KVector& b, Index length) {
  ExactSum sum;
  for (Index c = 0; c < length; ++c) sum.add_product(exact_element(a, c), exact_element(b, c));
  return sum;
}

float fma_chain_dot(const Accumulation& sum, const KVector& a, const KVector& b, Index length) {
  float y = chain_of_blocks(sum, a, b, length);
  if (is_after(sum.fold)) y = scaled_sum(sum.fold, y, a.scale(0), b.scale(0));
  return std::isnan(y) ? bit_cast<float>(0x7FC00000u) : y;
}

void write_dot(const ContractionView& product, Index i, Index j) {
  const KVector a = product.a.k_vector(i);
  const KVector b = product.b.k_vector(j);
  const Index at = product.out_at({}, i, j);
  if (product.out.dtype == Dtype::f32) {
    static_cast<float*>(product.out.data)[at] = dot<float>(product.sum, a, b, product.depth);
  } else {
    static_cast<BF16*>(product.out.data)[at] = dot<BF16>(product.sum, a, b, product.depth);
  }
}

}  // namespace mxo
