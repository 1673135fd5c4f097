// Unfinished files and directories of this process, so that one that is stopped can remove them.
#pragma once

#include <filesystem>

namespace mxo {

/// Registers `path` for as long as it lives.  Thread safe.
class Leftover {
 public:
  explicit Leftover(const std::filesystem::path& path);
  ~Leftover();
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;

 private:
  const std::filesystem::path path_;
};

/// Removes everything registered and lets nothing new be registered: threads that try wait.  For
/// a process that is about to end.
void remove_leftovers();

}  // namespace mxo
