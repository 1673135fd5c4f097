// A lock of the system's on the directory itself: no file is left behind.
#include "tools/train/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "formats/error.h"

namespace mxo::tools {

DirectoryLock::DirectoryLock(const std::filesystem::path& directory)
    : file_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  throw Error(Fault::file, "output: another run is writing to " + directory.string());
}

DirectoryLock::~DirectoryLock() {
  if (file_ >= 0) ::close(file_);
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)) {}

}  // namespace mxo::tools
