// A directory that appears whole or not at all.
#pragma once

#include <filesystem>

#include "golden/files/leftovers.h"

namespace mxo {

/// A new directory of an unforeseeable name beside `final_name`, which may not exist, or be an
/// empty directory.  publish() renames it; what is not published is removed.  Throws Error(file).
class PartialDirectory {
 public:
  explicit PartialDirectory(const std::filesystem::path& final_name);
  ~PartialDirectory();
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void publish();

 private:
  std::filesystem::path final_;
  std::filesystem::path path_;
  Leftover leftover_;  // makes the directory
  bool published_ = false;
};

}  // namespace mxo
