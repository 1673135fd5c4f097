// Whether two files of tensors say the same.
#pragma once

#include "golden/files/tensor_file.h"

namespace mxo {

inline bool same_content(const TensorFile& a, const TensorFile& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto at = b.tensors.find(name);
    if (at == b.tensors.end() || tensor.dtype() != at->second.dtype() ||
        tensor.shape() != at->second.shape() ||
        std::memcmp(tensor.data(), at->second.data(), tensor.bytes()) != 0) {
      return false;
    }
  }
  return true;
}

}  // namespace mxo
