// The operands of a call as a command line gives them: files, and arrays with a name.
#pragma once

#include <string>
#include <vector>

#include "golden/files/tensor_file.h"

namespace mxo::tools {

/// The help of an option that read_operands reads.
inline constexpr const char* kOperandFiles =
    "the operands, by name: .safetensors, or [NAME=]FILE.npy; may be repeated";

/// Reads each of `texts` (read_typed).  Throws Error(file) also where `op` has no operand of a
/// tensor's name, and where two tensors have one name.
NamedTensors read_operands(const std::string& op, const std::vector<std::string>& texts);

}  // namespace mxo::tools
