// encode and decode: runs of elements over threads.
#include "ops/convert.h"

#include <algorithm>

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/reference/elements.h"

namespace mxo::cpu {
namespace {

constexpr Index kRun = 4096;  // elements of one step; a strided operand is copied through the stack

void copy_element(std::byte* to, const std::byte* from, std::size_t size) {
  std::copy_n(from, size, to);
}

/// Calls kernel(from, n, to) on runs of adjacent elements that cover both operands.
template <typename Kernel>
void for_each_run(const Operand& from, const Result& to, int threads, Kernel kernel) {
  const Index n = from.elements();
  const std::size_t from_size = size_of(from.dtype);
  const std::size_t to_size = size_of(to.dtype);
  const auto* source = static_cast<const std::byte*>(from.data);
  auto* target = static_cast<std::byte*>(to.data);
  const bool copies_from = !from.contiguous();
  const bool copies_to = !to.contiguous();
  const Index runs = ceil_div(n, kRun);
  const auto team = static_cast<int>(std::clamp<Index>(runs / 4, 1, threads));
#pragma omp parallel for num_threads(team) schedule(static) firstprivate(ieee_thread)
  for (Index run = 0; run < runs; ++run) {
    alignas(64) std::byte read[kRun * 4];
    alignas(64) std::byte written[kRun * 4];
    const Index first = run * kRun;
    const Index count = std::min(kRun, n - first);
    const std::byte* x = source + static_cast<std::size_t>(first) * from_size;
    std::byte* y = target + static_cast<std::size_t>(first) * to_size;
    if (copies_from) {
      for (Index i = 0; i < count; ++i) {
        copy_element(read + static_cast<std::size_t>(i) * from_size,
                     source + offset_of(from, first + i) * static_cast<Index>(from_size),
                     from_size);
      }
      x = read;
    }
    if (copies_to) y = written;
    kernel(x, count, y);
    for (Index i = 0; copies_to && i < count; ++i) {
      copy_element(target + offset_of(to, first + i) * static_cast<Index>(to_size),
                   written + static_cast<std::size_t>(i) * to_size, to_size);
    }
  }
}

}  // namespace

void CpuBackend::run(const Encode& op) {
  if (op.codes.dtype == Dtype::e8m0) {
    const ScaleKernel& kernel = encode_kernels(isa()).scales[input_index(op.x.dtype)];
    for_each_run(op.x, op.codes, threads(), [&](const std::byte* from, Index n, std::byte* to) {
      kernel.run(from, n, op.rounding, op.overflow, reinterpret_cast<std::uint8_t*>(to));
    });
    return;
  }
  const EncodeKernel& kernel =
      encode_kernels(isa()).encode[format_index(op.codes.dtype)][input_index(op.x.dtype)];
  for_each_run(op.x, op.codes, threads(), [&](const std::byte* from, Index n, std::byte* to) {
    kernel.run(from, n, op.overflow, op.nan, reinterpret_cast<std::uint8_t*>(to));
  });
}

void CpuBackend::run(const Decode& op) {
  if (op.codes.dtype == Dtype::e8m0) {
    for_each_run(op.codes, op.x, threads(), [](const std::byte* from, Index n, std::byte* to) {
      const auto* codes = reinterpret_cast<const E8M0*>(from);
      auto* x = reinterpret_cast<float*>(to);
      for (Index i = 0; i < n; ++i) x[i] = decode(codes[i]);
    });
    return;
  }
  const DecodeKernel& kernels = decode_kernels(isa()).to[format_index(op.codes.dtype)][0];
  for_each_run(op.codes, op.x, threads(), [&](const std::byte* from, Index n, std::byte* to) {
    kernels.run(reinterpret_cast<const std::uint8_t*>(from), n, 1.0f, to);
  });
}

}  // namespace mxo::cpu
