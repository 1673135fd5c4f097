// Which kernels and how many threads; the operators are in the files beside this one.
#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "formats/error.h"

namespace mxo::cpu {

CpuBackend::CpuBackend(const CpuOptions& options)
    : isa_(isa_named(options.isa)),
      threads_(options.threads > 0 ? options.threads : omp_get_max_threads()),
      name_("cpu:" + std::string(name_of(isa_))) {}

std::byte* CpuBackend::allocate(std::size_t bytes) {
  return bytes < MemoryPool::kLeast ? Backend::allocate(bytes) : pool_.take(bytes);
}

void CpuBackend::release(std::byte* memory) noexcept {
  if (!pool_.give_back(memory)) Backend::release(memory);
}

void CpuBackend::fill_zero(std::byte* memory, std::size_t bytes) {
  const auto pieces = static_cast<std::int64_t>(bytes / MemoryPool::kLeast + 1);
  const std::size_t piece = bytes / static_cast<std::size_t>(pieces) + 1;
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::size_t first = std::min(static_cast<std::size_t>(i) * piece, bytes);
    std::memset(memory + first, 0, std::min(piece, bytes - first));
  }
}

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
