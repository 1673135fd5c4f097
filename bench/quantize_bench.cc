// quantize of bf16 to e4m3 and e8m0, against memcpy of as many bytes with as many threads.
#include "ops/quantize.h"

#include <stdexcept>

#include "bench/rival.h"
#include "emu/backends.h"

namespace mxo {
namespace {

enum class Layout : std::uint8_t { plain, transposed };

struct Target {
  Tensor codes;
  Tensor scales;
};

/// x to `target`, whose tensors have the shapes that block and layout ask for.
Quantize ask(const Tensor& x, Target& target, ScaleMode mode, BlockExtents block, Layout layout) {
  Quantize op{
      x.operand(), {}, {target.codes.result(), target.scales.result(), block}, mx_rule(mode)};
  if (layout == Layout::transposed) {
    op.to.codes = transposed(op.to.codes);
    op.to.scales = transposed(op.to.scales);
  }
  return op;
}

Target target_for(const Tensor& x, BlockExtents block, Layout layout) {
  const Index r = x.extent(0);
  const Index k = x.extent(1);
  if (block == kMxColumns) return {{Dtype::e4m3, {r, k}}, {Dtype::e8m0, {r, k / kMxBlock}}};
  if (layout == Layout::plain) return {{Dtype::e4m3, {r, k}}, {Dtype::e8m0, {r / kMxBlock, k}}};
  return {{Dtype::e4m3, {k, r}}, {Dtype::e8m0, {k, r / kMxBlock}}};
}

void BM_Quantize(benchmark::State& state, const std::string& isa, int threads, ScaleMode mode,
                 BlockExtents block, Layout layout) {
  const Tensor x = bench::activations(state.range(0), state.range(1));
  const auto backend = make_cpu_backend({isa, threads});
  Target got = target_for(x, block, layout);
  Target want = target_for(x, block, layout);
  quantize(*make_reference_backend(), ask(x, want, mode, block, layout));
  quantize(*backend, ask(x, got, mode, block, layout));
  if (std::memcmp(got.codes.data(), want.codes.data(), want.codes.bytes()) != 0 ||
      std::memcmp(got.scales.data(), want.scales.data(), want.scales.bytes()) != 0) {
    return state.SkipWithError("the result differs from the reference");
  }
  const Quantize op = ask(x, got, mode, block, layout);
  const std::size_t total = x.bytes() + got.codes.bytes() + got.scales.bytes();
  bench::against_memcpy(state, total, threads, [&] { quantize(*backend, op); });
}

void register_all() {
  struct Row {
    std::string_view name;
    ScaleMode mode;
    BlockExtents block;
    Layout layout;
  };
  const Row rows[] = {
      {"rceil/axis-1", ScaleMode::rceil, kMxColumns, Layout::plain},
      {"floor/axis-1", ScaleMode::floor, kMxColumns, Layout::plain},
      {"rceil/axis-2", ScaleMode::rceil, kMxRows, Layout::plain},
      {"floor/axis-2", ScaleMode::floor, kMxRows, Layout::plain},
      {"rceil/axis-2/transposed", ScaleMode::rceil, kMxRows, Layout::transposed},
  };
  for (const std::string isa : {"best", "avx2", "scalar"}) {
    for (const int threads : {1, 2}) {
      for (const Row& row : rows) {
        const std::string name =
            "quantize/" + std::string(row.name) + "/" + isa + "/threads:" + std::to_string(threads);
        auto* b = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          try {
            BM_Quantize(state, isa, threads, row.mode, row.block, row.layout);
          } catch (const Error& error) {
            state.SkipWithError(error.what());
          }
        });
        b->Args({4096, 7168})->Unit(benchmark::kMillisecond)->UseManualTime();
        b->Iterations(isa == "scalar" ? 3 : 15);
        if (isa == "best") b->Args({8192, 7168});
      }
    }
  }
}

[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace mxo
