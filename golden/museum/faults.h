// What a kernel with a fault answers, made from the right answer or from altered operands.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "golden/museum/museum.h"

namespace mxo {

/// The answer to `call` with operand `name` edited (to, from: both hold the operand first).
/// Nothing where the call has no such operand, or the answer does not depend on what was edited
/// (`edit` returned false).
Answer with_operand(Backend& backend, const Call& call, const std::string& name,
                    const std::function<bool(Tensor& to, const Tensor& from)>& edit);

/// True if every parameter but those of `but` has its default.
bool has_defaults(const Call& call, std::initializer_list<std::string_view> but = {});

/// A grouped product or weight gradient, as far as faults ask.
struct ProductParts {
  std::string x;  ///< "x.codes", or "x" where it is plain
  std::string w;  ///< of a weight gradient: dy
  std::vector<Index> ends;
  Index rows = 0;
  bool coded() const { return x.ends_with(".codes"); }
};
ProductParts parts_of(const Call& call);

/// First row of group `g`.
inline Index begin_of(const std::vector<Index>& ends, std::size_t g) {
  return g == 0 ? 0 : ends[g - 1];
}

/// The same with other ends of groups.
Answer with_ends(Backend& backend, const Call& call, const std::vector<Index>& ends);

/// Rows [from, from + count) of the matrix that `t` is hold NaN, whatever its type of float.
void fill_nan(Tensor& t, Index from, Index count);

}  // namespace mxo
