// Entries of maps, and what is said of a call that maps rows, experts or blocks.
#pragma once

#include <algorithm>

#include "formats/tensor.h"
#include "tests/support/refusal.h"

namespace mxo {

/// An i32 tensor of these values.
inline Tensor numbers(std::vector<Index> shape, const std::vector<std::int32_t>& values) {
  Tensor t(Dtype::i32, std::move(shape));
  std::copy(values.begin(), values.end(), t.as<std::int32_t>());
  return t;
}

/// What a call is refused with; nothing where it comes to the backend.
template <typename Op>
std::string refusal_of(void (*call)(Backend&, const Op&), const Op& op, bool host = true) {
  Bare bare(host);
  return check_refusal([&] { call(bare, op); });
}

}  // namespace mxo
