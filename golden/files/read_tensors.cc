// Tensor files of either kind.
#include "golden/files/read_tensors.h"

#include "formats/error.h"
#include "golden/files/safetensors.h"

namespace mxo {

TensorFile read_tensors(const std::filesystem::path& path, Digests digests) {
  TensorFile file;
  if (path.extension() != ".npy") {
    file = read_safetensors(path);
    const auto schema = file.metadata.find(kSchemaKey);
    const bool read = schema == file.metadata.end() ||
                      (digests == Digests::of_outputs && schema->second == kOutputsSchema);
    if (read) return file;
    throw Error(Fault::file, path.string() + ": " + std::string(kSchemaKey) + ": found " +
                                 schema->second +
                                 ", needs tensors; digests are compared by their " +
                                 "suite: mxo compare SUITE OUTPUTS");
  }
  file.tensors.emplace(path.stem().string(), read_npy(path));
  return file;
}

std::string file_of_typed(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::error_code ignored;  // a folder's name may have an equals sign
  const bool named =
      equals != text.npos && text.ends_with(".npy") && !std::filesystem::exists(text, ignored);
  return named ? text.substr(equals + 1) : text;
}

TensorFile read_typed(const std::string& text) {
  const std::string file = file_of_typed(text);
  const std::string after = text.substr(text.find('=') + 1);
  std::error_code ignored;
  if (file == text && after != text && !std::filesystem::exists(text, ignored)) {
    throw Error(Fault::file,
                text + ": no such file; NAME= is for a .npy, other files name their tensors: " +
                    "needs " + after);
  }
  if (file == text) return read_tensors(file);
  TensorFile named;
  named.tensors.emplace(text.substr(0, text.find('=')), read_npy(file));
  return named;
}

}  // namespace mxo
