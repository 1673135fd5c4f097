// Device, stream and memory of the CUDA backend.
#include "emu/cuda/cuda_backend.h"

#include <algorithm>
#include <bit>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/device_backend.cuh"
#include "ops/float_environment.h"

namespace mxo::cuda {
namespace {

/// Of blocks that are kept; larger ones are the device's pool's, which joins and splits them.
constexpr std::size_t kSmallBytes = std::size_t{1} << 20;

/// The oldest architecture this build has code for.
constexpr int kLeastMajor = 9;

const char* words_of(DeviceFault fault) {
  switch (fault) {
    case DeviceFault::group_ends:
      return "group_ends: found ends that decrease, lie beyond the rows given or are no multiple "
             "of what is needed";
    case DeviceFault::indices: return "indices: an entry lies outside the rows given";
    case DeviceFault::named_twice: return "indices: a row is named twice, needs distinct rows";
    case DeviceFault::counts:
      return "counts: found negative ones, or more rows than the output has";
    case DeviceFault::padded_starts: return "padded_starts: a group lies outside the rows given";
    case DeviceFault::scale_rows: return "scales: the groups have more blocks than rows of scales";
    case DeviceFault::scales: return "scales: an entry is no power of two";
    default: return "a kernel reported a fault";
  }
}

/// Lets this thread do what is no part of a graph that a stream of the caller's records.
class Unrecorded {
 public:
  Unrecorded() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Unrecorded() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

DeviceBackend::DeviceBackend(int device, std::optional<cudaStream_t> stream)
    : device_(device), owns_stream_(!stream), name_("cuda:" + std::to_string(device)) {
  require_ieee_arithmetic();
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  if (device < 0 || device >= devices) {
    throw Error(Fault::unsupported, "cuda: device " + std::to_string(device) +
                                        " is not available; this machine has " +
                                        std::to_string(devices));
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  if (properties.major < kLeastMajor) {
    throw Error(Fault::unsupported, name_ + ": " + properties.name + " has compute capability " +
                                        std::to_string(properties.major) + "." +
                                        std::to_string(properties.minor) +
                                        ", this build needs 9.0 or newer");
  }
  multiprocessors_ = properties.multiProcessorCount;
  check(cudaSetDevice(device), "cudaSetDevice");
  if (stream) {
    stream_ = *stream;
  } else {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  const Unrecorded apart_from_graphs;
  // Memory that is released stays with the process: a layer asks for the same sizes again.
  cudaMemPool_t pool = nullptr;
  std::uint64_t keep = UINT64_MAX;
  check(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
        "cudaMemPoolSetAttribute");
  check(cudaMalloc(&status_, sizeof *status_), "cudaMalloc");
  check(cudaMallocHost(&status_host_, sizeof *status_host_), "cudaMallocHost");
  cudaStream_t apart = nullptr;
  check(cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaMemsetAsync(status_, 0, sizeof *status_, apart), "cudaMemsetAsync");
  check(cudaStreamSynchronize(apart), "cudaStreamSynchronize");
  check(cudaStreamDestroy(apart), "cudaStreamDestroy");
}

DeviceBackend::~DeviceBackend() {
  cudaSetDevice(device_);
  if (owns_stream_) cudaStreamSynchronize(stream_);  // another's may be gone
  for (std::byte* const block : small_.all()) cudaFree(block);
  cudaFree(status_);
  cudaFreeHost(status_host_);
  if (owns_stream_) cudaStreamDestroy(stream_);
}

std::unique_ptr<Backend> DeviceBackend::for_rank(int rank) const {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  return std::make_unique<DeviceBackend>((device_ + rank) % devices);
}

cudaStream_t DeviceBackend::stream() const {
  check(cudaSetDevice(device_), "cudaSetDevice");
  return stream_;
}

std::byte* DeviceBackend::allocate(std::size_t bytes) {
  const bool small = bytes <= kSmallBytes && !recording();
  const std::size_t size = std::bit_ceil(std::max<std::size_t>(bytes, 1));  // of an empty one, too
  if (small) {
    if (std::byte* const kept = small_.take(size)) return kept;
  }
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, small ? size : std::max<std::size_t>(bytes, 1), stream()),
        "cudaMallocAsync of " + std::to_string(bytes) + " bytes");
  if (small) small_.own(static_cast<std::byte*>(memory), size);
  return static_cast<std::byte*>(memory);
}

void DeviceBackend::release(std::byte* memory) noexcept {
  if (small_.give_back(memory)) return;
  cudaSetDevice(device_);
  cudaFreeAsync(memory, stream_);
}

bool DeviceBackend::recording() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

void DeviceBackend::upload(std::byte* to, const std::byte* from_host, std::size_t bytes) {
  if (recording()) {
    throw Error(Fault::unsupported, name_ +
                                        ": found an operand on the host while its stream records "
                                        "a graph, needs operands on the device");
  }
  check(cudaMemcpyAsync(to, from_host, bytes, cudaMemcpyHostToDevice, stream()),
        "cudaMemcpyAsync to the device");
}

void DeviceBackend::download(std::byte* to_host, const std::byte* from, std::size_t bytes) {
  synchronize();
  check(cudaMemcpyAsync(to_host, from, bytes, cudaMemcpyDeviceToHost, stream()),
        "cudaMemcpyAsync from the device");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

void DeviceBackend::fill_zero(std::byte* memory, std::size_t bytes) {
  check(cudaMemsetAsync(memory, 0, bytes, stream()), "cudaMemsetAsync");
}

void DeviceBackend::synchronize() {
  check(cudaMemcpyAsync(status_host_, status_, sizeof *status_, cudaMemcpyDeviceToHost, stream()),
        "cudaMemcpyAsync of the status");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  const auto found = static_cast<DeviceFault>(*status_host_);
  if (found == DeviceFault::none) return;
  check(cudaMemsetAsync(status_, 0, sizeof *status_, stream_), "cudaMemsetAsync");
  throw Error(Fault::shape, name_ + ": " + words_of(found));
}

}  // namespace mxo::cuda

namespace mxo {

std::string why_no_cuda() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return "";
  cudaGetLastError();
  return status == cudaSuccess ? "no CUDA device on this machine" : cudaGetErrorString(status);
}

std::vector<std::string> cuda_devices() {
  std::vector<std::string> names;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess) {
    cudaGetLastError();
    return names;
  }
  for (int d = 0; d < devices; ++d) {
    cudaDeviceProp properties{};
    cuda::check(cudaGetDeviceProperties(&properties, d), "cudaGetDeviceProperties");
    names.emplace_back(properties.name);
  }
  return names;
}

std::unique_ptr<Backend> make_cuda_backend(int device, std::optional<std::uintptr_t> stream) {
  std::optional<cudaStream_t> theirs;
  if (stream) theirs = reinterpret_cast<cudaStream_t>(*stream);
  return std::make_unique<cuda::DeviceBackend>(device, theirs);
}

}  // namespace mxo
