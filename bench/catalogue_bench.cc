// What a call by name costs beside the operator itself: 4096 x 4096 floats quantised.
#include <benchmark/benchmark.h>

#include "emu/backends.h"
#include "ops/catalogue.h"
#include "ops/quantize.h"

namespace mxo {
namespace {

constexpr Index kSide = 4096;

struct Operands {
  Tensor x{Dtype::f32, {kSide, kSide}};
  Tensor codes{Dtype::e4m3, {kSide, kSide}};
  Tensor scales{Dtype::e8m0, {kSide, kSide / 32}};
  std::unique_ptr<Backend> backend = make_backend("cpu", 0);

  Operands() {
    for (Index i = 0; i < x.elements(); ++i) {
      x.as<float>()[i] = static_cast<float>(i % 1021 - 510) / 64.0f;
    }
  }
};

void direct(benchmark::State& state) {
  Operands of;
  Quantize op;
  op.x = of.x.operand();
  op.to.codes = of.codes.result();
  op.to.scales = of.scales.result();
  for (auto _ : state) quantize(*of.backend, op);
}

void by_name_to_own_memory(benchmark::State& state) {
  Operands of;
  for (auto _ : state) {
    NamedViews views{{"x", of.x}};
    views.write_to("codes", of.codes);
    views.write_to("scales", of.scales);
    call_operator(*of.backend, "quantize", views, {});
  }
}

void by_name_to_new_tensors(benchmark::State& state) {
  Operands of;
  for (auto _ : state) {
    benchmark::DoNotOptimize(call_operator(*of.backend, "quantize", {{"x", of.x}}, {}));
  }
}

/// What a caller had to do who wanted to keep x.
void by_name_from_a_copy(benchmark::State& state) {
  Operands of;
  for (auto _ : state) {
    NamedTensors inputs;
    inputs.emplace("x", of.x);
    benchmark::DoNotOptimize(call_operator(*of.backend, "quantize", inputs, {}));
  }
}

BENCHMARK(direct)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(by_name_to_own_memory)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(by_name_to_new_tensors)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(by_name_from_a_copy)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace mxo
