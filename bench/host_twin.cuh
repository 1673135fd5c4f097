// The results of an operator on a device, held against those of a host on the same operands.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <deque>
#include <vector>

#include "formats/any_view.h"

namespace mxo::bench {

inline std::size_t bytes_of(const Operand& t) {
  return static_cast<std::size_t>(t.elements()) * size_of(t.dtype);
}

/// What an operator of the device reads and writes, on the host.  Views are dense, in any order of
/// their axes; results are filled with one byte on both sides.
class HostTwin {
 public:
  static constexpr unsigned char kUnwritten = 0xA5;
  Operand in(Operand view) {
    if (!view.given()) return view;
    view.data = copy(view.data, bytes_of(view)).data();
    return view;
  }
  Result out(Result view) {
    const std::size_t bytes = static_cast<std::size_t>(view.elements()) * size_of(view.dtype);
    memory_.emplace_back(bytes, std::byte{kUnwritten});
    cudaMemset(view.data, kUnwritten, bytes);
    results_.push_back({static_cast<const std::byte*>(view.data), &memory_.back()});
    view.data = memory_.back().data();
    return view;
  }
  /// Bytes of results in which the device differs.
  std::size_t differing() {
    std::size_t count = 0;
    for (const Written& result : results_) {
      const std::vector<std::byte>& found = copy(result.device, result.host->size());
      for (std::size_t i = 0; i < found.size(); ++i) count += found[i] != (*result.host)[i] ? 1 : 0;
    }
    return count;
  }

 private:
  struct Written {
    const std::byte* device;
    const std::vector<std::byte>* host;
  };
  const std::vector<std::byte>& copy(const void* device, std::size_t bytes) {
    memory_.emplace_back(bytes);
    cudaMemcpy(memory_.back().data(), device, bytes, cudaMemcpyDeviceToHost);
    return memory_.back();
  }
  std::deque<std::vector<std::byte>> memory_;
  std::vector<Written> results_;
};

}  // namespace mxo::bench
