// Tensors to and from files.
#include "python/src/files.h"

#include "golden/files/read_tensors.h"
#include "golden/files/safetensors.h"
#include "python/src/bridge.h"

namespace mxo::python {
namespace {

namespace nb = nanobind;

void save(const std::string& path, const std::vector<ArrayIn>& arrays, const nb::dict& metadata) {
  TensorFile file;
  for (const auto& [key, value] : metadata) {
    file.metadata[nb::cast<std::string>(key)] = nb::cast<std::string>(value);
  }
  const nb::gil_scoped_release release;
  file.tensors = tensors_from(arrays);
  write_safetensors(path, file, Spelling::native);
}

/// (arrays, metadata) of a .safetensors or .npy; U8 that the metadata calls a format is that
/// format.
nb::tuple load(const std::string& path) {
  TensorFile file;
  {
    const nb::gil_scoped_release release;
    file = read_tensors(path, Digests::of_outputs);
    for (auto& [name, tensor] : file.tensors) tensor.reinterpret_as(format_of(file, name));
  }
  nb::dict metadata;
  for (const auto& [key, value] : file.metadata) metadata[nb::cast(key)] = value;
  return nb::make_tuple(arrays_from(std::move(file.tensors)), metadata);
}

}  // namespace

void bind_files(nb::module_& module) {
  module.def("save", save);
  module.def("load", load);
}

}  // namespace mxo::python
