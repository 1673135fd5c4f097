// From --backend and --threads to backends.
#include <algorithm>
#include <thread>

#include "emu/backends.h"
#include "tools/command.h"
#include "tools/crew.h"

namespace mxo::tools {

std::unique_ptr<Backend> chosen_backend(const Settings& settings, const char* otherwise) {
  return make_backend(settings.backend.empty() ? otherwise : settings.backend, settings.threads);
}

Crew chosen_crew(const Settings& settings, const char* otherwise) {
  chosen_backend(settings, otherwise);  // what is wrong with it is said at once
  const std::string name = settings.backend.empty() ? otherwise : settings.backend;
  const auto here = static_cast<int>(std::thread::hardware_concurrency());
  return {[name](int threads) { return make_backend(name, threads); },
          settings.threads > 0 ? settings.threads : std::max(1, here)};
}

}  // namespace mxo::tools
