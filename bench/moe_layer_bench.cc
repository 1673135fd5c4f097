// One mixture-of-experts layer, forward and backward: every pipeline against bf16 in the same run,
// and the time of its operators.
#include <omp.h>

#include <random>

#include "bench/timed_backend.h"
#include "emu/backends.h"
#include "emu/communicators.h"
#include "ops/moe_layer.h"

namespace mxo {
namespace {

/// torch 2.11 on two cores reaches this in the emulated grouped products (bf16 loop over groups).
constexpr double kEmulationFlops = 58e9;

struct Shape {
  Index tokens, width, hidden, experts, top_k;
};

Tensor normal(std::vector<Index> shape, unsigned seed, float spread) {
  Tensor t(Dtype::bf16, std::move(shape));
  std::vector<std::uint16_t> run(1 << 16);
  std::minstd_rand random(seed);
  std::normal_distribution<float> bell(0.0f, spread);
  for (auto& word : run) word = encode<kBF16>(bell(random)).bits;
  for (Index i = 0; i < t.elements(); ++i) {
    // A run repeated at a stride that is no multiple of it: no two rows alike.
    t.as<std::uint16_t>()[i] = run[static_cast<std::size_t>(i % 65521)];
  }
  return t;
}

struct Layer {
  Shape shape;
  Tensor x, router, w1, w2, dy, y, dx, drouter, dw1, dw2;
  explicit Layer(const Shape& s)
      : shape(s),
        x(normal({s.tokens, s.width}, 1, 1.0f)),
        router(normal({s.experts, s.width}, 2, 0.05f)),
        w1(normal({s.experts, 2 * s.hidden, s.width}, 3, 0.02f)),
        w2(normal({s.experts, s.width, s.hidden}, 4, 0.02f)),
        dy(normal({s.tokens, s.width}, 5, 0.1f)),
        y(Dtype::bf16, {s.tokens, s.width}),
        dx(Dtype::bf16, {s.tokens, s.width}),
        drouter(Dtype::f32, {s.experts, s.width}),
        dw1(Dtype::bf16, w1.shape()),
        dw2(Dtype::bf16, w2.shape()) {}

  void step(Backend& backend, MoePipeline pipeline) {
    MoeLayer op;
    op.x = x.operand();
    op.router = router.operand();
    op.w1 = w1.operand();
    op.w2 = w2.operand();
    op.experts = shape.experts;
    op.top_k = shape.top_k;
    op.pipeline = pipeline;
    op.y = y.result();
    const MoeLayerBackward back{
        dy.operand(), dx.result(), drouter.result(), {}, dw1.result(), dw2.result(), {}, {},
        {},           {}};
    make_in_process_world()->run(1, [&](Communicator& communicator) {
      const SavedMoeLayer saved = moe_layer(backend, communicator, op);
      moe_layer_backward(backend, communicator, saved, back);
    });
  }
  std::vector<std::byte> results() const {
    std::vector<std::byte> all;
    for (const Tensor* t : {&y, &dx, &drouter, &dw1, &dw2}) {
      all.insert(all.end(), t->data(), t->data() + t->bytes());
    }
    return all;
  }
  /// Multiplications and additions of the six grouped products.
  double flops() const {
    return 3.0 * 2.0 * 3.0 *
           static_cast<double>(shape.tokens * shape.top_k * shape.width * shape.hidden);
  }
};

/// The definition's bits on a small layer, before anything is timed.
void check(Backend& backend, MoePipeline pipeline) {
  Layer small({24, 64, 64, 4, 2});
  small.step(backend, pipeline);
  const auto found = small.results();
  small.step(*make_reference_backend(), pipeline);
  if (found != small.results()) throw Error(Fault::internal, "moe_layer: not the reference's bits");
}

void BM_Layer(benchmark::State& state, MoePipeline pipeline) {
  const int threads = omp_get_max_threads();
  const auto cpu = make_cpu_backend({"best", threads});
  check(*cpu, pipeline);
  bench::TimedBackend backend(*cpu);
  Layer layer({state.range(0), state.range(1), state.range(2), state.range(3), state.range(4)});
  std::vector<double> ratios;
  std::vector<double> times;
  for (auto _ : state) {
    const double bf16 = bench::seconds([&] { layer.step(*cpu, MoePipeline::bf16); });
    backend.reset();
    times.push_back(bench::seconds([&] { layer.step(backend, pipeline); }));
    state.SetIterationTime(times.back());
    ratios.push_back(times.back() / bf16);
  }
  const double time = bench::median(times);
  state.counters["of_bf16_time"] = bench::median(ratios);
  state.counters["GFLOP/s"] = layer.flops() * 1e-9 / time;
  state.counters["emulation/time"] = layer.flops() / kEmulationFlops / time;
  for (const auto& [operation, spent] : backend.times()) state.counters["s." + operation] = spent;
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"T", "D", "F", "E", "k"})
      ->Args({4096, 2048, 1408, 64, 6})
      ->Args({1024, 512, 256, 8, 2})
      ->UseManualTime()
      ->Iterations(3)
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_CAPTURE(BM_Layer, mxfp8, MoePipeline::mxfp8)->Name("moe_layer/mxfp8")->Apply(shapes);
BENCHMARK_CAPTURE(BM_Layer, quantize_after, MoePipeline::quantize_after)
    ->Name("moe_layer/quantize_after")
    ->Apply(shapes);
BENCHMARK_CAPTURE(BM_Layer, flow, MoePipeline::flow)->Name("moe_layer/flow")->Apply(shapes);
BENCHMARK_CAPTURE(BM_Layer, bf16, MoePipeline::bf16)->Name("moe_layer/bf16")->Apply(shapes);

}  // namespace
}  // namespace mxo
