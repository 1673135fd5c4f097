// Faults by which operands are read from elsewhere, as data: operands, and the source of each
// place.
#pragma once

#include <concepts>
#include <cstring>
#include <utility>
#include <vector>

#include "tests/golden/planted.h"

namespace mxo {

using PlantsFault = std::function<Planted(Backend&)>;
using MakesCall = std::function<Call(Backend&)>;

/// Runs of `bytes` of t taken from others; those beyond the tensor stay.
inline void runs_from(Tensor& t, const Tensor& given, std::size_t bytes,
                      const std::function<Index(Index)>& source) {
  const auto n = static_cast<Index>(given.bytes() / bytes);
  for (Index i = 0; i < n; ++i) {
    const Index from = source(i);
    if (from < 0 || from >= n) continue;
    std::memcpy(t.data() + static_cast<std::size_t>(i) * bytes,
                given.data() + static_cast<std::size_t>(from) * bytes, bytes);
  }
}

/// Element i of the operands is the one at source(i), or source(i, operand).
template <typename Source>
PlantsFault elements(MakesCall call, std::vector<const char*> names, Source source) {
  return [=](Backend& b) {
    return altered(b, call(b), names, [&](Tensor& t, const Tensor& given) {
      runs_from(t, given, size_of(t.dtype()), [&](Index i) {
        if constexpr (std::invocable<Source, Index>)
          return source(i);
        else
          return source(i, given);
      });
    });
  };
}

/// The same of rows of the last axis; of a tensor of one axis of its elements.
inline PlantsFault rows(MakesCall call, std::vector<const char*> names,
                        std::function<Index(Index)> source) {
  return [=](Backend& b) {
    return altered(b, call(b), names, [&](Tensor& t, const Tensor& given) {
      runs_from(t, given, t.rank() == 1 ? size_of(t.dtype()) : row_bytes(t), source);
    });
  };
}

}  // namespace mxo
