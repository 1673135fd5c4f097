// Products on the device at one layer shape: the exact sum and sums of the card's own instruction.
// CUDA events, warmed, operands larger than the second cache, median of runs.  Results are
// compared with cpu on the first rows of every group.  Prints a table; arguments M K N E, default
// 131072 7168 2048 8, a part of the names of rows, and how many rows of a group are compared (8; of
// wgrad eight times as many columns).  rival_torch.py times torch on that shape.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "emu/backends.h"
#include "emu/cuda/cuda_backend.h"
#include "emu/cuda/device_backend.cuh"
#include "formats/tensor.h"
#include "ops/backend_tensor.h"
#include "ops/grouped_matmul.h"
#include "ops/linear_factor.h"

namespace mxo::bench {
namespace {

constexpr int kTimes = 7;

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

/// Data: normal deviates, and what is harder on a sum.
enum class Style {
  normal,
  spread,      ///< blocks of 32 times 2^-20 to 2^20
  outliers,    ///< one in a thousand times 1024
  cancelling,  ///< the second half of K nearly undoes the first
  subnormal,   ///< one in 32 times 2^15: in a block's codes the others are subnormal
  swiglu,      ///< x as SwiGLU makes it, silu(g) u of normal g and u of deviation 1.7
};

/// Rows of `k`; `sign` of the second half where halves cancel.
__global__ void fill(BF16* x, Index count, Index k, unsigned seed, Style style, float sign) {
  for (Index i = blockIdx.x * Index{blockDim.x} + threadIdx.x; i < count;
       i += Index{gridDim.x} * blockDim.x) {
    const bool second = style == Style::cancelling && i % k >= k / 2;
    const auto place = static_cast<unsigned long long>(second ? i - k / 2 : i);
    unsigned long long bits = (place + 1) * 0x9E3779B97F4A7C15ull + seed;
    for (const unsigned long long factor : {0xBF58476D1CE4E5B9ull, 0x94D049BB133111EBull}) {
      bits = (bits ^ bits >> 29) * factor;
    }
    const float first = static_cast<float>((bits >> 40) + 1) * 0x1p-24f;
    const float angle = static_cast<float>(bits >> 8 & 0xFFFFFF) * 0x1p-24f;
    float factor = second ? sign * (1.0f + static_cast<float>(bits >> 3 & 1023) * 0x1p-14f) : 1.0f;
    if (style == Style::spread) {
      factor = exp2f(static_cast<float>((place / 32 * 0x9E3779B97F4A7C15ull + seed) >> 33) *
                         0x1p-31f * 40 -
                     20);
    }
    if (style == Style::outliers && (bits >> 5) % 1000 == 0) factor = 1024.0f;
    if (style == Style::subnormal && place % 32 == 0) factor = 32768.0f;
    const float radius = sqrtf(-2 * logf(first));
    const float normal = radius * cospif(2 * angle);
    const float gate = 1.7f * radius * sinpif(2 * angle);
    if (style == Style::swiglu) factor = 1.7f * gate / (1.0f + expf(-gate));
    x[i] = from_float<BF16>(normal * factor);
  }
}

/// `count` neighbours of a view from `first` on along an axis.
Operand part(Operand view, int axis, Index first, Index count) {
  view.data = static_cast<const std::byte*>(view.data) +
              first * view.stride[axis] * static_cast<Index>(size_of(view.dtype));
  view.extent[axis] = count;
  return view;
}

/// A copy on the host of a view of up to three axes, packed.
Tensor fetch(const Operand& view) {
  std::vector<Index> shape(view.extent, view.extent + view.rank);
  Tensor to(view.dtype, shape);
  const auto size = static_cast<std::size_t>(size_of(view.dtype));
  Operand wide = view;
  while (wide.rank < 3) {  // axes of one element in front
    for (int axis = wide.rank; axis > 0; --axis) {
      wide.extent[axis] = wide.extent[axis - 1];
      wide.stride[axis] = wide.stride[axis - 1];
    }
    wide.extent[0] = 1;
    wide.stride[0] = 0;
    ++wide.rank;
  }
  const bool runs = wide.stride[2] == 1;  // else the axis before does, as in a transposed weight
  const int outer = runs ? 1 : 2;
  const int inner = runs ? 2 : 1;
  const auto width = static_cast<std::size_t>(wide.extent[inner]) * size;
  std::vector<std::byte> plane(width * static_cast<std::size_t>(wide.extent[outer]));
  for (Index g = 0; g < wide.extent[0]; ++g) {
    const auto* from =
        static_cast<const std::byte*>(wide.data) + g * wide.stride[0] * static_cast<Index>(size);
    cudaMemcpy2D(plane.data(), width, from, static_cast<std::size_t>(wide.stride[outer]) * size,
                 width, static_cast<std::size_t>(wide.extent[outer]), cudaMemcpyDeviceToHost);
    std::byte* at = to.data() + static_cast<std::size_t>(g) * plane.size();
    for (Index i = 0; i < wide.extent[1]; ++i) {
      for (Index j = 0; j < wide.extent[2]; ++j) {
        const Index place = runs ? i * wide.extent[2] + j : j * wide.extent[1] + i;
        std::memcpy(at, plane.data() + static_cast<std::size_t>(place) * size, size);
        at += size;
      }
    }
  }
  return to;
}

Operand grouped(Operand flat, Index groups) {
  Operand w = flat;
  w.rank = flat.rank + 1;
  for (int axis = flat.rank; axis > 0; --axis) {
    w.extent[axis] = flat.extent[axis - 1];
    w.stride[axis] = flat.stride[axis - 1];
  }
  w.extent[0] = groups;
  w.extent[1] /= groups;
  w.stride[0] = w.extent[1] * w.stride[1];
  return w;
}

enum class Pass { forward, dgrad, wgrad };

struct Bench {
  Index m, k, n, groups;
  std::string only;  ///< what the names of rows to run have in them
  Index checked;     ///< rows of each group
  bool any_wrong = false;
  cuda::DeviceBackend device{0};
  std::unique_ptr<Backend> cpu = make_backend("cpu");
  BackendTensor x{};
  BackendTensor w{};
  BackendTensor dy{};
  BackendTensor group_ends{};

