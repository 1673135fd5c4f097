// A file that appears whole or not at all.
#include "golden/files/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "formats/error.h"
#include "golden/files/input_file.h"
#include "golden/files/temporary_name.h"

namespace mxo {
namespace {

/// The name to write beside: what `path` leads to if it is a link.
std::filesystem::path regular_or_new(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw Error(Fault::file, path.string() + ": cannot be replaced: found " + kind_text(status) +
                                 ", needs a regular file or a new name");
  }
  if (!std::filesystem::is_symlink(path, error) || !std::filesystem::exists(status)) return path;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target;
}

/// A rename survives a loss of power once its directory is on the disk.
void bring_to_disk(const std::filesystem::path& directory) {
  const int file = ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;  // a directory that may be written but not read
  ::fsync(file);
  ::close(file);
}

}  // namespace

OutputFile::OutputFile(const std::filesystem::path& path)
    : path_(regular_or_new(path)), temporary_(temporary_name(path_)), leftover_([this] {
        constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
        file_ = ::open(temporary_.c_str(), flags, 0666);
        if (file_ < 0) fail("opened");
        return temporary_;
      }) {}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  ::close(file_);
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ::ssize_t written = ::write(file_, at, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("written");
    at += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void OutputFile::commit() {
  if (::fsync(file_) != 0 && errno != EINVAL) fail("written");
  if (const std::error_code error = leftover_.publish(path_)) {
    errno = error.value();
    fail("renamed to");
  }
  ::close(file_);
  file_ = -1;
  bring_to_disk(path_.parent_path());
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
