// Unfinished files and directories of this process, so that one that is stopped can remove them.
#pragma once

#include <filesystem>
#include <functional>
#include <system_error>

namespace mxo {

/// A file or directory that is removed where the process is stopped.  Thread safe: what is made
/// here, and what gets its final name, has done so before anything is removed, or never does; a
/// directory that is being removed gets no new entries.
class Leftover {
 public:
  /// Registers the path that `make` returns, of what it made, for as long as this lives.
  explicit Leftover(const std::function<std::filesystem::path()>& make);
  ~Leftover();
  Leftover(const Leftover&) = delete;
  Leftover& operator=(const Leftover&) = delete;

  /// Renames it.
  std::error_code publish(const std::filesystem::path& final_name) const;

 private:
  std::filesystem::path path_;
};

/// Removes everything registered and lets nothing new be made: threads that try wait.  For a
/// process that is about to end.
void remove_leftovers();

}  // namespace mxo