  /// Operands in bf16: x [M, K], w [E N, K], dy [M, N]; groups of the same size.
  void make(Style style) {
    unsigned seed = 0;
    const auto make_one = [&](BackendTensor& to, Index rows, Index columns, float sign) {
      to = BackendTensor(device, Dtype::bf16, {rows, columns});
      fill<<<1024, 256, 0, device.stream()>>>(static_cast<BF16*>(to.result().data), rows * columns,
                                              columns, ++seed, style, sign);
    };
    make_one(x, m, k, -1.0f);
    if (style == Style::swiglu) style = Style::normal;
    make_one(w, groups * n, k, 1.0f);
    make_one(dy, m, n, 1.0f);
    std::vector<std::int32_t> ends;
    for (Index g = 1; g <= groups; ++g) ends.push_back(static_cast<std::int32_t>(m / groups * g));
    group_ends = BackendTensor(device, Dtype::i32, {groups});
    device.upload(static_cast<std::byte*>(group_ends.result().data),
                  reinterpret_cast<const std::byte*>(ends.data()), ends.size() * 4);
  }

  /// A matrix as the product of `recipe` takes it, in its blocks along the rows' length or, within
  /// groups, along the columns'.
  OwnedScaledTensor scaled(const Operand& from, const LinearRecipe& recipe, bool along_rows,
                           const BlockExtents& along) {
    const BlockExtents block = along_rows ? along : BlockExtents{along.columns, along.rows};
    const Operand ends = block == kWholeColumn ? group_ends.operand() : Operand{};
    return quantized(device, from, ends, Dtype::e4m3, recipe.scale, block, recipe.rule);
  }

  /// One row of the table.
  void row(const char* name, Pass pass, const LinearRecipe& recipe, const Accumulation& sum,
           Dtype out) {
    if (std::string(name).find(only) == std::string::npos) return;
    pass == Pass::wgrad ? wgrad(name, recipe, sum, out) : forward(name, pass, recipe, sum, out);
  }

  void forward(const char* name, Pass pass, const LinearRecipe& recipe, const Accumulation& sum,
               Dtype out) {
    const bool back = pass == Pass::dgrad;  // dx = dy w: contracted over N
    const Operand rows = (back ? dy : x).operand();
    OwnedScaledTensor a;
    OwnedScaledTensor b;
    GroupedMatmul op;
    op.x = unscaled(rows);
    op.w = unscaled(grouped(w.operand(), groups));
    if (recipe.scaled()) {
      a = scaled(rows, recipe, true, recipe.tokens);
      b = scaled(w.operand(), recipe, !back, recipe.weight);
      op.x = a.view();
      op.w = {grouped(b.codes(), groups), grouped(b.scales(), groups), b.view().block};
    }
    if (back) op.w = transposed(op.w);
    const Index columns = op.w.codes.extent[1];
    BackendTensor y(device, out, {m, columns});
    op.sum = sum;
    op.group_ends = group_ends.operand();
    op.y = y.result();
    const auto run = [&] { grouped_matmul(device, op); };
    const double ms = median_ms(device, run);
    Index wrong = 0;
    const Index count = std::min(checked, m / groups);
    const auto end = static_cast<std::int32_t>(count);
    for (Index g = 0; g < groups; ++g) {
      const Index first = m / groups * g;
      const Tensor lines = fetch(part(op.x.codes, 0, first, count));
      const Tensor weight = fetch(part(op.w.codes, 0, g, 1));
      Tensor line_scales(Dtype::f32, {0});
      Tensor weight_scales(Dtype::f32, {0});
      Tensor expected(out, {count, columns});
      GroupedMatmul sample = op;
      sample.x.codes = lines.operand();
      sample.w.codes = weight.operand();
      if (recipe.scaled()) {
        line_scales = fetch(part(op.x.scales, 0, first, count));
        weight_scales = fetch(part(op.w.scales, 0, g, 1));
        sample.x.scales = line_scales.operand();
        sample.w.scales = weight_scales.operand();
      }
      sample.group_ends = Operand{&end, Dtype::i32, 1, {1}, {1}};
      sample.y = expected.result();
      grouped_matmul(*cpu, sample);
      wrong += differing(expected, fetch(part(y.operand(), 0, first, count)));
    }
    print(name, ms, wrong);
  }

