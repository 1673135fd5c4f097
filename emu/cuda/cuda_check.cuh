// CUDA status codes to mxo::Error, with the call's name.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "formats/error.h"

namespace mxo::cuda {

/// Throws if `status` is an error.  A device that is missing or out of memory is a property of
/// the machine: Error(unsupported).  Anything else, a fault in a kernel too, is Error(internal).
inline void check(cudaError_t status, const std::string& call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears what can be cleared, so that the next call speaks for itself
  const bool machine = status == cudaErrorMemoryAllocation || status == cudaErrorNoDevice ||
                       status == cudaErrorInvalidDevice || status == cudaErrorInsufficientDriver ||
                       status == cudaErrorNoKernelImageForDevice;
  throw Error(machine ? Fault::unsupported : Fault::internal,
              "cuda: " + call + ": " + cudaGetErrorString(status));
}

/// After a launch: what the launch itself says.  What happens in the kernel shows at the next
/// call that waits.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace mxo::cuda
