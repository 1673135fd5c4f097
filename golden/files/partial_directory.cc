// A directory that appears whole or not at all.
#include "golden/files/partial_directory.h"

#include <system_error>

#include "formats/error.h"
#include "golden/files/temporary_name.h"

namespace mxo {
namespace {

namespace fs = std::filesystem;

/// The directory's name without a trailing slash; it must be free.
fs::path free_directory(const fs::path& directory) {
  fs::path name = directory.lexically_normal();
  if (!name.has_filename()) name = name.parent_path();
  std::error_code error;
  if (name.empty() ||
      (fs::exists(name, error) && !(fs::is_directory(name, error) && fs::is_empty(name, error)))) {
    throw Error(Fault::file,
                directory.string() + ": exists and is not an empty directory; needs a new one");
  }
  return name;
}

}  // namespace

PartialDirectory::PartialDirectory(const fs::path& final_name)
    : final_(free_directory(final_name)), path_(temporary_name(final_)), leftover_([this] {
        std::error_code error;
        if (final_.has_parent_path()) fs::create_directories(final_.parent_path(), error);
        if (!fs::create_directory(path_, error)) {
          throw Error(Fault::file, path_.string() + ": cannot be made: " + error.message());
        }
        return path_;
      }) {}

PartialDirectory::~PartialDirectory() {
  std::error_code ignored;
  if (!published_) fs::remove_all(path_, ignored);
}

void PartialDirectory::publish() {
  if (const std::error_code error = leftover_.publish(final_)) {
    throw Error(Fault::file, final_.string() + ": cannot be renamed to: " + error.message());
  }
  published_ = true;
}

}  // namespace mxo
