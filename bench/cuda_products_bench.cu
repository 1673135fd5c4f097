// Products on the device at one layer shape: the exact sum and sums of the card's own instruction.
// CUDA events, warmed, operands larger than the second cache, median of runs.  Results are first
// compared with cpu on the first rows of every group.  Prints a table; arguments M K N E, default
// 131072 7168 2048 8, and a part of the names of rows.  rival_torch.py times torch on that shape.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "emu/backends.h"
#include "emu/cuda/cuda_backend.h"
#include "emu/cuda/device_backend.cuh"
#include "formats/tensor.h"
#include "ops/backend_tensor.h"
#include "ops/grouped_matmul.h"
#include "ops/quantize.h"

namespace mxo::bench {
namespace {

constexpr int kTimes = 7;
constexpr Index kChecked = 8;  ///< rows of each group

double median_ms(cuda::DeviceBackend& backend, const std::function<void()>& work) {
  cudaEvent_t start{};
  cudaEvent_t stop{};
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  std::vector<float> times;
  for (int i = 0; i < kTimes + 1; ++i) {
    cudaEventRecord(start, backend.stream());
    work();
    cudaEventRecord(stop, backend.stream());
    cudaEventSynchronize(stop);
    float ms = 0;
    cudaEventElapsedTime(&ms, start, stop);
    if (i > 0) times.push_back(ms);
  }
  backend.synchronize();
  std::nth_element(times.begin(), times.begin() + kTimes / 2, times.end());
  return times[kTimes / 2];
}

/// Normal numbers, rows of a block of `kRows` again and again on the device.
struct Matrix {
  static constexpr Index kRows = 512;
  Tensor host_codes;   ///< [kRows, K]
  Tensor host_scales;  ///< e8m0 [kRows, K/32]; bf16 has none
  BackendTensor codes;
  BackendTensor scales;
};

void repeat(Backend& backend, const Tensor& from, BackendTensor& to) {
  auto* at = static_cast<std::byte*>(to.result().data);
  const auto bytes = static_cast<std::size_t>(to.operand().elements()) * size_of(from.dtype());
  for (std::size_t i = 0; i < bytes; i += from.bytes()) {
    backend.upload(at + i, from.data(), std::min(from.bytes(), bytes - i));
  }
}

Matrix matrix(Backend& backend, Backend& cpu, bool mx, Index lines, Index k, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  Tensor values(Dtype::bf16, {Matrix::kRows, k});
  for (Index i = 0; i < values.elements(); ++i)
    values.as<BF16>()[i] = from_float<BF16>(draw(random));
  Matrix m{std::move(values), Tensor(Dtype::e8m0, {Matrix::kRows, k / 32}), {}, {}};
  if (mx) {
    Tensor codes(Dtype::e4m3, {Matrix::kRows, k});
    Quantize quantize_rows;
    quantize_rows.x = m.host_codes.operand();
    quantize_rows.codes = codes.result();
    quantize_rows.scales = m.host_scales.result();
    quantize(cpu, quantize_rows);
    m.host_codes = std::move(codes);
    m.scales = BackendTensor(backend, Dtype::e8m0, {lines, k / 32});
    repeat(backend, m.host_scales, m.scales);
  }
  m.codes = BackendTensor(backend, m.host_codes.dtype(), {lines, k});
  repeat(backend, m.host_codes, m.codes);
  return m;
}

Operand grouped(Operand flat, Index groups) {
  Operand w = flat;
  w.rank = 3;
  w.extent[0] = groups;
  w.extent[1] = flat.extent[0] / groups;
  w.extent[2] = flat.extent[1];
  w.stride[0] = w.extent[1] * flat.stride[0];
  w.stride[1] = flat.stride[0];
  w.stride[2] = 1;
  return w;
}

struct Bench {
  Index m, k, n, groups;
  std::string only;  ///< what the names of rows to run have in them
  cuda::DeviceBackend device{0};
  std::unique_ptr<Backend> cpu = make_backend("cpu");

  /// One row of the table.
  void row(const char* name, Scaling scaling, bool mx_codes, const Accumulation& sum, Dtype out) {
    if (std::string(name).find(only) == std::string::npos) return;
    Matrix x = matrix(device, *cpu, mx_codes, m, k, 1);
    Matrix w = matrix(device, *cpu, mx_codes, groups * n, k, 2);
    std::vector<std::int32_t> ends;
    for (Index g = 1; g <= groups; ++g) ends.push_back(static_cast<std::int32_t>(m / groups * g));
    BackendTensor group_ends(device, Dtype::i32, {groups});
    device.upload(static_cast<std::byte*>(group_ends.result().data),
                  reinterpret_cast<const std::byte*>(ends.data()), ends.size() * 4);
    BackendTensor y(device, out, {m, n});
    BackendTensor ones(device, Dtype::f32, {m + groups * n});
    const std::vector<float> filled(static_cast<std::size_t>(m + groups * n), 1.0f);
    device.upload(static_cast<std::byte*>(ones.result().data),
                  reinterpret_cast<const std::byte*>(filled.data()), filled.size() * 4);
    GroupedMatmul op;
    op.x = x.codes.operand();
    op.w = grouped(w.codes.operand(), groups);
    op.scaling = scaling;
    op.sum = sum;
    op.group_ends = group_ends.operand();
    op.y = y.result();
    if (scaling == Scaling::mx) {
      op.x_scales = x.scales.operand();
      op.w_scales = grouped(w.scales.operand(), groups);
    }
    if (scaling == Scaling::rowwise) {
      op.x_scales = ones.operand();
      op.x_scales.extent[0] = m;
      op.w_scales = ones.operand();
      op.w_scales.rank = 2;
      op.w_scales.extent[0] = groups;
      op.w_scales.extent[1] = n;
      op.w_scales.stride[0] = n;
      op.w_scales.stride[1] = 1;
    }
    grouped_matmul(device, op);
    device.synchronize();
    const Index wrong = differing(op, x, w, ends);
    const double ms = median_ms(device, [&] { grouped_matmul(device, op); });
    const double flop =
        2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
    std::printf("%-44s %9.3f ms %8.1f TFLOP/s   %lld differ from cpu\n", name, ms, flop / ms / 1e9,
                static_cast<long long>(wrong));
    std::fflush(stdout);
  }

