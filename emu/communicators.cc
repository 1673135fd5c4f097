// Names to worlds.
#include "emu/communicators.h"

#include <string>

#include "formats/error.h"

namespace mxo {

std::unique_ptr<World> make_world(std::string_view name) {
  if (name == "mpi" || (name.empty() && started_by_mpi())) return make_mpi_world();
  if (name == "in_process" || name.empty()) return make_in_process_world();
  throw Error(Fault::argument,
              "unknown communicator '" + std::string(name) + "'; there are in_process, mpi");
}

}  // namespace mxo
