// How fast are the exact grouped products, and how fast is inexact arithmetic on the same shape?
//
// The result is first checked against the definition on sampled rows.  Threads: environment
// variable MXO_THREADS, default all.
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "bench/race.h"
#include "bench/rival_onednn.h"
#include "emu/backends.h"
#include "emu/cpu/isa.h"
#include "emu/prepared.h"
#include "formats/tensor.h"
#include "ops/grouped_matmul.h"
#include "ops/quantize.h"

extern "C" void openblas_set_num_threads(int threads);

namespace mxo::bench {
namespace {

struct Shape {
  const char* name;
  Index m, k, n;
  std::vector<Index> rows;  ///< of each group
};

std::vector<Index> even(Index m, Index groups) {
  return std::vector<Index>(static_cast<std::size_t>(groups), m / groups);
}

/// Uneven groups, multiples of 32, every seventh empty.
std::vector<Index> uneven(Index groups, Index& m) {
  std::vector<Index> rows;
  m = 0;
  for (Index g = 0; g < groups; ++g) {
    rows.push_back(g % 7 == 3 ? 0 : 32 * (g * 5 % 4 + g % 3));
    m += rows.back();
  }
  return rows;
}

std::vector<Shape> shapes() {
  Index m128 = 0;
  const std::vector<Index> rows128 = uneven(128, m128);
  return {{"dense2048", 2048, 2048, 2048, {2048}},
          {"deepseek8", 4096, 7168, 2048, even(4096, 8)},
          {"llama4", 4096, 5120, 8192, even(4096, 4)},
          {"small64", 1024, 2048, 1408, even(1024, 64)},
          {"uneven128", m128, 2048, 1408, rows128}};
}

int threads() {
  const char* wish = std::getenv("MXO_THREADS");
  return wish != nullptr ? std::atoi(wish) : omp_get_max_threads();
}

/// Normal numbers; a long line of them is laid end to end, shifted each time.
Tensor normal(std::vector<Index> shape, unsigned seed) {
  constexpr std::size_t kPool = 1 << 20;
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> pool(kPool);
  for (float& x : pool) x = draw(random);
  Tensor t(Dtype::f32, std::move(shape));
  const auto count = static_cast<std::size_t>(t.elements());
  for (std::size_t i = 0; i < count; ++i) t.as<float>()[i] = pool[(i + i / kPool * 977) % kPool];
  return t;
}

template <typename To>
std::vector<To> converted(const Tensor& x) {
  std::vector<To> out(static_cast<std::size_t>(x.elements()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if constexpr (std::is_same_v<To, BF16>) {
      out[i] = encode<kBF16>(x.as<float>()[i]);
    } else {
      out[i] = static_cast<To>(x.as<float>()[i]);
    }
  }
  return out;
}

Tensor bf16_of(const Tensor& x) {
  Tensor t(Dtype::bf16, x.shape());
  const std::vector<BF16> values = converted<BF16>(x);
  if (!values.empty()) std::memcpy(t.data(), values.data(), t.bytes());
  return t;
}

/// Rows `step` apart of the result against the definition, 48 columns of each.
bool check_forward(const GroupedMatmul& op, const Shape& shape) {
  const auto reference = make_reference_backend();
  Index start = 0;
  bool same = true;
  for (std::size_t g = 0; g < shape.rows.size(); g += shape.rows.size() / 3 + 1) {
    start = 0;
    for (std::size_t i = 0; i < g; ++i) start += shape.rows[i];
    if (shape.rows[g] == 0) continue;
    GroupedMatmul part = op;
    const Index columns = std::min<Index>(48, shape.n);
    const auto slice = [](Operand view, int axis, Index first, Index count) {
      view.data = static_cast<const std::byte*>(view.data) +
                  static_cast<std::size_t>(first * view.stride[axis]) * size_of(view.dtype);
      view.extent[axis] = count;
      return view;
    };
    const auto row = [&](const Operand& view) {
      return slice(view, 0, start + shape.rows[g] / 2, 1);
    };
    const auto weight = [&](const Operand& view) {
      return slice(slice(view, 0, static_cast<Index>(g), 1), 1, shape.n - columns, columns);
    };
    part.x.codes = row(op.x.codes);
    part.w.codes = weight(op.w.codes);
    if (op.x.scaled()) {
      part.x.scales = row(op.x.scales);
      part.w.scales = weight(op.w.scales);
    }
    Tensor ends(Dtype::i32, {1});
    ends.as<std::int32_t>()[0] = 1;
    part.group_ends = ends.operand();
    Tensor y(op.y.dtype, {1, columns});
    part.y = y.result();
    grouped_matmul(*reference, part);
    const std::size_t size = size_of(op.y.dtype);
    const auto at =
        static_cast<std::size_t>((start + shape.rows[g] / 2) * shape.n + shape.n - columns);
    same = same &&
           std::memcmp(static_cast<std::byte*>(op.y.data) + at * size, y.data(), y.bytes()) == 0;
  }
  return same;
}

Tensor ends_of(const Shape& shape) {
  Tensor ends(Dtype::i32, {static_cast<Index>(shape.rows.size())});
  Index end = 0;
  for (std::size_t g = 0; g < shape.rows.size(); ++g) {
    end += shape.rows[g];
    ends.as<std::int32_t>()[g] = static_cast<std::int32_t>(end);
  }
  return ends;
}

/// y = x w^T of every group by a BLAS product.
template <typename T, typename Gemm>
std::function<void()> per_group(const Shape& shape, const T* x, const T* w, T* y, Gemm gemm) {
  return [=, rows = shape.rows, n = shape.n, k = shape.k] {
    Index start = 0;
    for (std::size_t g = 0; g < rows.size(); ++g) {
      if (rows[g] > 0) {
        gemm(x + start * k, w + static_cast<Index>(g) * n * k, y + start * n, rows[g], n, k);
      }
      start += rows[g];
    }
  };
}

void sgemm(const float* x, const float* w, float* y, Index m, Index n, Index k) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), 1.0f, x, static_cast<int>(k), w, static_cast<int>(k), 0.0f, y,
              static_cast<int>(n));
}
void dgemm(const double* x, const double* w, double* y, Index m, Index n, Index k) {
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(m), static_cast<int>(n),
              static_cast<int>(k), 1.0, x, static_cast<int>(k), w, static_cast<int>(k), 0.0, y,
              static_cast<int>(n));
}

