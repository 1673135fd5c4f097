// A file that appears whole or not at all.
#include "golden/files/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "formats/error.h"

namespace mxo {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), temporary_(path) {
  temporary_ += ".partial-" + std::to_string(::getpid());
  stream_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) fail("opened");
}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  stream_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  stream_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!stream_) fail("written");
}

void OutputFile::commit() {
  stream_.close();
  if (!stream_) fail("written");
  std::error_code error;
  std::filesystem::rename(temporary_, path_, error);
  if (error) fail("renamed to");
  temporary_.clear();
}

void OutputFile::fail(const char* doing) const {
  throw Error(Fault::file, path_.string() + ": cannot be " + doing + ": " + std::strerror(errno));
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile out(path);
  out.write(text);
  out.commit();
}

}  // namespace mxo
