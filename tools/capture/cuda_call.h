// CUDA and cuBLAS status to mxo::Error, with the call's text.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <string>
#include <vector>

#include "formats/error.h"

namespace mxo::capture {

inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  throw Error(Fault::internal, std::string(call) + ": " + cudaGetErrorString(status));
}
inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Fault::internal, std::string(call) + ": cuBLAS status " + std::to_string(status));
}

/// Device memory holding `n` elements.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t n) : n_(n) {
    check(cudaMalloc(&data_, n * sizeof(T) + 1), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) {
    check(cudaMemcpy(data_, host.data(), n_ * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other) noexcept : data_(other.data_), n_(other.n_) {
    other.data_ = nullptr;
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> copy(n_);
    check(cudaMemcpy(copy.data(), data_, n_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return copy;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

}  // namespace mxo::capture
