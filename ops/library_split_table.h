// What the tables of splits are made of.
#pragma once

#include <cstdint>

#include "ops/library_splits.h"

namespace mxo::library_splits {

struct Shape {
  std::int32_t n, k;
};

/// A product that is cut for some number of rows: by steps `first` .. `first + count - 1`.
struct Layer {
  LibraryProduct kind;
  std::int32_t n, k, first, count;
};

}  // namespace mxo::library_splits
