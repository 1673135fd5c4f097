// The device's memory-bound operators against a device-to-device copy of the same bytes in the same
// run: CUDA events, warmed, median.  Prints a table; exits 2 where there is no device.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "emu/cuda/cuda_backend.h"
#include "emu/cuda/device_backend.cuh"
#include "ops/backend_tensor.h"
#include "ops/combine_rows.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "ops/quantize.h"
#include "ops/quantize_f32_scales.h"
#include "ops/scale_layouts.h"
#include "ops/swiglu.h"

namespace mxo::bench {
namespace {

constexpr int kTimes = 21;
constexpr std::size_t kFlushed = std::size_t{128} << 20;  // more than the second cache holds

class Timer {
 public:
  explicit Timer(cuda::DeviceBackend& backend)
      : stream_(backend.stream()), backend_(backend), flush_(backend.allocate(kFlushed)) {
    cudaEventCreate(&start_);
    cudaEventCreate(&stop_);
  }
  ~Timer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
    backend_.release(flush_);
  }

  /// Median milliseconds of `work`, the caches flushed before each call.
  double median(const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < kTimes + 3; ++i) {
      backend_.fill_zero(flush_, kFlushed);
      cudaEventRecord(start_, stream_);
      work();
      cudaEventRecord(stop_, stream_);
      cudaEventSynchronize(stop_);
      float ms = 0;
      cudaEventElapsedTime(&ms, start_, stop_);
      if (i >= 3) times.push_back(ms);
    }
    backend_.synchronize();
    std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
    return times[kTimes / 2];
  }
  /// Milliseconds of a copy that reads and writes `bytes` in all.
  double copy(std::size_t bytes) {
    std::byte* from = backend_.allocate(bytes / 2 + 1);
    std::byte* to = backend_.allocate(bytes / 2 + 1);
    const double ms =
        median([&] { cudaMemcpyAsync(to, from, bytes / 2, cudaMemcpyDeviceToDevice, stream_); });
    backend_.release(from);
    backend_.release(to);
    return ms;
  }

 private:
  cudaStream_t stream_;
  cuda::DeviceBackend& backend_;
  std::byte* flush_;
  cudaEvent_t start_;
  cudaEvent_t stop_;
};

std::size_t bytes_of(const Operand& t) {
  return static_cast<std::size_t>(t.elements()) * size_of(t.dtype);
}

class Table {
 public:
  explicit Table(cuda::DeviceBackend& backend) : backend_(backend), timer_(backend) {}

  /// `bytes`: all that must be read and written once.
  void row(const std::string& name, std::size_t bytes, const std::function<void()>& work) {
    const double ms = timer_.median(work);
    const double copy = timer_.copy(bytes);
    std::printf("%-58s %9.1f us %8.1f GB/s %6.1f %% of copy\n", name.c_str(), ms * 1e3,
                static_cast<double>(bytes) / ms / 1e6, 100.0 * copy / ms);
    std::fflush(stdout);
  }

 private:
  cuda::DeviceBackend& backend_;
  Timer timer_;
};

std::string shaped(Index rows, Index columns) {
  return std::string("(") + std::to_string(rows) + ", " + std::to_string(columns) + ")";
}

/// A tensor of bf16 values near 1 of both signs, by the device's own memory set.
BackendTensor values(cuda::DeviceBackend& backend, Dtype dtype,
                     std::initializer_list<Index> shape) {
  BackendTensor t(backend, dtype, shape);
  const std::size_t bytes = bytes_of(t.operand());
  std::vector<std::uint16_t> pattern(1 << 20);
  std::uint32_t state = 1;
  for (auto& word : pattern) {
    state = state * 1664525u + 1013904223u;
    word = static_cast<std::uint16_t>((state >> 16 & 0x80FFu) | 0x3F00u);
  }
  auto* to = static_cast<std::byte*>(t.result().data);
  for (std::size_t at = 0; at < bytes; at += pattern.size() * 2) {
    backend.upload(to + at, reinterpret_cast<const std::byte*>(pattern.data()),
                   std::min(pattern.size() * 2, bytes - at));
  }
  return t;
}

BackendTensor words(cuda::DeviceBackend& backend, const std::vector<std::int32_t>& given) {
  BackendTensor t(backend, Dtype::i32, {static_cast<Index>(given.size())});
  backend.upload(static_cast<std::byte*>(t.result().data),
                 reinterpret_cast<const std::byte*>(given.data()), given.size() * 4);
  return t;
}

