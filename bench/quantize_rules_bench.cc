// quantize under every row of `mxo list rules`, each block and power of two it has, against memcpy.
#include <string>
#include <vector>

#include "bench/rival.h"
#include "emu/backends.h"
#include "ops/catalogue/scale_parameters.h"

namespace mxo {
namespace {

struct Row {
  std::string rule, scale, block, power;
  Parameters set() const {
    Parameters all;
    all.set("rule", rule);
    all.set("scale", scale);
    all.set("block", block);
    if (!power.empty()) all.set("power_of_2", power);
    return all;
  }
  std::string name() const {
    return "quantize/" + rule + "/" + scale + "/" + block + (power.empty() ? "" : "/" + power);
  }
};

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find('|'), list.size());
    words.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

/// Blocks of a row; where it takes any, those that people use.
std::vector<std::string> blocks_of(const ScaleRuleRow& row) {
  if (!row.blocks.empty()) return split(row.blocks);
  if (row.scale == ScaleType::e8m0) return {"1x32", "32x1", "32x32"};
  return {"1x128", "128x1", "128x128", "RxK"};
}

std::vector<Row> every_row() {
  std::vector<Row> rows;
  for (const ScaleRuleRow& row : kScaleRules) {
    const bool mx = row.scale == ScaleType::e8m0;
    for (const std::string& block : blocks_of(row)) {
      const Row one{std::string(row.name), mx ? "e8m0" : "f32", block, ""};
      if (mx) rows.push_back(one);
      for (const std::string power : {"none", "down", "up"}) {
        if (mx || row.powers.find(power) == std::string_view::npos) continue;
        rows.push_back(one);
        rows.back().power = power;
      }
    }
  }
  return rows;
}

void BM_Rule(benchmark::State& state, const std::string& isa, int threads, const Row& row) {
  const Tensor x = bench::activations(state.range(0), state.range(1));
  const ScaleChoice choice = scale_choice("quantize", row.set());
  Tensor codes(Dtype::e4m3, x.shape());
  Tensor scales(choice.scale, shape_of_scales(x.shape(), choice.block));
  const Quantize op{x.operand(), {}, {codes.result(), scales.result(), choice.block}, choice.rule};
  const auto backend = make_cpu_backend({isa, threads});
  const std::size_t total = x.bytes() + codes.bytes() + scales.bytes();
  bench::against_memcpy(state, total, threads, [&] { quantize(*backend, op); });
}

void register_all() {
  for (const std::string isa : {"best", "avx2"}) {
    for (const int threads : {1, 2}) {
      for (const Row& row : every_row()) {
        const std::string name = row.name() + "/" + isa + "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [=](benchmark::State& state) {
                                       try {
                                         BM_Rule(state, isa, threads, row);
                                       } catch (const Error& error) {
                                         state.SkipWithError(error.what());
                                       }
                                     })
            ->Args({4096, 7168})
            ->Unit(benchmark::kMillisecond)
            ->UseManualTime()
            ->Iterations(15);
      }
    }
  }
}

[[maybe_unused]] const bool kRegistered = (register_all(), true);

}  // namespace
}  // namespace mxo
