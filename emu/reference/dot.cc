// One output of a matrix product, by the sums that are no machine's.
#include "emu/reference/dot.h"

#include <algorithm>
#include <cmath>

namespace mxo {
namespace {

ExactNumber exact_element(const ScaledLine& line, Index c) {
  return product(exact_number(line.code(c)), exact_number(line.scale(c)));
}

float chain_of_values(const ScaledLine& a, const ScaledLine& b, Index length) {
  float acc = 0.0f;
  for (Index c = 0; c < length; ++c) {
    acc = std::fma(a.code(c) * a.scale(c), b.code(c) * b.scale(c), acc);
  }
  return acc;
}

float chain_of_codes(const ScaledLine& a, const ScaledLine& b, Index first, Index past) {
  float acc = 0.0f;
  for (Index c = first; c < past; ++c) acc = std::fma(a.code(c), b.code(c), acc);
  return acc;
}

float chain(Scaling scaling, const ScaledLine& a, const ScaledLine& b, Index length) {
  switch (scaling) {
    case Scaling::mx:
    case Scaling::none: break;
    case Scaling::rowwise: return chain_of_codes(a, b, 0, length) * a.scale(0) * b.scale(0);
    case Scaling::blockwise: {
      float y = 0.0f;
      for (Index c = 0; c < length; c += kScaleTile) {
        const float p = chain_of_codes(a, b, c, std::min(c + kScaleTile, length));
        y = std::fma(p * a.scale(c), b.scale(c), y);
      }
      return y;
    }
  }
  return chain_of_values(a, b, length);
}

}  // namespace

ExactSum exact_dot(const ScaledLine& a, const ScaledLine& b, Index length) {
  ExactSum sum;
  for (Index c = 0; c < length; ++c) sum.add_product(exact_element(a, c), exact_element(b, c));
  return sum;
}

float fma_chain_dot(Scaling scaling, const ScaledLine& a, const ScaledLine& b, Index length) {
  const float y = chain(scaling, a, b, length);
  return std::isnan(y) ? bit_cast<float>(0x7FC00000u) : y;
}

}  // namespace mxo
