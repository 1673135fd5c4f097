// Named tensors and text, as one file holds them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ops/catalogue.h"

namespace mxo {

/// What a safetensors file says: tensors under their names, and `__metadata__`.
struct TensorFile {
  NamedTensors tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

/// The metadata key that holds the real format of a tensor stored as U8: "codes.format".
inline std::string format_key(std::string_view tensor) { return std::string(tensor) + ".format"; }

/// What the bytes of a tensor mean: its own type, or the format that the metadata names for a U8.
/// A name that is no 8-bit format is taken as u8.
Dtype format_of(const TensorFile& file, std::string_view tensor);

}  // namespace mxo