  void wgrad(const char* name, const LinearRecipe& recipe, const Accumulation& sum, Dtype out) {
    OwnedScaledTensor a;
    OwnedScaledTensor b;
    GroupedMatmulWgrad op;
    op.dy = unscaled(dy.operand());
    op.x = unscaled(x.operand());
    if (recipe.scaled()) {
      a = scaled(dy.operand(), recipe, false, recipe.tokens);
      b = scaled(x.operand(), recipe, false, recipe.tokens);
      op.dy = a.view();
      op.x = b.view();
    }
    BackendTensor dw(device, out, {groups, n, k});
    op.sum = sum;
    op.group_ends = group_ends.operand();
    op.dw = dw.result();
    const double ms = median_ms(device, [&] { grouped_matmul_wgrad(device, op); });
    Index wrong = 0;
    const Index size = m / groups;
    const auto end = static_cast<std::int32_t>(size);
    const Index height = recipe.tokens.columns;
    const Index scale_rows = height == kWhole ? 1 : size / height;
    const Index rows = std::min(checked, n);
    const Index columns = std::min(8 * checked, k);
    for (Index g = 0; g < groups; ++g) {
      const auto sample_of = [&](const Operand& from, Index first, Index count, Index lines) {
        return fetch(part(part(from, 0, first, count), 1, 0, lines));
      };
      const Tensor of_dy = sample_of(op.dy.codes, size * g, size, rows);
      const Tensor of_x = sample_of(op.x.codes, size * g, size, columns);
      Tensor dy_scales(Dtype::f32, {0});
      Tensor x_scales(Dtype::f32, {0});
      Tensor expected(out, {1, rows, columns});
      GroupedMatmulWgrad sample = op;
      sample.dy.codes = of_dy.operand();
      sample.x.codes = of_x.operand();
      if (recipe.scaled()) {
        dy_scales = sample_of(op.dy.scales, scale_rows * g, scale_rows, rows);
        x_scales = sample_of(op.x.scales, scale_rows * g, scale_rows, columns);
        sample.dy.scales = dy_scales.operand();
        sample.x.scales = x_scales.operand();
      }
      sample.group_ends = Operand{&end, Dtype::i32, 1, {1}, {1}};
      sample.dw = expected.result();
      grouped_matmul_wgrad(*cpu, sample);
      wrong += differing(expected,
                         fetch(part(part(part(dw.operand(), 0, g, 1), 1, 0, rows), 2, 0, columns)));
    }
    print(name, ms, wrong);
  }

  /// Elements that differ.
  static Index differing(const Tensor& expected, const Tensor& actual) {
    const std::size_t size = size_of(expected.dtype());
    Index count = 0;
    for (std::size_t i = 0; i < expected.bytes(); i += size) {
      count += std::memcmp(expected.data() + i, actual.data() + i, size) != 0 ? 1 : 0;
    }
    return count;
  }

  void print(const char* name, double ms, Index wrong) {
    any_wrong = any_wrong || wrong != 0;
    const double flop =
        2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
    std::printf("%-44s %9.3f ms %8.1f TFLOP/s   %lld differ from cpu\n", name, ms, flop / ms / 1e9,
                static_cast<long long>(wrong));
    std::fflush(stdout);
  }
};

}  // namespace
}  // namespace mxo::bench

