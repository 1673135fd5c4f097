// Tiles of all products of a call, shared out among threads.
#include "emu/cpu/models/machine_product.h"

#include <algorithm>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/ieee_thread.h"
#include "emu/cpu/models/model_tile.h"
#include "ops/fused_dot.h"

namespace mxo::cpu {
namespace {

struct Task {
  const ContractionView* product;
  ModelTile tile;
};

std::vector<Task> tasks_of(std::span<const ContractionView> products, Index rows, Index columns) {
  std::vector<Task> tasks;
  for (const ContractionView& p : products) {
    for (Index i = 0; i < p.a.rows; i += rows) {
      for (Index j = 0; j < p.b.rows; j += columns) {
        tasks.push_back(
            {&p, {i, j, std::min(rows, p.a.rows - i), std::min(columns, p.b.rows - j)}});
      }
    }
  }
  return tasks;
}

}  // namespace

void run_machine_products(std::span<const ContractionView> products, Isa isa, int threads) {
  const ModelKernels* kernels = model_kernels(isa);
  Index columns = kModelTileColumns;
  std::vector<Task> tasks = tasks_of(products, kModelTileRows, columns);
  // Prefer narrower tiles to idle threads; 64 columns are one panel.
  while (threads > 1 && static_cast<Index>(tasks.size()) < 4 * threads && columns > 64) {
    columns /= 2;
    tasks = tasks_of(products, kModelTileRows, columns);
  }
  const auto count = static_cast<Index>(tasks.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads) firstprivate(ieee_thread)
  for (Index t = 0; t < count; ++t) {
    const Task& task = tasks[static_cast<std::size_t>(t)];
    run_tile(*task.product, kernels, task.tile);
  }
}

void CpuBackend::run(const FusedDot& op) { run_machine_products(products_of(op), isa_, threads_); }

}  // namespace mxo::cpu
