// The door to the CUDA backend; one of cuda_backend.cu and cuda_absent.cc stands behind it.
#pragma once

#include <memory>
#include <string>

#include "ops/backend.h"

namespace mxo {

/// Throws Error(unsupported) if this build or this machine has no such device.
std::unique_ptr<Backend> make_cuda_backend(int device);
/// Empty if device 0 can be used, else the reason.
std::string why_no_cuda();

}  // namespace mxo
