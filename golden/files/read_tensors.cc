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

std::string file_of_typed(const std::string& text) {
  const std::size_t equals = text.find('=');
  return equals != text.npos && text.ends_with(".npy") ? text.substr(equals + 1) : text;
}

NamedTensors read_typed(const std::string& text) {
  const std::string file = file_of_typed(text);
  if (file == text) return read_tensors(file).tensors;
  NamedTensors tensors;
  tensors.emplace(text.substr(0, text.find('=')), read_npy(file));
  return tensors;
}

}  // namespace mxo
