// The registry of unfinished files.
#include "golden/files/leftovers.h"

#include <cstddef>
#include <mutex>
#include <new>
#include <set>

namespace mxo {
namespace {

struct Registry {
  std::mutex mutex;
  std::set<std::filesystem::path> paths;
};

/// Never destroyed: a thread may still write while the process ends.  Takes no memory: there may be
/// none left.
Registry& registry() {
  alignas(Registry) static std::byte place[sizeof(Registry)];
  static Registry& one = *new (place) Registry;
  return one;
}

}  // namespace

Leftover::Leftover(const std::function<std::filesystem::path()>& make) {
  const std::lock_guard lock(registry().mutex);
  path_ = make();
  registry().paths.insert(path_);
}

Leftover::~Leftover() {
  const std::lock_guard lock(registry().mutex);
  registry().paths.erase(path_);
}

std::error_code Leftover::publish(const std::filesystem::path& final_name) const {
  const std::lock_guard lock(registry().mutex);
  std::error_code error;
  std::filesystem::rename(path_, final_name, error);
  return error;
}

void remove_leftovers() {
  registry().mutex.lock();  // for good
  for (const std::filesystem::path& path : registry().paths) {
    std::error_code ignored;
    try {
      std::filesystem::remove_all(path, ignored);
    } catch (const std::bad_alloc&) {  // a folder that cannot be listed stays
    }
  }
}

}  // namespace mxo