  /// Outputs of the first rows of every group that differ from cpu's.
  Index differing(const GroupedMatmul& op, const Matrix& x, const Matrix& w,
                  const std::vector<std::int32_t>& ends) {
    const Index rows = std::min(kChecked, m / groups);
    Tensor wide(op.w.dtype, {n, k});
    Tensor wide_scales(Dtype::e8m0, {n, k / 32});
    Tensor expected(op.y.dtype, {rows, n});
    Index count = 0;
    for (Index g = 0; g < groups; ++g) {
      const Index start = g == 0 ? 0 : ends[static_cast<std::size_t>(g - 1)];
      fill(wide, w.host_codes, g * n);
      fill(wide_scales, w.host_scales, g * n);
      Tensor lines(op.x.dtype, {rows, k});
      Tensor lines_scales(Dtype::e8m0, {rows, k / 32});
      fill(lines, x.host_codes, start);
      fill(lines_scales, x.host_scales, start);
      GroupedMatmul part = op;
      const auto end = static_cast<std::int32_t>(rows);
      std::vector<float> filled(static_cast<std::size_t>(rows + n), 1.0f);
      part.x = lines.operand();
      part.w = grouped(wide.operand(), 1);
      part.group_ends = Operand{&end, Dtype::i32, 1, {1}, {1}};
      part.y = expected.result();
      if (op.scaling == Scaling::mx) {
        part.x_scales = lines_scales.operand();
        part.w_scales = grouped(wide_scales.operand(), 1);
      }
      if (op.scaling == Scaling::rowwise) {
        part.x_scales = Operand{filled.data(), Dtype::f32, 1, {rows}, {1}};
        part.w_scales = Operand{filled.data(), Dtype::f32, 2, {1, n}, {n, 1}};
      }
      grouped_matmul(*cpu, part);
      std::vector<std::byte> actual(expected.bytes());
      device.download(actual.data(),
                      static_cast<const std::byte*>(op.y.data) +
                          static_cast<std::size_t>(start * n) * size_of(op.y.dtype),
                      actual.size());
      const std::size_t size = size_of(op.y.dtype);
      for (std::size_t i = 0; i < actual.size(); i += size) {
        count += std::memcmp(actual.data() + i, expected.data() + i, size) != 0 ? 1 : 0;
      }
    }
    return count;
  }

  /// Lines first, first + 1, .. of a matrix that repeats.
  static void fill(Tensor& to, const Tensor& from, Index first) {
    const std::size_t line = from.bytes() / Matrix::kRows;
    if (to.dtype() != from.dtype() || line == 0) return;
    for (std::size_t i = 0; i < to.bytes() / line; ++i) {
      const std::size_t row = (static_cast<std::size_t>(first) + i) % Matrix::kRows;
      std::memcpy(to.data() + i * line, from.data() + row * line, line);
    }
  }
};

}  // namespace
}  // namespace mxo::bench

int main(int argc, char** argv) {
  using namespace mxo;
  const auto argument = [&](int i, Index otherwise) {
    return argc > i ? static_cast<Index>(std::atoll(argv[i])) : otherwise;
  };
  if (const std::string why = why_no_cuda(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 2;
  }
  bench::Bench bench{argument(1, 131072), argument(2, 7168), argument(3, 2048), argument(4, 8),
                     argc > 5 ? argv[5] : ""};
  std::printf("products, M %lld, K %lld, N %lld, E %lld\n", static_cast<long long>(bench.m),
              static_cast<long long>(bench.k), static_cast<long long>(bench.n),
              static_cast<long long>(bench.groups));
  const auto fp8 = OperandKind::fp8;
  bench.row("exact, e4m3 + e8m0 -> bf16", Scaling::mx, true, kExact, Dtype::bf16);
  bench.row("exact, e4m3 + e8m0 -> f32", Scaling::mx, true, kExact, Dtype::f32);
  bench.row("exact, bf16 -> bf16", Scaling::none, false, kExact, Dtype::bf16);
  bench.row("exact, e4m3 row-wise -> bf16", Scaling::rowwise, true, kExact, Dtype::bf16);
  bench.row("h200_wgmma_fast, e4m3 row-wise -> bf16", Scaling::rowwise, true,
            sum_named("h200_wgmma_fast", fp8), Dtype::bf16);
  bench.row("h200_wgmma_promote4, e4m3 row-wise -> bf16", Scaling::rowwise, true,
            sum_named("h200_wgmma_promote4", fp8), Dtype::bf16);
  bench.row("h200_wgmma_fast, bf16 -> bf16", Scaling::none, false,
            sum_named("h200_wgmma_fast", OperandKind::bf16), Dtype::bf16);
  bench.row("h200_wgmma_fast, e4m3 + e8m0 -> bf16", Scaling::mx, true,
            sum_named("h200_wgmma_fast", OperandKind::mx), Dtype::bf16);
}
