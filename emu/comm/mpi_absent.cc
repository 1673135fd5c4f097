// Stands in where the build has no MPI.
#include "emu/communicators.h"
#include "formats/error.h"

namespace mxo {

std::unique_ptr<World> make_mpi_world() {
  throw Error(Fault::unsupported, "mpi: this build has none; configure with -DMXO_MPI=ON");
}

bool started_by_mpi() { return false; }

}  // namespace mxo
