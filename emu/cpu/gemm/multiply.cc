// The chooser: which engine each product of a group goes to.
#include "emu/cpu/gemm/multiply.h"

#include <algorithm>

#include "emu/cpu/gemm/plan/plan.h"

namespace mxo::cpu {
namespace {

const Engine* engine_for(const Kernels& kernels, const Accumulation& sum, const Product& product) {
  if (sum.family == SumFamily::fma_chain) return &kChainEngine;
  const Engine* const* engine = kernels.tile_engines;
  for (; engine != nullptr && *engine != nullptr; ++engine) {
    if ((*engine)->suits(product)) return *engine;
  }
  return kInt16Engine.suits(product) ? &kInt16Engine : &kF64Engine;
}

}  // namespace

// Products that use the same engine are run together.
StageCounts multiply(std::vector<Product> products, const Kernels& kernels, int threads) {
  products.erase(std::remove_if(products.begin(), products.end(),
                                [](const Product& p) { return p.a.rows == 0 || p.b.rows == 0; }),
                 products.end());
  const auto empty = std::stable_partition(
      products.begin(), products.end(), [](const Product& product) { return product.depth > 0; });
  if (empty != products.end()) write_zeros({empty, products.end()}, threads);
  products.erase(empty, products.end());
  StageCounts stages;
  while (!products.empty()) {
    const Engine* engine = engine_for(kernels, products.front().sum, products.front());
    const auto others =
        std::stable_partition(products.begin(), products.end(), [&](const Product& product) {
          return engine_for(kernels, product.sum, product) == engine;
        });
    stages.add(run(kernels, *engine, {products.begin(), others}, threads));
    products.erase(products.begin(), others);
  }
  return stages;
}

}  // namespace mxo::cpu
