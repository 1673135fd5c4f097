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

/// The metadata key that holds the real format of a tensor stored as U8 or U16: "codes.format".
inline std::string format_key(std::string_view tensor) { return std::string(tensor) + ".format"; }

/// The metadata key of what a file holds in place of tensors, and its value for outputs as digests.
inline constexpr std::string_view kSchemaKey = "mxo.schema";
inline constexpr std::string_view kOutputsSchema = "mxo-outputs/1";

/// What the bytes of a tensor mean: its own type, or the float of its size that the metadata names
/// for a U8 or U16.  Any other name is none.
Dtype format_of(const TensorFile& file, std::string_view tensor);

/// The file with every tensor of the type that its bytes mean.
TensorFile as_declared(TensorFile file);

}  // namespace mxo
