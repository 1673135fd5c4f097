// A command of the user's, with names of files put into it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "golden/files/leftovers.h"

namespace mxo::tools {

/// A directory for the files of such commands, gone at the end.
class ScratchDirectory {
 public:
  ScratchDirectory();
  ~ScratchDirectory();
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Leftover leftover_;  // makes it
};

/// `text` as a shell reads it back: in single quotes where it needs them.
std::string shell_word(const std::string& text);

/// Throws Error(argument) naming `option` unless the command holds each of the places ("{in}").
void check_places(std::string_view option, const std::string& command,
                  std::initializer_list<std::string_view> places);

/// Runs `command` in a shell with each place ("{in}") replaced by its path, quoted; what it prints
/// to stdout is not shown.  Returns its exit code, or 128 and the signal that ended it.
/// Throws Error(unsupported) where there is no shell.
int run_user_command(const std::string& command,
                     const std::map<std::string, std::filesystem::path>& places);

}  // namespace mxo::tools
