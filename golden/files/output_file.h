// A file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <string_view>

#include "golden/files/leftovers.h"

namespace mxo {

/// Writes to a new file of an unforeseeable name beside `path`.  commit() brings it to the disk
/// and renames it; a file that is not committed is removed.  `path` may not exist, or be a regular
/// file, which is replaced.  Throws Error(file) where it is anything else (a device, a pipe, a
/// directory) or the system refuses.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int file_ = -1;
  Leftover leftover_;  // opens the file
};

/// OutputFile, one write and a commit.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace mxo
