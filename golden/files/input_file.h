// Files that are read: regular ones only, so that nothing waits for a pipe or reads a device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace mxo {

/// "a directory", "a pipe", "a device", "a socket", "a file".
std::string kind_text(const std::filesystem::file_status& status);

struct InputFile {
  std::ifstream stream;
  std::uint64_t size = 0;
};

/// Throws Error(file) "path: ..." for what does not exist, is no regular file or cannot be opened.
InputFile open_input(const std::filesystem::path& path);

/// The whole of a text file.  Throws Error(file).
std::string read_text_file(const std::filesystem::path& path);

}  // namespace mxo
