// One run at a time in a directory.
#pragma once

#include <filesystem>

namespace mxo::tools {

/// Holds a directory while it lives.  The system gives it back when the process ends, however it
/// ends.  Throws Error(file) if another run holds it; where the file system has no locks there are
/// none.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::filesystem::path& directory);
  ~DirectoryLock();
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;

 private:
  int file_;
};

}  // namespace mxo::tools