struct Quantized {
  Tensor codes;
  Tensor scales;
};

Quantized quantized(Backend& backend, const Tensor& x, const BlockExtents& block) {
  Quantized q{Tensor(Dtype::e4m3, x.shape()),
              Tensor(Dtype::e8m0, shape_of_scales(x.shape(), block))};
  quantize(backend, {x.operand(), {}, {q.codes.result(), q.scales.result(), block}});
  return q;
}

GroupedMatmul mx_product(const Quantized& x, const Quantized& w, const Tensor& ends, Tensor& y) {
  GroupedMatmul op;
  op.x = {x.codes.operand(), x.scales.operand()};
  op.w = {w.codes.operand(), w.scales.operand()};
  op.group_ends = ends.operand();
  op.y = y.result();
  return op;
}

/// Exact MXFP8 forward, also of prepared weights, against sgemm, and oneDNN's bf16 where AMX is.
void mx_forward(benchmark::State& state, const Shape& shape) {
  openblas_set_num_threads(threads());
  const auto cpu = make_backend("cpu", threads());
  const auto groups = static_cast<Index>(shape.rows.size());
  const Tensor x = normal({shape.m, shape.k}, 1);
  const Tensor w = normal({groups, shape.n, shape.k}, 2);
  const Quantized qx = quantized(*cpu, x, kMxColumns);
  const Quantized qw = quantized(*cpu, w, kMxColumns);
  const Tensor ends = ends_of(shape);
  Tensor y(Dtype::bf16, {shape.m, shape.n});
  const GroupedMatmul op = mx_product(qx, qw, ends, y);
  const PreparedWeights kept(op.w.codes, op.w.scales);
  GroupedMatmul prepared = op;
  prepared.w = {kept.codes(), kept.scales()};
  for (const GroupedMatmul& product : {op, prepared}) {
    std::memset(y.data(), 0xFF, y.bytes());
    grouped_matmul(*cpu, product);
    if (!check_forward(op, shape)) return state.SkipWithError("not the definition's bits");
  }

  Race race;
  race.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  race.contestants.push_back({"exact", [&] { grouped_matmul(*cpu, op); }});
  race.contestants.push_back({"prepared", [&] { grouped_matmul(*cpu, prepared); }});
  std::vector<float> ys(static_cast<std::size_t>(shape.m * shape.n));
  race.contestants.push_back(
      {"sgemm", per_group(shape, x.as<float>(), w.as<float>(), ys.data(), sgemm)});
  std::vector<BF16> xb, wb, yb;
  if (have_onednn() && cpu::machine_has(cpu::Isa::amx)) {
    xb = converted<BF16>(x);
    wb = converted<BF16>(w);
    yb.resize(ys.size());
    race.contestants.push_back(
        {"onednn_bf16", per_group(shape, xb.data(), wb.data(), yb.data(), onednn_matmul)});
  }
  race.run(state);
}

