// A directory of one test, gone at its end.
#pragma once

#include <filesystem>

#include <unistd.h>

#include "formats/error.h"

namespace mxo {

class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& parent = std::filesystem::temp_directory_path()) {
    std::string name = (parent / "mxo-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw Error(Fault::internal, "no scratch directory");
    path_ = name;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace mxo
