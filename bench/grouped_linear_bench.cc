// What quantisation costs inside a training step of grouped_linear, in time and as a share.
#include <omp.h>

#include <chrono>

#include "bench/rival.h"
#include "emu/backends.h"
#include "ops/elementwise.h"
#include "ops/grouped_linear.h"
#include "ops/linear_factor.h"

namespace mxo {
namespace {

struct Layer {
  Index tokens, k, n, experts;
  Tensor x, w, dy, ends, y, dx, dw;
  Layer(Index t, Index k_, Index n_, Index e)
      : tokens(t),
        k(k_),
        n(n_),
        experts(e),
        x(bench::activations(t, k_)),
        w(Dtype::bf16, {e, n_, k_}),
        dy(bench::activations(t, n_)),
        ends(Dtype::i32, {e}),
        y(Dtype::bf16, {t, n_}),
        dx(Dtype::bf16, {t, k_}),
        dw(Dtype::bf16, {e, n_, k_}) {
    const Tensor one = bench::activations(n_, k_);
    for (Index g = 0; g < e; ++g) {
      std::memcpy(w.data() + static_cast<std::size_t>(g) * one.bytes(), one.data(), one.bytes());
      ends.as<std::int32_t>()[g] = static_cast<std::int32_t>(t * (g + 1) / e);
    }
  }
};

/// Every quantisation of a step, alone: x and w along K, dy and w along N, dy and x along tokens.
void quantize_all(Backend& backend, const LinearRecipe& recipe, const Layer& layer) {
  constexpr Dtype format = Dtype::e4m3;
  const Operand ends = layer.ends.operand();
  scaled_along_columns(backend, recipe, format, layer.x.operand(), LinearSide::tokens);
  scaled_along_columns(backend, recipe, format, layer.w.operand(), LinearSide::weight);
  scaled_along_columns(backend, recipe, format, layer.dy.operand(), LinearSide::tokens);
  scaled_along_rows_transposed(backend, recipe, format, layer.w.operand());
  scaled_along_tokens(backend, recipe, format, layer.dy.operand(), ends);
  scaled_along_tokens(backend, recipe, format, layer.x.operand(), ends);
}

void BM_Step(benchmark::State& state, const LinearRecipe& recipe) {
  Layer layer(state.range(0), state.range(1), state.range(2), state.range(3));
  const auto backend = make_cpu_backend({"best", omp_get_max_threads()});
  GroupedLinear op;
  op.x = layer.x.operand();
  op.w = layer.w.operand();
  op.group_ends = layer.ends.operand();
  op.y = layer.y.result();
  op.recipe = recipe;
  const GroupedLinearBackward back{layer.dy.operand(), layer.dx.result(), layer.dw.result(), {}};
  const auto step = [&] {
    const SavedLinear saved = grouped_linear(*backend, op);
    grouped_linear_backward(*backend, saved, back);
  };
  step();
  std::vector<double> shares;
  std::vector<double> steps;
  for (auto _ : state) {
    steps.push_back(bench::seconds(step));
    state.SetIterationTime(steps.back());
    shares.push_back(bench::seconds([&] { quantize_all(*backend, recipe, layer); }) / steps.back());
  }
  const double products = 6.0 * static_cast<double>(layer.tokens) * static_cast<double>(layer.k) *
                          static_cast<double>(layer.n);
  state.counters["quantize_share"] = bench::median(shares);
  state.counters["GFLOP/s"] = products * 1e-9 / bench::median(steps);
}

void register_all() {
  for (const LinearRecipe& recipe : kLinearRecipes) {
    if (!recipe.scaled()) continue;
    benchmark::RegisterBenchmark(("grouped_linear/" + std::string(recipe.name)).c_str(),
                                 [recipe](benchmark::State& state) { BM_Step(state, recipe); })
        ->ArgNames({"T", "K", "N", "E"})
        ->Args({4096, 7168, 2048, 8})
        ->Args({4096, 5120, 8192, 4})
        ->Args({2048, 2048, 1408, 8})
        ->Args({1024, 2048, 1408, 64})
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace mxo
