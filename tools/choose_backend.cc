// From --backend and --threads to a backend.
#include "emu/backends.h"
#include "tools/command.h"

namespace mxo::tools {

std::unique_ptr<Backend> chosen_backend(const Settings& settings, const char* otherwise) {
  return make_backend(settings.backend.empty() ? otherwise : settings.backend, settings.threads);
}

}  // namespace mxo::tools
