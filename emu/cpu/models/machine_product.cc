// Tiles of all products of a call, shared out among threads.
#include "emu/cpu/models/machine_product.h"

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/models/model_tile.h"

namespace mxo::cpu {
namespace {

struct Task {
  const MachineProduct* product;
  ModelTile tile;
};

std::vector<Task> tasks_of(std::span<const MachineProduct> products, Index rows, Index columns) {
  std::vector<Task> tasks;
  for (const MachineProduct& p : products) {
    for (Index i = 0; i < p.m; i += rows) {
      for (Index j = 0; j < p.n; j += columns) {
        tasks.push_back({&p, {i, j, std::min(rows, p.m - i), std::min(columns, p.n - j)}});
      }
    }
  }
  return tasks;
}

}  // namespace

void run_machine_products(std::span<const MachineProduct> products, Isa isa, int threads) {
  const ModelKernels* kernels = model_kernels(isa);
  Index columns = kModelTileColumns;
  std::vector<Task> tasks = tasks_of(products, kModelTileRows, columns);
  // Narrower tiles rather than idle threads; 64 columns are one panel.
  while (threads > 1 && static_cast<Index>(tasks.size()) < 4 * threads && columns > 64) {
    columns /= 2;
    tasks = tasks_of(products, kModelTileRows, columns);
  }
  const auto count = static_cast<Index>(tasks.size());
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (Index t = 0; t < count; ++t) {
    const Task& task = tasks[static_cast<std::size_t>(t)];
    run_tile(*task.product, kernels, task.tile);
  }
}

void CpuBackend::run(const FusedDot& op) { run_machine_products(products_of(op), isa_, threads_); }

}  // namespace mxo::cpu
