// swizzle_scales and unswizzle_scales, against memcpy of as many bytes with as many threads.
#include "ops/scale_layouts.h"

#include "bench/rival.h"
#include "emu/backends.h"

namespace mxo {
namespace {

// The e8m0 scales of 131072 x 7168 and 131072 x 2048 elements.
constexpr Index kRows = 131072;

void BM_Swizzle(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(1));
  Tensor scales(Dtype::u8, {kRows, state.range(0)});
  for (Index i = 0; i < scales.elements(); ++i) {
    scales.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7 % 251);
  }
  const Index bytes = blocked_bytes(kRows, state.range(0));
  Tensor want(Dtype::u8, {bytes});
  Tensor got(Dtype::u8, {bytes});
  swizzle_scales(*make_reference_backend(), {scales.operand(), {}, want.result()});
  const auto backend = make_cpu_backend({"best", threads});
  const SwizzleScales op{scales.operand(), {}, got.result()};
  swizzle_scales(*backend, op);
  if (std::memcmp(got.data(), want.data(), want.bytes()) != 0) {
    return state.SkipWithError("the result differs from the reference");
  }
  bench::against_memcpy(state, scales.bytes() + got.bytes(), threads,
                        [&] { swizzle_scales(*backend, op); });
}

void BM_Unswizzle(benchmark::State& state) {
  const auto threads = static_cast<int>(state.range(1));
  Tensor blocked(Dtype::u8, {blocked_bytes(kRows, state.range(0))});
  for (Index i = 0; i < blocked.elements(); ++i) {
    blocked.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 7 % 251);
  }
  Tensor want(Dtype::u8, {kRows, state.range(0)});
  Tensor got(Dtype::u8, {kRows, state.range(0)});
  unswizzle_scales(*make_reference_backend(), {blocked.operand(), {}, want.result()});
  const auto backend = make_cpu_backend({"best", threads});
  const UnswizzleScales op{blocked.operand(), {}, got.result()};
  unswizzle_scales(*backend, op);
  if (std::memcmp(got.data(), want.data(), want.bytes()) != 0) {
    return state.SkipWithError("the result differs from the reference");
  }
  bench::against_memcpy(state, blocked.bytes() + got.bytes(), threads,
                        [&] { unswizzle_scales(*backend, op); });
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgsProduct({{224, 64}, {1, 2}})->ArgNames({"columns", "threads"});
  b->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(25);
}
BENCHMARK(BM_Swizzle)->Name("swizzle")->Apply(sizes);
BENCHMARK(BM_Unswizzle)->Name("unswizzle")->Apply(sizes);

}  // namespace
}  // namespace mxo