/// Exact MXFP8 forward, dgrad (the forward of the transposed weight) and wgrad of one layer.
void mx_passes(benchmark::State& state, const Shape& shape) {
  const auto cpu = make_backend("cpu", threads());
  const auto groups = static_cast<Index>(shape.rows.size());
  const Tensor x = normal({shape.m, shape.k}, 1);
  const Tensor dy = normal({shape.m, shape.n}, 2);
  const Tensor ends = ends_of(shape);
  const Quantized x_k = quantized(*cpu, x, kMxColumns);
  const Quantized dy_n = quantized(*cpu, dy, kMxColumns);
  const Quantized x_r = quantized(*cpu, x, kMxRows);
  const Quantized dy_r = quantized(*cpu, dy, kMxRows);
  Quantized w_k;
  Quantized w_n;  // along n, then transposed
  {
    const Tensor w = normal({groups, shape.n, shape.k}, 3);
    w_k = quantized(*cpu, w, kMxColumns);
    w_n = {Tensor(Dtype::e4m3, {groups, shape.k, shape.n}),
           Tensor(Dtype::e8m0, {groups, shape.k, shape.n / kMxBlock})};
    quantize(*cpu, {w.operand(),
                    {},
                    {transposed(w_n.codes.result()), transposed(w_n.scales.result()), kMxRows}});
  }
  Tensor y(Dtype::bf16, {shape.m, shape.n});
  Tensor dx(Dtype::bf16, {shape.m, shape.k});
  Tensor dw(Dtype::bf16, {groups, shape.n, shape.k});
  const GroupedMatmul forward = mx_product(x_k, w_k, ends, y);
  const GroupedMatmul dgrad = mx_product(dy_n, w_n, ends, dx);
  GroupedMatmulWgrad wgrad;
  wgrad.dy = {dy_r.codes.operand(), dy_r.scales.operand(), kMxRows};
  wgrad.x = {x_r.codes.operand(), x_r.scales.operand(), kMxRows};
  wgrad.group_ends = ends.operand();
  wgrad.dw = dw.result();
  Race race;
  race.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  race.contestants.push_back({"forward", [&] { grouped_matmul(*cpu, forward); }});
  race.contestants.push_back({"dgrad", [&] { grouped_matmul(*cpu, dgrad); }});
  const bool whole_blocks = std::all_of(shape.rows.begin(), shape.rows.end(),
                                        [](Index rows) { return rows % kMxBlock == 0; });
  if (whole_blocks) {  // a block of wgrad may not span two groups
    race.contestants.push_back({"wgrad", [&] { grouped_matmul_wgrad(*cpu, wgrad); }});
  }
  race.run(state);
}

/// Exact bf16 forward against dgemm.
void bf16_forward(benchmark::State& state, const Shape& shape) {
  openblas_set_num_threads(threads());
  const auto cpu = make_backend("cpu", threads());
  const auto groups = static_cast<Index>(shape.rows.size());
  const Tensor x = normal({shape.m, shape.k}, 1);
  const Tensor w = normal({groups, shape.n, shape.k}, 2);
  const Tensor xb = bf16_of(x);
  const Tensor wb = bf16_of(w);
  const Tensor ends = ends_of(shape);
  Tensor y(Dtype::bf16, {shape.m, shape.n});
  GroupedMatmul op;
  op.x = unscaled(xb.operand());
  op.w = unscaled(wb.operand());
  op.group_ends = ends.operand();
  op.y = y.result();
  grouped_matmul(*cpu, op);
  if (!check_forward(op, shape)) return state.SkipWithError("not the definition's bits");
  const std::vector<double> xd = converted<double>(x);
  const std::vector<double> wd = converted<double>(w);
  std::vector<double> yd(static_cast<std::size_t>(shape.m * shape.n));
  Race race;
  race.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  race.contestants.push_back({"exact", [&] { grouped_matmul(*cpu, op); }});
  race.contestants.push_back({"dgemm", per_group(shape, xd.data(), wd.data(), yd.data(), dgemm)});
  race.run(state);
}

