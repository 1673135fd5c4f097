// The backend behind make_cuda_backend: one device, one stream, one status word.  Its operators
// are in the files beside this one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <string>

#include "emu/cuda/device_fault.cuh"
#include "emu/cuda/kept_blocks.cuh"
#include "formats/any_view.h"
#include "ops/backend.h"

namespace mxo::cuda {

class DeviceBackend : public Backend {
 public:
  /// On a stream of its own, or on `stream`, which the caller keeps.
  explicit DeviceBackend(int device, std::optional<cudaStream_t> stream = {});
  ~DeviceBackend() override;
  DeviceBackend(const DeviceBackend&) = delete;
  DeviceBackend& operator=(const DeviceBackend&) = delete;

  std::string_view name() const override { return name_; }
  bool honours(const Accumulation& how) const override;
  /// Rank r has the r-th device counted from this one, modulo the number of devices.
  std::unique_ptr<Backend> for_rank(int rank) const override;
  bool reads_host_memory() const override { return false; }
  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* memory) noexcept override;
  void upload(std::byte* to, const std::byte* from_host, std::size_t bytes) override;
  /// Waits, and throws what synchronize() would.
  void download(std::byte* to_host, const std::byte* from, std::size_t bytes) override;
  void fill_zero(std::byte* memory, std::size_t bytes) override;
  void synchronize() override;

  /// True while the stream records a CUDA graph: then memory is the graph's own.
  bool recording() const;
  int device() const { return device_; }
  int multiprocessors() const { return multiprocessors_; }
  /// The stream all work goes to; makes the device current on the calling thread.
  cudaStream_t stream() const;
  /// Where kernels report what is wrong with data that only the device reads.
  FaultWord faults() const { return {status_}; }

 protected:
  using Backend::run;
  void run(const Encode&) override;
  void run(const Decode&) override;
  void run(const Quantize&) override;
  void run(const Dequantize&) override;
  void run(const DelayedScale&) override;
  void run(const SwizzleScales&) override;
  void run(const UnswizzleScales&) override;
  void run(const PackScales&) override;
  void run(const UnpackScales&) override;
  void run(const PadGroups&) override;
  void run(const UnpadGroups&) override;
  void run(const PermuteIndices&) override;
  void run(const Permute&) override;
  void run(const Unpermute&) override;
  void run(const RowsToGroups&) override;  // index_maps.cu
  void run(const GroupsToRows&) override;
  void run(const GroupsToMasked&) override;  // masked_rows.cu
  void run(const MaskedToGroups&) override;
  void run(const MapExperts&) override;
  void run(const MaskToExperts&) override;
  void run(const ExpertsToMask&) override;
  void run(const MoeAlignBlockSize&) override;
  void run(const BlocksToExperts&) override;
  void run(const Cast&) override;
  void run(const AddBias&) override;
  void run(const ColumnSum&) override;
  void run(const Approximate&) override;
  void run(const Route&) override;
  void run(const Swiglu&) override;
  void run(const SwigluBackward&) override;
  void run(const SwigluQuantize&) override;
  void run(const SwigluQuantizeBackward&) override;
  void run(const ScalingAwareTranspose&) override;
  void run(const CombineRows&) override;
  void run(const CombineRowsBackward&) override;
  void run(const RouteBackward&) override;
  void run(const RouterGradients&) override;
  void run(const GroupedMatmul&) override;  // grouped_matmul.cu
  void run(const GroupedMatmulWgrad&) override;
  void run(const FusedDot&) override;

 private:
  int device_;
  int multiprocessors_ = 0;
  bool owns_stream_;
  cudaStream_t stream_ = nullptr;
  std::uint32_t* status_ = nullptr;       // on the device
  std::uint32_t* status_host_ = nullptr;  // pinned
  std::string name_;
  KeptBlocks small_;
};

/// Memory of the backend for the length of a call.  Released in the order of the stream, so
/// kernels under way still have it.
template <typename T>
class Scratch {
 public:
  Scratch(DeviceBackend& backend, std::int64_t count)
      : backend_(backend),
        data_(reinterpret_cast<T*>(backend.allocate(static_cast<std::size_t>(count) * sizeof(T)))) {
  }
  ~Scratch() { backend_.release(reinterpret_cast<std::byte*>(data_)); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  DeviceBackend& backend_;
  T* data_;
};

}  // namespace mxo::cuda
