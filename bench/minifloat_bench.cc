// Encoding all 2^32 floats into one format, and the codecs in and out of the caches.
#include <benchmark/benchmark.h>

#include <cstring>
#include <string>

#include "emu/backends.h"
#include "formats/tensor.h"
#include "ops/convert.h"

namespace mxo {
namespace {

constexpr Index kPart = Index{1} << 22;

/// Every pattern from `first` on.
void fill_patterns(Tensor& x, std::uint32_t first) {
  auto* word = x.as<std::uint32_t>();
  for (Index i = 0; i < x.elements(); ++i) word[i] = first + static_cast<std::uint32_t>(i);
}

/// One iteration encodes every float there is.
void BM_EncodeAllFloats(benchmark::State& state, Dtype format, const std::string& isa,
                        int threads) {
  const auto backend = make_cpu_backend({isa, threads});
  Tensor x(Dtype::f32, {kPart});
  Tensor codes(format, {kPart});
  Tensor want(format, {kPart});
  for (const std::uint32_t first : {0x3B000000u, 0x7F700000u, 0xC3000000u}) {
    fill_patterns(x, first);
    encode(*make_reference_backend(), {x.operand(), want.result()});
    encode(*backend, {x.operand(), codes.result()});
    if (std::memcmp(codes.data(), want.data(), want.bytes()) != 0) {
      return state.SkipWithError("the result differs from the reference");
    }
  }
  for (auto _ : state) {
    for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += kPart) {
      fill_patterns(x, static_cast<std::uint32_t>(first));
      encode(*backend, {x.operand(), codes.result()});
      benchmark::DoNotOptimize(codes.data());
    }
  }
  state.SetItemsProcessed(state.iterations() << 32);
}

void BM_Encode(benchmark::State& state, Dtype format, const std::string& isa) {
  const auto backend = make_cpu_backend({isa, 1});
  Tensor x(Dtype::f32, {state.range(0)});
  Tensor codes(format, {state.range(0)});
  fill_patterns(x, 0x3F000000u);
  for (auto _ : state) encode(*backend, {x.operand(), codes.result()});
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.SetBytesProcessed(state.iterations() * state.range(0) * 5);  // 4 in, 1 out
}

void register_all() {
  for (const Dtype format : {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2}) {
    for (const std::string isa : {"best", "scalar"}) {
      const std::string tail = std::string(name_of(format)) + "/" + isa;
      benchmark::RegisterBenchmark(
          ("encode_all_floats/" + tail + "/threads:2").c_str(),
          [=](benchmark::State& state) { BM_EncodeAllFloats(state, format, isa, 2); })
          ->Unit(benchmark::kSecond)
          ->UseRealTime()
          ->Iterations(1);
      benchmark::RegisterBenchmark(("encode/" + tail).c_str(),
                                   [=](benchmark::State& state) { BM_Encode(state, format, isa); })
          ->Arg(4 << 10)
          ->Arg(1 << 20);
    }
  }
}

[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace mxo