std::vector<std::int32_t> even_ends(Index groups, Index rows) {
  std::vector<std::int32_t> ends;
  for (Index g = 0; g < groups; ++g) {
    const Index end = rows * (g + 1) / groups;
    ends.push_back(static_cast<std::int32_t>(g + 1 < groups ? end - end % 7 : rows));
  }
  return ends;
}

void quantisers(cuda::DeviceBackend& backend, Table& table, Index rows, Index width) {
  const BackendTensor x = values(backend, Dtype::bf16, {rows, width});
  BackendTensor codes(backend, Dtype::e4m3, {rows, width});
  BackendTensor scales(backend, Dtype::e8m0, {rows, width / 32});
  BackendTensor blocked(backend, Dtype::e8m0, {blocked_bytes(rows, width / 32)});
  const std::size_t bytes =
      bytes_of(x.operand()) + bytes_of(codes.operand()) + bytes_of(scales.operand());
  const std::string shape = shaped(rows, width);
  Quantize op;
  op.x = x.operand();
  op.codes = codes.result();
  op.scales = scales.result();
  table.row("quantize e4m3 axis -1 " + shape, bytes, [&] { quantize(backend, op); });
  op.mode = ScaleMode::floor;
  table.row("quantize e4m3 axis -1 floor " + shape, bytes, [&] { quantize(backend, op); });
  op.mode = ScaleMode::rceil;
  op.storage = ScaleStorage::blocked;
  op.scales = blocked.result();
  table.row("quantize e4m3 axis -1, blocked scales " + shape, bytes,
            [&] { quantize(backend, op); });
  op.storage = ScaleStorage::row_major;
  op.axis = BlockAxis::rows;
  Result turned = codes.result();
  turned.extent[0] = width;
  turned.extent[1] = rows;
  turned.stride[0] = rows;
  op.codes = transposed(turned);
  Result turned_scales = scales.result();
  turned_scales.extent[0] = width;
  turned_scales.extent[1] = rows / 32;
  turned_scales.stride[0] = rows / 32;
  op.scales = transposed(turned_scales);
  table.row("quantize e4m3 axis -2, transposed " + shape, bytes, [&] { quantize(backend, op); });
  op.codes = codes.result();
  Result in_place = scales.result();
  in_place.extent[0] = rows / 32;
  in_place.extent[1] = width;
  in_place.stride[0] = width;
  op.scales = in_place;
  table.row("quantize e4m3 axis -2 " + shape, bytes, [&] { quantize(backend, op); });
  BackendTensor back(backend, Dtype::bf16, {rows, width});
  table.row("dequantize axis -1 " + shape, bytes, [&] {
    dequantize(backend, {codes.operand(), scales.operand(), back.result()});
  });
  BackendTensor row_scales(backend, Dtype::f32, {rows});
  table.row("quantize_rowwise " + shape, bytes, [&] {
    quantize_rowwise(backend, {x.operand(), {}, codes.result(), row_scales.result()});
  });
  BackendTensor tile_scales(backend, Dtype::f32, {rows, width / 128});
  table.row("quantize_blockwise 1x128 " + shape, bytes, [&] {
    quantize_blockwise(backend, {x.operand(), {}, codes.result(), tile_scales.result()});
  });
}

void movement(cuda::DeviceBackend& backend, Table& table, Index tokens, Index width, Index groups) {
  const BackendTensor x = values(backend, Dtype::bf16, {tokens, width});
  const Index padded = padded_rows(tokens, groups, 32);
  BackendTensor y(backend, Dtype::bf16, {padded, width});
  BackendTensor starts(backend, Dtype::i32, {groups});
  BackendTensor ends_out(backend, Dtype::i32, {groups});
  const BackendTensor ends = words(backend, even_ends(groups, tokens));
  const std::size_t bytes = bytes_of(x.operand()) + bytes_of(y.operand());
  const std::string shape = shaped(tokens, width) + ", " + std::to_string(groups) + " groups";
  table.row("pad_groups " + shape, bytes, [&] {
    pad_groups(backend,
               {x.operand(), ends.operand(), y.result(), starts.result(), ends_out.result()});
  });
  BackendTensor back(backend, Dtype::bf16, {tokens, width});
  table.row("unpad_groups " + shape, 2 * bytes_of(x.operand()), [&] {
    unpad_groups(backend, {y.operand(), ends.operand(), starts.operand(), back.result()});
  });
  std::vector<std::int32_t> order(static_cast<std::size_t>(tokens));
  for (Index i = 0; i < tokens; ++i) {
    order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 48271 % tokens);
  }
  const BackendTensor indices = words(backend, order);
  table.row("permute " + shape, 2 * bytes_of(x.operand()), [&] {
    permute(backend, {x.operand(), indices.operand(), back.result()});
  });
  table.row("unpermute " + shape, 2 * bytes_of(x.operand()), [&] {
    unpermute(backend, {x.operand(), indices.operand(), back.result()});
  });
}

