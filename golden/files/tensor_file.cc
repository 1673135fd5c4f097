// What the bytes of a stored tensor mean.
#include "golden/files/tensor_file.h"

namespace mxo {

Dtype format_of(const TensorFile& file, std::string_view tensor) {
  const auto at = file.tensors.find(tensor);
  if (at == file.tensors.end()) return Dtype::u8;
  const Dtype stored = at->second.dtype();
  const auto named = file.metadata.find(format_key(tensor));
  if ((stored != Dtype::u8 && stored != Dtype::u16) || named == file.metadata.end()) return stored;
  for (const DtypeRow& row : dtypes()) {
    if (row.name == named->second && row.bytes == size_of(stored)) return row.dtype;
  }
  return stored;
}

TensorFile as_declared(TensorFile file) {
  for (auto& [name, tensor] : file.tensors) tensor.reinterpret_as(format_of(file, name));
  return file;
}

}  // namespace mxo
