// Names to worlds.
#include "emu/communicators.h"

#include <string>

#include "formats/error.h"

namespace mxo {

std::unique_ptr<World> make_world(std::string_view name) {
  if (name == "nccl") {
    return make_nccl_world(started_by_mpi() ? make_mpi_world() : make_in_process_world());
  }
  if (name == "mpi" || (name.empty() && started_by_mpi())) return make_mpi_world();
  if (name == "in_process" || name.empty()) return make_in_process_world();
  throw Error(Fault::argument,
              "unknown communicator '" + std::string(name) + "'; there are in_process, mpi, nccl");
}

std::vector<CommunicatorRow> list_communicators() {
  const std::string no_mpi = why_no_mpi();
  const std::string no_nccl = why_no_nccl();
  return {{"in_process", true, "ranks are threads of this process"},
          {"mpi", no_mpi.empty(), no_mpi.empty() ? "ranks are the processes of mpirun" : no_mpi},
          {"nccl", no_nccl.empty(),
           no_nccl.empty() ? "ranks have a GPU each; bytes go from one to the other" : no_nccl}};
}

}  // namespace mxo