void layouts(cuda::DeviceBackend& backend, Table& table, Index rows, Index columns, Index groups) {
  const BackendTensor scales = values(backend, Dtype::e8m0, {rows, columns});
  for (const auto& [layout, name] :
       {std::pair{ScaleLayout::m_groups, "m_groups"}, std::pair{ScaleLayout::k_groups, "k_groups"},
        std::pair{ScaleLayout::per_group_3d, "per_group_3d"}}) {
    Operand from = scales.operand();
    std::vector<Index> shape = {rows, columns};
    if (layout == ScaleLayout::per_group_3d) {
      shape = {groups, rows / groups, columns};
      from.rank = 3;
      for (int i = 0; i < 3; ++i) from.extent[i] = shape[static_cast<std::size_t>(i)];
      from.stride[0] = rows / groups * columns;
      from.stride[1] = columns;
      from.stride[2] = 1;
    }
    const auto blocked = blocked_shape(layout, shape, groups);
    BackendTensor to(backend, Dtype::e8m0, blocked.data(), static_cast<int>(blocked.size()));
    const bool by_rows = layout == ScaleLayout::m_groups;
    const BackendTensor ends = words(backend, even_ends(groups, by_rows ? rows : columns));
    const bool grouped = layout != ScaleLayout::per_group_3d;
    table.row(std::string("swizzle_scales ") + name + " " + shaped(rows, columns) + ", " +
                  std::to_string(groups) + " groups",
              bytes_of(from) + bytes_of(to.operand()), [&] {
                swizzle_scales(backend,
                               {from, grouped ? ends.operand() : Operand{}, to.result(), layout});
              });
  }
}

void steps(cuda::DeviceBackend& backend, Table& table, Index rows, Index width) {
  const BackendTensor x = values(backend, Dtype::bf16, {rows, 2 * width});
  BackendTensor y(backend, Dtype::bf16, {rows, width});
  const std::string shape = shaped(rows, width);
  table.row("swiglu " + shape, bytes_of(x.operand()) + bytes_of(y.operand()), [&] {
    swiglu(backend, {x.operand(), {}, y.result()});
  });
  constexpr Index kSlots = 8;
  const Index tokens = rows / kSlots;
  std::vector<std::int32_t> order(static_cast<std::size_t>(rows));
  for (Index i = 0; i < rows; ++i) {
    order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 48271 % rows);
  }
  const BackendTensor slots = words(backend, order);
  Operand slot = slots.operand();
  slot.rank = 2;
  slot.extent[0] = tokens;
  slot.extent[1] = kSlots;
  slot.stride[0] = kSlots;
  slot.stride[1] = 1;
  BackendTensor out(backend, Dtype::bf16, {tokens, 2 * width});
  table.row("combine_rows, 8 slots " + shape, bytes_of(x.operand()) + bytes_of(out.operand()), [&] {
    combine_rows(backend, {x.operand(), slot, {}, out.result()});
  });
}

int run() {
  if (const std::string why = why_no_cuda(); !why.empty()) {
    std::fprintf(stderr, "cuda_memory_bench: %s\n", why.c_str());
    return 2;
  }
  cuda::DeviceBackend backend(0);
  Table table(backend);
  std::printf("%s\n", cuda_devices()[0].c_str());
  quantisers(backend, table, 131072, 7168);
  for (const Index tokens : {16384, 131072}) {
    for (const Index width : {1536, 2048, 5120, 7168}) {
      for (const Index groups : {1, 16}) {
        if (tokens == 16384 && width != 1536 && width != 7168) continue;
        movement(backend, table, tokens, width, groups);
      }
    }
  }
  layouts(backend, table, 131072 * 8, 224, 8);
  layouts(backend, table, 131072, 224, 8);
  steps(backend, table, 131072, 2048);
  return 0;
}

}  // namespace
}  // namespace mxo::bench

int main() { return mxo::bench::run(); }
