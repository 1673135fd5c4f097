// How the CUDA backend is made: by cuda_backend.cu, or by cuda_absent.cc where there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace mxo {

/// On a stream of its own, or on the caller's `stream`, a cudaStream_t.  Throws Error(unsupported)
/// if this build or this machine has no such device.
std::unique_ptr<Backend> make_cuda_backend(int device, std::optional<std::uintptr_t> stream = {});
/// Empty if there is a device, else the reason.
std::string why_no_cuda();
/// The names of the devices, by number.
std::vector<std::string> cuda_devices();

}  // namespace mxo
