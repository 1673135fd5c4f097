// Two-sums and two-products.
#include "golden/judge/exact_terms.h"

#include <cmath>

namespace mxo {

void ExactTerms::add(double term) {
  std::size_t kept = 0;
  for (const double part : parts_) {
    const double sum = term + part;
    const double from_part = sum - term;
    const double rest = (term - (sum - from_part)) + (part - from_part);
    if (rest != 0) parts_[kept++] = rest;
    term = sum;
  }
  parts_.resize(kept);
  if (term != 0) parts_.push_back(term);
}

void ExactTerms::add_product(double a, double b) {
  const double product = a * b;
  add(std::fma(a, b, -product));
  add(product);
}

int ExactTerms::sign() const {
  if (parts_.empty()) return 0;
  return parts_.back() < 0 ? -1 : 1;
}

}  // namespace mxo
