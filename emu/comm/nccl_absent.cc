// Stands in for nccl.cu where mxo::nccl is not linked.
#include "emu/communicators.h"
#include "formats/error.h"

namespace mxo {

std::string why_no_nccl() {
  return "this build has none; configure with -DMXO_CUDA=ON -DMXO_NCCL=ON and link mxo::nccl";
}

std::unique_ptr<World> make_nccl_world(std::unique_ptr<World>) {
  throw Error(Fault::unsupported, "nccl: " + why_no_nccl());
}

}  // namespace mxo
