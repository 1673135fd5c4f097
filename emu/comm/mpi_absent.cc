// Stands in for mpi.cc where mxo::mpi is not linked.
#include "emu/communicators.h"
#include "formats/error.h"

namespace mxo {

std::string why_no_mpi() {
  return "this build has none; configure with -DMXO_MPI=ON and link mxo::mpi";
}

std::unique_ptr<World> make_mpi_world() { throw Error(Fault::unsupported, "mpi: " + why_no_mpi()); }

bool started_by_mpi() { return false; }

}  // namespace mxo
