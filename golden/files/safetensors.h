// Reading and writing safetensors files.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <filesystem>

#include "golden/files/tensor_file.h"

namespace mxo {

class OutputFile;

/// Reads a whole file: 8 bytes of header length (little endian), a JSON header, one buffer.
///
/// Nothing in the file is believed: the header must fit the file and 100 MB, be UTF-8 JSON with
/// every name once; offsets must cover the buffer without overlap or hole and agree with shape
/// and dtype.  Throws Error(file) "path: byte N: found ..., needs ...".  Nothing is allocated
/// beyond what the file holds.
TensorFile read_safetensors(const std::filesystem::path& path);

/// How 8-bit floats and bf16 are spelled in a file.
enum class Spelling : std::uint8_t {
  portable,  ///< 8-bit formats as U8, the format in __metadata__: loads everywhere
  native,    ///< F8_E4M3, F8_E8M0 and so on
};

/// Writes `file`: equal contents give equal bytes.  Goes to a temporary name beside `path`, which
/// is then renamed: `path` is whole or untouched.  Throws Error(file).
void write_safetensors(const std::filesystem::path& path, const TensorFile& file,
                       Spelling spelling = Spelling::portable);
/// The same bytes to a file that the caller commits.
void write_safetensors(OutputFile& out, const TensorFile& file, Spelling spelling);

}  // namespace mxo
