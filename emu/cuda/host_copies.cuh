// Operands of a few integers a token, worked on by the host and brought back.
#pragma once

#include <memory>
#include <vector>

#include "emu/cuda/device_backend.cuh"
#include "emu/reference/reference_backend.h"

namespace mxo::cuda {

/// Copies on the host of what one call reads and writes.  The definition runs on them with all of
/// its checks, so that what only the device could read is refused by entry and value, before any
/// byte there is written; put_back() writes the results, and leaves what lies between strides.
class HostCopies {
 public:
  explicit HostCopies(DeviceBackend& device) : device_(device) {}

  Backend& reference() { return reference_; }

  template <typename Void>
  AnyView<Void> of(const AnyView<Void>& view) {
    AnyView<Void> copy = view;
    const std::size_t bytes = bytes_of(view);
    if (bytes == 0) return copy;
    // Words, because elements of 4 bytes are read where they lie.
    auto memory = std::make_unique<std::uint64_t[]>(bytes / 8 + 1);
    auto* data = reinterpret_cast<std::byte*>(memory.get());
    device_.download(data, static_cast<const std::byte*>(view.data), bytes);
    if constexpr (!std::is_const_v<Void>) {
      results_.push_back({static_cast<std::byte*>(view.data), data, bytes});
    }
    copy.data = data;
    memory_.push_back(std::move(memory));
    return copy;
  }

  void put_back() {
    for (const auto& [to, from, bytes] : results_) device_.upload(to, from, bytes);
    device_.synchronize();  // the copies end with this object
  }

 private:
  /// From the first element to the end of the last; 0 of an empty tensor, or none.
  template <typename Void>
  static std::size_t bytes_of(const AnyView<Void>& view) {
    if (!view.given() || view.elements() == 0) return 0;
    Index last = 0;
    for (int axis = 0; axis < view.rank; ++axis)
      last += (view.extent[axis] - 1) * view.stride[axis];
    return static_cast<std::size_t>(last + 1) * size_of(view.dtype);
  }

  struct Written {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  DeviceBackend& device_;
  ReferenceBackend reference_;
  std::vector<std::unique_ptr<std::uint64_t[]>> memory_;
  std::vector<Written> results_;
};

}  // namespace mxo::cuda
