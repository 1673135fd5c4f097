// Stands in for cuda_backend.cu where mxo::cuda is not linked.
#include "emu/cuda/cuda_backend.h"
#include "formats/error.h"

namespace mxo {

std::string why_no_cuda() {
  return "this build has no CUDA; tools/gpu_check.sh makes one that has";
}

std::vector<std::string> cuda_devices() { return {}; }

std::unique_ptr<Backend> make_cuda_backend(int, std::optional<std::uintptr_t>) {
  throw Error(Fault::unsupported, "cuda: " + why_no_cuda());
}

}  // namespace mxo
