// Tensor files of either kind.
#include "golden/files/read_tensors.h"

#include "golden/files/safetensors.h"

namespace mxo {

TensorFile read_tensors(const std::filesystem::path& path) {
  if (path.extension() != ".npy") return read_safetensors(path);
  TensorFile file;
  file.tensors.emplace(path.stem().string(), read_npy(path));
  return file;
}

}  // namespace mxo
