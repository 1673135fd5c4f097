// The device's memory-bound operators against a device-to-device copy of the same bytes in the same
// run: CUDA events, warmed, median.  Prints a table; exits 2 where there is no device.
//   cuda_memory_bench [--check]     with it every byte of every row is compared with cpu's
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/host_twin.cuh"
#include "emu/backends.h"
#include "emu/cuda/cuda_backend.h"
#include "emu/cuda/device_backend.cuh"
#include "ops/backend_tensor.h"
#include "ops/combine_rows.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "ops/quantize.h"
#include "ops/scale_layouts.h"
#include "ops/swiglu.h"
#include "ops/swiglu_quantize.h"

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

class Table {
 public:
  Table(cuda::DeviceBackend& backend, bool check)
      : backend_(backend), timer_(backend), cpu_(check ? make_backend("cpu") : nullptr) {}

  /// `bytes`: all that must be read and written once.  on_host(twin) is the operator with its views
  /// taken over by the twin.
  template <typename Op, typename OnHost>
  void row(const std::string& name, std::size_t bytes, void (*run)(Backend&, const Op&),
           const Op& op, const OnHost& on_host) {
    const double ms = timer_.median([&] { run(backend_, op); });
    const double copy = timer_.copy(bytes);
    std::printf("%-58s %9.1f us %8.1f GB/s %6.1f %% of copy", name.c_str(), ms * 1e3,
                static_cast<double>(bytes) / ms / 1e6, 100.0 * copy / ms);
    if (cpu_ != nullptr) {
      HostTwin twin;
      const Op host = on_host(twin);
      cudaDeviceSynchronize();
      run(backend_, op);
      backend_.synchronize();
      run(*cpu_, host);
      const std::size_t differing = twin.differing();
      std::printf("   %zu bytes differ from cpu", differing);
      any_differ_ = any_differ_ || differing != 0;
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  bool any_differ() const { return any_differ_; }

 private:
  cuda::DeviceBackend& backend_;
  Timer timer_;
  std::unique_ptr<Backend> cpu_;
  bool any_differ_ = false;
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
  op.to.codes = codes.result();
  op.to.scales = scales.result();
  const auto timed = [&](const std::string& name) {
    table.row(name + shape, bytes, quantize, op, [&](HostTwin& twin) {
      Quantize host = op;
      host.x = twin.in(op.x);
      host.to.codes = twin.out(op.to.codes);
      host.to.scales = twin.out(op.to.scales);
      return host;
    });
  };
  timed("quantize e4m3 axis -1 ");
  op.rule.mode = ScaleMode::floor;
  timed("quantize e4m3 axis -1 floor ");
  op.rule.mode = ScaleMode::rceil;
  op.to.storage = ScaleStorage::blocked;
  op.to.scales = blocked.result();
  timed("quantize e4m3 axis -1, blocked scales ");
  op.to.storage = ScaleStorage::row_major;
  op.to.block = kMxRows;
  Result turned = codes.result();
  turned.extent[0] = width;
  turned.extent[1] = rows;
  turned.stride[0] = rows;
  op.to.codes = transposed(turned);
  Result turned_scales = scales.result();
  turned_scales.extent[0] = width;
  turned_scales.extent[1] = rows / 32;
  turned_scales.stride[0] = rows / 32;
  op.to.scales = transposed(turned_scales);
  timed("quantize e4m3 axis -2, transposed ");
  op.to.codes = codes.result();
  Result in_place = scales.result();
  in_place.extent[0] = rows / 32;
  in_place.extent[1] = width;
  in_place.stride[0] = width;
  op.to.scales = in_place;
  timed("quantize e4m3 axis -2 ");
  BackendTensor back(backend, Dtype::bf16, {rows, width});
  const Dequantize to_values{{codes.operand(), scales.operand(), kMxColumns}, {}, back.result()};
  table.row("dequantize axis -1 " + shape, bytes, dequantize, to_values, [&](HostTwin& twin) {
    return Dequantize{{twin.in(to_values.from.codes), twin.in(to_values.from.scales), kMxColumns},
                      {},
                      twin.out(to_values.x)};
  });
  const auto timed_f32 = [&](const std::string& name, const Result& f32_scales,
                             const BlockExtents& block, const F32ScaleRule& rule) {
    const Quantize with_f32{x.operand(), {}, {codes.result(), f32_scales, block}, f32_rule(rule)};
    table.row(name + shape, bytes, quantize, with_f32, [&](HostTwin& twin) {
      return Quantize{twin.in(with_f32.x),
                      {},
                      {twin.out(with_f32.to.codes), twin.out(with_f32.to.scales), block},
                      with_f32.rule};
    });
  };
  BackendTensor row_scales(backend, Dtype::f32, {rows, 1});
  timed_f32("quantize 1xK ", row_scales.result(), kWholeRow, kTorchaoRowwise);
  BackendTensor tile_scales(backend, Dtype::f32, {rows, width / 128});
  timed_f32("quantize 1x128 ", tile_scales.result(), kRowBlock, kTorchaoBlockwise);
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
  const PadGroups pad{x.operand(), ends.operand(), y.result(), starts.result(), ends_out.result()};
  table.row("pad_groups " + shape, bytes, pad_groups, pad, [&](HostTwin& twin) {
    return PadGroups{twin.in(pad.x), twin.in(pad.group_ends), twin.out(pad.y),
                     twin.out(pad.padded_starts), twin.out(pad.padded_ends)};
  });
  BackendTensor back(backend, Dtype::bf16, {tokens, width});
  const UnpadGroups unpad{y.operand(), ends.operand(), starts.operand(), back.result()};
  table.row("unpad_groups " + shape, 2 * bytes_of(x.operand()), unpad_groups, unpad,
            [&](HostTwin& twin) {
              return UnpadGroups{twin.in(unpad.y), twin.in(unpad.group_ends),
                                 twin.in(unpad.padded_starts), twin.out(unpad.x)};
            });
  std::vector<std::int32_t> order(static_cast<std::size_t>(tokens));
  for (Index i = 0; i < tokens; ++i) {
    order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i * 48271 % tokens);
  }
  const BackendTensor indices = words(backend, order);
  const Permute there{x.operand(), indices.operand(), back.result()};
  table.row("permute " + shape, 2 * bytes_of(x.operand()), permute, there, [&](HostTwin& twin) {
    return Permute{twin.in(there.x), twin.in(there.indices), twin.out(there.y)};
  });
  const Unpermute again{x.operand(), indices.operand(), back.result()};
  table.row("unpermute " + shape, 2 * bytes_of(x.operand()), unpermute, again, [&](HostTwin& twin) {
    return Unpermute{twin.in(again.y), twin.in(again.indices), twin.out(again.x)};
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
    const SwizzleScales op{from, grouped ? ends.operand() : Operand{}, to.result(), layout};
    table.row(std::string("swizzle_scales ") + name + " " + shaped(rows, columns) + ", " +
                  std::to_string(groups) + " groups",
              bytes_of(from) + bytes_of(to.operand()), swizzle_scales, op, [&](HostTwin& twin) {
                return SwizzleScales{twin.in(op.scales), twin.in(op.group_ends),
                                     twin.out(op.blocked), layout};
              });
  }
}

void steps(cuda::DeviceBackend& backend, Table& table, Index rows, Index width) {
  const BackendTensor x = values(backend, Dtype::bf16, {rows, 2 * width});
  BackendTensor y(backend, Dtype::bf16, {rows, width});
  const std::string shape = shaped(rows, width);
  const Swiglu gate{x.operand(), {}, y.result()};
  table.row("swiglu " + shape, bytes_of(x.operand()) + bytes_of(y.operand()), swiglu, gate,
            [&](HostTwin& twin) {
              return Swiglu{twin.in(gate.x), {}, twin.out(gate.y)};
            });
  BackendTensor codes(backend, Dtype::e4m3, {rows, width});
  BackendTensor scales(backend, Dtype::e8m0, {rows, width / 32});
  for (const Dtype rounding : {Dtype::f32, Dtype::bf16}) {
    const SwigluQuantize cast{
        x.operand(), {}, {}, rounding, {codes.result(), scales.result(), kMxColumns}};
    table.row(std::string("swiglu_quantize, y in ") + std::string(name_of(rounding)) + " " + shape,
              bytes_of(x.operand()) + bytes_of(codes.operand()) + bytes_of(scales.operand()),
              swiglu_quantize, cast, [&](HostTwin& twin) {
                return SwigluQuantize{
                    twin.in(cast.x),
                    {},
                    {},
                    rounding,
                    {twin.out(cast.to.codes), twin.out(cast.to.scales), kMxColumns}};
              });
  }
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
  const CombineRows sum{x.operand(), slot, {}, out.result()};
  table.row("combine_rows, 8 slots " + shape, bytes_of(x.operand()) + bytes_of(out.operand()),
            combine_rows, sum, [&](HostTwin& twin) {
              return CombineRows{twin.in(sum.rows), twin.in(sum.slots), {}, twin.out(sum.out)};
            });
}

int run(bool check) {
  if (const std::string why = why_no_cuda(); !why.empty()) {
    std::fprintf(stderr, "cuda_memory_bench: %s\n", why.c_str());
    return 2;
  }
  cuda::DeviceBackend backend(0);
  Table table(backend, check);
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
  return table.any_differ() ? 1 : 0;
}

}  // namespace
}  // namespace mxo::bench

int main(int argc, char** argv) {
  return mxo::bench::run(argc > 1 && std::strcmp(argv[1], "--check") == 0);
}