int main(int argc, char** argv) {
  using namespace mxo;
  using bench::Pass;
  using bench::Style;
  const auto argument = [&](int i, Index otherwise) {
    return argc > i ? static_cast<Index>(std::atoll(argv[i])) : otherwise;
  };
  if (const std::string why = why_no_cuda(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 2;
  }
  bench::Bench bench{argument(1, 131072), argument(2, 7168),       argument(3, 2048),
                     argument(4, 8),      argc > 5 ? argv[5] : "", argument(6, 8)};
  std::printf("products, M %lld, K %lld, N %lld, E %lld\n", static_cast<long long>(bench.m),
              static_cast<long long>(bench.k), static_cast<long long>(bench.n),
              static_cast<long long>(bench.groups));
  bench.make(Style::normal);
  const LinearRecipe& mx = linear_recipe_named("mxfp8_rceil");
  const LinearRecipe& none = linear_recipe_named("bf16");
  const LinearRecipe& rows = linear_recipe_named("fp8_rowwise");
  const LinearRecipe& blocks = linear_recipe_named("fp8_blockwise");
  bench.row("exact, e4m3 + e8m0 -> bf16", Pass::forward, mx, kExact, Dtype::bf16);
  bench.row("exact, e4m3 + e8m0 -> f32", Pass::forward, mx, kExact, Dtype::f32);
  bench.row("exact dgrad, e4m3 + e8m0 -> bf16", Pass::dgrad, mx, kExact, Dtype::bf16);
  bench.row("exact wgrad, e4m3 + e8m0 -> bf16", Pass::wgrad, mx, kExact, Dtype::bf16);
  bench.row("exact dgrad, e4m3 + e8m0 -> f32", Pass::dgrad, mx, kExact, Dtype::f32);
  bench.row("exact wgrad, e4m3 + e8m0 -> f32", Pass::wgrad, mx, kExact, Dtype::f32);
  bench.row("exact, bf16 -> bf16", Pass::forward, none, kExact, Dtype::bf16);
  bench.row("exact, bf16 -> f32", Pass::forward, none, kExact, Dtype::f32);
  bench.row("exact wgrad, bf16 -> bf16", Pass::wgrad, none, kExact, Dtype::bf16);
  bench.row("exact dgrad, bf16 -> f32", Pass::dgrad, none, kExact, Dtype::f32);
  bench.row("exact wgrad, bf16 -> f32", Pass::wgrad, none, kExact, Dtype::f32);
  bench.row("exact, e4m3 row-wise -> bf16", Pass::forward, rows, kExact, Dtype::bf16);
  bench.row("exact, e4m3 row-wise -> f32", Pass::forward, rows, kExact, Dtype::f32);
  bench.row("exact wgrad, e4m3 row-wise -> bf16", Pass::wgrad, rows, kExact, Dtype::bf16);
  bench.row("exact, e4m3 block-wise -> bf16", Pass::forward, blocks, kExact, Dtype::bf16);
  bench.row("exact, e4m3 block-wise -> f32", Pass::forward, blocks, kExact, Dtype::f32);
  bench.row("exact wgrad, e4m3 block-wise -> bf16", Pass::wgrad, blocks, kExact, Dtype::bf16);
  const auto fast = [](OperandKind kind) { return sum_named("h200_wgmma_fast", kind); };
  bench.row("h200_wgmma_fast, e4m3 row-wise -> bf16", Pass::forward, rows, fast(OperandKind::fp8),
            Dtype::bf16);
  bench.row("h200_wgmma_promote4, e4m3 row-wise -> bf16", Pass::forward, rows,
            sum_named("h200_wgmma_promote4", OperandKind::fp8), Dtype::bf16);
  bench.row("h200_wgmma_fast, bf16 -> bf16", Pass::forward, none, fast(OperandKind::bf16),
            Dtype::bf16);
  bench.row("h200_wgmma_fast, e4m3 + e8m0 -> bf16", Pass::forward, mx, fast(OperandKind::mx),
            Dtype::bf16);
  for (const auto& [name, style] : {std::pair{"swiglu", Style::swiglu},
                                    {"spread scales", Style::spread},
                                    {"outliers", Style::outliers},
                                    {"cancelling", Style::cancelling},
                                    {"subnormals", Style::subnormal}}) {
    bench.make(style);
    const std::string of = std::string("exact, e4m3 + e8m0 -> bf16, ") + name;
    bench.row(of.c_str(), Pass::forward, mx, kExact, Dtype::bf16);
    bench.row(("exact, e4m3 + e8m0 -> f32, " + std::string(name)).c_str(), Pass::forward, mx,
              kExact, Dtype::f32);
    bench.row(("exact, e4m3 row-wise -> bf16, " + std::string(name)).c_str(), Pass::forward, rows,
              kExact, Dtype::bf16);
    bench.row(("exact, bf16 -> bf16, " + std::string(name)).c_str(), Pass::forward, none, kExact,
              Dtype::bf16);
    bench.row(("exact, bf16 -> f32, " + std::string(name)).c_str(), Pass::forward, none, kExact,
              Dtype::f32);
    if (style != Style::swiglu) continue;
    bench.row("exact wgrad, e4m3 + e8m0 -> bf16, swiglu", Pass::wgrad, mx, kExact, Dtype::bf16);
    bench.row("exact wgrad, bf16 -> bf16, swiglu", Pass::wgrad, none, kExact, Dtype::bf16);
  }
  return bench.any_wrong ? 1 : 0;
}
