// Tensor files of either kind.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "golden/files/tensor_file.h"

namespace mxo {

/// Whether a file of digests of outputs is read; one of a case never is.
enum class Digests : std::uint8_t { refused, of_outputs };

/// By extension: .npy gives one tensor named as the file without its extension ("x.codes.npy"
/// holds x.codes); everything else is read as safetensors.  Throws Error(file), also for digests in
/// place of tensors.
TensorFile read_tensors(const std::filesystem::path& path, Digests digests = Digests::refused);

/// The same of what a user types: a file, or NAME=FILE.npy for an array whose name is not the
/// file's.
TensorFile read_typed(const std::string& text);
/// The file in it.
std::string file_of_typed(const std::string& text);

/// One array of a .npy file (format 1.0 to 3.0): little-endian numbers and bool, either order.
/// Types NumPy does not know follow from their size: 1 byte u8, 2 bytes bf16.
Tensor read_npy(const std::filesystem::path& path);

}  // namespace mxo
