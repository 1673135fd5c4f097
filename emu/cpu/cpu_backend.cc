// Which kernels and how many threads; the operators are in the files beside this one.
#include "emu/cpu/cpu_backend.h"

#include <omp.h>

#include "formats/error.h"

namespace mxo::cpu {

CpuBackend::CpuBackend(const CpuOptions& options)
    : isa_(isa_named(options.isa)),
      threads_(options.threads > 0 ? options.threads : omp_get_max_threads()),
      name_("cpu:" + std::string(name_of(isa_))) {}

}  // namespace mxo::cpu

namespace mxo {

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  if (options.threads < 0) {
    throw Error(Fault::argument,
                "cpu: threads is " + std::to_string(options.threads) + ", needs at least 1");
  }
  return std::make_unique<cpu::CpuBackend>(options);
}

}  // namespace mxo
