// Every machine we can run on.  Plain C++: no CUDA type crosses this line.
// Thread safety: backends may be made, used and dropped by any threads at once (ops/backend.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/backend.h"

namespace mxo {

/// The definition: one plain loop per operator, one thread, no intrinsics.
std::unique_ptr<Backend> make_reference_backend();

struct CpuOptions {
  std::string isa = "best";  ///< or the name of a kernel table: "scalar", "avx2", "avx512"
  int threads = 0;           ///< 0: as many as OpenMP would take
};
/// The same bits, faster.  Throws Error(unsupported) if this machine lacks `isa`,
/// Error(argument) if there is no such table.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

/// "reference", "cpu", "cpu:avx2", "cuda:0".  `threads` 0 leaves the choice to the backend.
/// `stream`: the caller's own cudaStream_t that a backend of CUDA is to work on.
/// Throws Error(argument) for an unknown name, Error(unsupported) where it cannot run.
std::unique_ptr<Backend> make_backend(std::string_view name, int threads = 0,
                                      std::optional<std::uintptr_t> stream = {});

/// One row of `mxo list backends`.
struct BackendRow {
  std::string name;
  bool available;
  std::string why;  ///< what it is, or why it is not here
};
std::vector<BackendRow> list_backends();

}  // namespace mxo
