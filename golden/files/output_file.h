// A file that appears whole or not at all.
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace mxo {

/// Writes to a temporary name beside `path`.  commit() renames it; a file that is not committed
/// is removed.  Throws Error(file) where the system refuses.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  std::ofstream stream_;
};

/// OutputFile, one write and a commit.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace mxo
