// The grouped products: machine sums go to the models, the others to the fast products.
#include "ops/grouped_matmul.h"

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/gemm/multiply.h"
#include "emu/cpu/gemm/spread_scales.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/models/machine_product.h"
#include "emu/reference/dot.h"

namespace mxo::cpu {
namespace {

/// Multiply-adds that one thread has done before others, which then wait for the next call, begin.
constexpr double kOfOneThread = 0x1p23;

double work_of(const std::vector<ContractionView>& products) {
  double sum = 0.0;
  for (const ContractionView& p : products)
    sum += static_cast<double>(p.a.rows * p.b.rows) * static_cast<double>(p.depth);
  return sum;
}

/// The definition, its rows shared out among threads.
void write_dots(const std::vector<ContractionView>& products, int threads) {
  for (const ContractionView& product : products) {
#pragma omp parallel for schedule(dynamic) num_threads(threads) firstprivate(ieee_thread)
    for (Index i = 0; i < product.a.rows; ++i) {
      for (Index j = 0; j < product.b.rows; ++j) write_dot(product, i, j);
    }
  }
}

void run_products(std::vector<ContractionView> products, Isa isa, int threads) {
  if (products.empty()) return;
  if (work_of(products) < kOfOneThread) threads = 1;
  if (is_machine(products.front().sum)) return run_machine_products(products, isa, threads);
  const SpreadScales scales = spread_scales(products);
  if (products.front().form == ScaleForm::other) return write_dots(products, threads);
  multiply(std::move(products), kernels_of(isa), threads);
}

}  // namespace

void CpuBackend::run(const GroupedMatmul& op) { run_products(products_of(op), isa_, threads_); }

void CpuBackend::run(const GroupedMatmulWgrad& op) {
  run_products(products_of(op), isa_, threads_);
}

}  // namespace mxo::cpu
