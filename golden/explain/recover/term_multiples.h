// How often each term along the depth is in the sums of a product, measured from its output.
#pragma once

#include <vector>

#include "golden/explain/output.h"
#include "golden/explain/product.h"

namespace mxo {

/// The multiple of each term of the depth that is in the sums of some groups, from where failing
/// rows and columns meet: -1 to 2.  Empty where the output does not tell, or every term is there
/// once.  An estimate: whether it is so the product itself has to tell, run once more.
std::vector<int> multiples_of_terms(const Product& p, const Output& y,
                                    const std::vector<Index>& groups);

}  // namespace mxo
