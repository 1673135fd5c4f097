// Padding and permuting rows, against memcpy of as many bytes with as many threads.
#include <omp.h>

#include <numeric>

#include "bench/rival.h"
#include "emu/backends.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"

namespace mxo {
namespace {

constexpr Index kBytes = Index{128} << 20;  // of x: far outside the last cache
constexpr Index kGroups = 8;
constexpr Index kAlignment = 32;

/// kBytes of bf16 in rows of `row_bytes`.
Tensor rows_of(Index row_bytes) {
  Tensor x(Dtype::bf16, {kBytes / row_bytes, row_bytes / 2});
  for (Index i = 0; i < x.elements(); ++i) {
    x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i * 40503 >> 3);
  }
  return x;
}

/// Uneven groups, none of them a multiple of the alignment.
Tensor uneven_ends(Index rows) {
  Tensor ends(Dtype::i32, {kGroups});
  for (Index g = 0; g < kGroups; ++g) {
    const Index end =
        g + 1 < kGroups ? rows * (g + 1) * (g + 2) / (kGroups * (kGroups + 1)) | 1 : rows;
    ends.as<std::int32_t>()[g] = static_cast<std::int32_t>(std::min(end, rows));
  }
  return ends;
}

struct Padded {
  Tensor x, ends, y, starts, padded_ends;
  explicit Padded(Index row_bytes)
      : x(rows_of(row_bytes)),
        ends(uneven_ends(x.extent(0))),
        y(x.dtype(), {padded_rows(x.extent(0), kGroups, kAlignment), x.extent(1)}),
        starts(Dtype::i32, {kGroups}),
        padded_ends(Dtype::i32, {kGroups}) {}
  PadGroups pad() {
    return {x.operand(),     ends.operand(),       y.result(),
            starts.result(), padded_ends.result(), kAlignment};
  }
  UnpadGroups unpad() { return {y.operand(), ends.operand(), starts.operand(), x.result()}; }
};

void BM_Pad(benchmark::State& state) {
  Padded p(state.range(0));
  const auto backend = make_cpu_backend({"best", static_cast<int>(state.range(1))});
  const PadGroups op = p.pad();
  bench::against_memcpy(state, p.x.bytes() + p.y.bytes(), static_cast<int>(state.range(1)),
                        [&] { pad_groups(*backend, op); });
}

void BM_Unpad(benchmark::State& state) {
  Padded p(state.range(0));
  const auto backend = make_cpu_backend({"best", static_cast<int>(state.range(1))});
  pad_groups(*backend, p.pad());
  const UnpadGroups op = p.unpad();
  bench::against_memcpy(state, 2 * p.x.bytes(), static_cast<int>(state.range(1)),
                        [&] { unpad_groups(*backend, op); });
}

/// What permute_indices gives for rows from kGroups ranks for kGroups experts: runs of rows.
Tensor by_expert(Index rows) {
  Tensor counts(Dtype::i32, {kGroups * kGroups});
  for (Index i = 0; i < counts.elements(); ++i) {
    counts.as<std::int32_t>()[i] = static_cast<std::int32_t>(rows / counts.elements() - i % 5);
  }
  Tensor indices(Dtype::i32, {rows});
  Tensor sizes(Dtype::i32, {kGroups});
  Tensor ends(Dtype::i32, {kGroups});
  permute_indices(*make_reference_backend(), {counts.operand(), indices.result(), sizes.result(),
                                              ends.result(), kGroups, kGroups, 1});
  return indices;
}

/// Every row to a place of its own, no two neighbours together.
Tensor scattered(Index rows) {
  Tensor indices(Dtype::i32, {rows});
  Index step = rows * 5 / 8 | 1;
  while (std::gcd(step, rows) != 1) step += 2;
  for (Index i = 0; i < rows; ++i) {
    indices.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * step % rows);
  }
  return indices;
}

void BM_Permute(benchmark::State& state, Tensor (*order)(Index)) {
  Tensor x = rows_of(state.range(0));
  Tensor y(x.dtype(), x.shape());
  const Tensor indices = order(x.extent(0));
  const auto backend = make_cpu_backend({"best", static_cast<int>(state.range(1))});
  const Permute op{x.operand(), indices.operand(), y.result()};
  bench::against_memcpy(state, 2 * x.bytes(), static_cast<int>(state.range(1)),
                        [&] { permute(*backend, op); });
}

void BM_Unpermute(benchmark::State& state, Tensor (*order)(Index)) {
  Tensor y = rows_of(state.range(0));
  Tensor x(y.dtype(), y.shape());
  const Tensor indices = order(y.extent(0));
  const auto backend = make_cpu_backend({"best", static_cast<int>(state.range(1))});
  const Unpermute op{y.operand(), indices.operand(), x.result()};
  bench::against_memcpy(state, 2 * y.bytes(), static_cast<int>(state.range(1)),
                        [&] { unpermute(*backend, op); });
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"row_bytes", "threads"})->UseManualTime()->Unit(benchmark::kMillisecond);
  const int all = omp_get_max_threads();
  for (const int threads : all > 1 ? std::vector<int>{1, all} : std::vector<int>{1}) {
    for (const Index row_bytes : {1024, 4096, 14336}) bench->Args({row_bytes, threads});
  }
}

BENCHMARK(BM_Pad)->Name("pad_groups")->Apply(sizes);
BENCHMARK(BM_Unpad)->Name("unpad_groups")->Apply(sizes);
BENCHMARK_CAPTURE(BM_Permute, by_expert, by_expert)->Name("permute/by_expert")->Apply(sizes);
BENCHMARK_CAPTURE(BM_Permute, scattered, scattered)->Name("permute/scattered")->Apply(sizes);
BENCHMARK_CAPTURE(BM_Unpermute, by_expert, by_expert)->Name("unpermute/by_expert")->Apply(sizes);
BENCHMARK_CAPTURE(BM_Unpermute, scattered, scattered)->Name("unpermute/scattered")->Apply(sizes);

}  // namespace
}  // namespace mxo
