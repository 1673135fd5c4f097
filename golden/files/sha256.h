// SHA-256 (FIPS 180-4), as lower-case hexadecimal text.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace mxo {

std::string sha256(const void* data, std::size_t bytes);
/// Of a whole file.  Throws Error(file).
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace mxo
