// An output of a call before anything is computed: its name, type and shape.
#pragma once

#include <string>
#include <vector>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo {

/// Shape and type of one output of the whole call.
struct OutputShape {
  std::string name;
  Dtype format = Dtype::u8;
  std::vector<Index> shape;
};

}  // namespace mxo