/// One product of 2048 x 7168 x 2048 whole, and cut in 8 groups of 256 rows that share nothing.
void grouped_against_dense(benchmark::State& state) {
  const auto cpu = make_backend("cpu", threads());
  const Shape shape{"", 2048, 7168, 2048, even(2048, 8)};
  const Quantized x = quantized(*cpu, normal({shape.m, shape.k}, 1), kMxColumns);
  const Quantized w = quantized(*cpu, normal({8, shape.n, shape.k}, 2), kMxColumns);
  const Tensor ends = ends_of(shape);
  Tensor one(Dtype::i32, {8});
  std::fill_n(one.as<std::int32_t>(), 8, 2048);
  Tensor y(Dtype::bf16, {shape.m, shape.n});
  const GroupedMatmul grouped = mx_product(x, w, ends, y);
  GroupedMatmul dense = grouped;
  dense.group_ends = one.operand();
  Race race;
  race.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
  race.contestants.push_back({"grouped", [&] { grouped_matmul(*cpu, grouped); }});
  race.contestants.push_back({"dense", [&] { grouped_matmul(*cpu, dense); }});
  race.run(state);
}

/// Bytes of memory in use, and the most there ever were since `forget_most`; 0 where unknown.
std::size_t memory_status(const char* key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::size_t kibibytes = 0;
    if (word == key && status >> kibibytes) return kibibytes << 10;
  }
  return 0;
}
void forget_most() { std::ofstream("/proc/self/clear_refs") << 5; }

/// A layer for 131072 tokens: time, and memory beyond the operands and the output.
void mx_large(benchmark::State& state) {
  const auto cpu = make_backend("cpu", threads());
  const Shape shape{"", 131072, 7168, 2048, even(131072, 8)};
  constexpr Index kSlab = 4096;
  const Quantized slab = quantized(*cpu, normal({kSlab, shape.k}, 1), kMxColumns);
  Quantized x{Tensor(Dtype::e4m3, {shape.m, shape.k}),
              Tensor(Dtype::e8m0, {shape.m, shape.k / kMxBlock})};
  for (Index i = 0; i < shape.m / kSlab; ++i) {
    const auto at = static_cast<std::size_t>(i);
    std::memcpy(x.codes.data() + at * slab.codes.bytes(), slab.codes.data(), slab.codes.bytes());
    std::memcpy(x.scales.data() + at * slab.scales.bytes(), slab.scales.data(),
                slab.scales.bytes());
  }
  const Quantized w = quantized(*cpu, normal({8, shape.n, shape.k}, 2), kMxColumns);
  const Tensor ends = ends_of(shape);
  Tensor y(Dtype::bf16, {shape.m, shape.n});
  const GroupedMatmul op = mx_product(x, w, ends, y);
  for (auto _ : state) {
    std::memset(y.data(), 0, y.bytes());
    const std::size_t before = memory_status("VmRSS:");
    forget_most();
    const double time = seconds([&] { grouped_matmul(*cpu, op); });
    state.SetIterationTime(time);
    constexpr double kMebibyte = 1 << 20;
    state.counters["exact"] = 2e-9 * static_cast<double>(shape.m * shape.n * shape.k) / time;
    state.counters["extra_MiB"] = static_cast<double>(memory_status("VmHWM:") - before) / kMebibyte;
    state.counters["total_MiB"] = static_cast<double>(memory_status("VmHWM:")) / kMebibyte;
  }
  if (!check_forward(op, shape)) return state.SkipWithError("not the definition's bits");
}

}  // namespace
}  // namespace mxo::bench

int main(int argc, char** argv) {
  using namespace mxo::bench;
  const std::vector<Shape> all = shapes();
  const auto add = [](const std::string& name, auto body) {
    return benchmark::RegisterBenchmark(name.c_str(), body)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->Iterations(5);
  };
  for (const Shape& s : all) {
    const std::string name = s.name;
    add("mxfp8_forward/" + name, [&s](benchmark::State& state) { mx_forward(state, s); });
    add("mxfp8_passes/" + name, [&s](benchmark::State& state) { mx_passes(state, s); });
    add("bf16_forward/" + name, [&s](benchmark::State& state) { bf16_forward(state, s); });
  }
  add("mxfp8_grouped_against_dense", grouped_against_dense);
  add("mxfp8_large", mx_large)->Iterations(1);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
