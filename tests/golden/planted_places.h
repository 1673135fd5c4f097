// Faults by which operands are read from elsewhere, as data: operands, and the source of each
// place.
#pragma once

#include <concepts>

#include "tests/golden/planted.h"

namespace mxo {

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
