// Chooses the cut that minimises repeated packing.
#include "emu/cpu/gemm/plan/plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace mxo::cpu {
namespace {

Index panels(Index k_vectors, int lanes) { return ceil_div(k_vectors, lanes); }

std::size_t bytes_of(const Kernels& kernels, const Engine& engine, Index rows, Index columns,
                     const KBlock& k_block, bool whole) {
  const auto pa = static_cast<std::size_t>(panels(rows, kernels.*engine.mr));
  const auto pb = static_cast<std::size_t>(panels(columns, kernels.nr));
  const std::size_t sums = whole ? 0 : pa * pb * kBlockSums * sizeof(double);
  return pa * engine.bytes(kernels.*engine.mr, kMaxMr, k_block).all() +
         pb * engine.bytes(kernels.nr, kMaxNr, k_block).all() + sums;
}

struct Cut {
  Index rows = 0, columns = 0, kc = 0;
  Index cost =
      std::numeric_limits<Index>::max();  ///< K-vectors packed, and sums moved, per element
};

/// The cheapest cut with K in `parts` kc blocks, by trying each number of row cuts.
void try_parts(const Kernels& kernels, const Engine& engine, const Product& p, std::size_t memory,
               Index parts, Cut& best) {
  const Index kc = parts == 1 ? p.depth : round_up(ceil_div(p.depth, parts), kRun);
  const Index max_row_cuts = panels(p.a.rows, kernels.*engine.mr);
  const Index max_column_cuts = panels(p.b.rows, kernels.nr);
  Index i = max_row_cuts;
  // More row cuts need fewer column cuts, so one pass with both indices monotonic finds the best.
  for (Index j = 1; j <= max_column_cuts && i >= 1; ++j) {
    const Index columns = ceil_div(max_column_cuts, j) * kernels.nr;
    const auto fits = [&](Index row_cuts) {
      const Index rows = ceil_div(max_row_cuts, row_cuts) * kernels.*engine.mr;
      return bytes_of(kernels, engine, rows, columns, {0, kc}, parts == 1) <= memory;
    };
    if (!fits(i)) continue;
    while (i > 1 && fits(i - 1)) --i;
    const Index moved = parts == 1 ? 0 : parts * ceil_div(p.a.rows * p.b.rows, p.depth);
    const Index cost = j * p.a.rows + i * p.b.rows + moved;
    if (cost < best.cost) {
      best = {ceil_div(max_row_cuts, i) * kernels.*engine.mr, columns, kc, cost};
    }
  }
}

/// From here on two tiles may pack B each for itself: B packed for all leaves the caches, and to
/// write again what all threads have read costs more than to pack twice (bench/AMX_PRODUCTS.md).
constexpr Index kLongDepth = 4096;

/// Few rows: one tile holds them all, or two do, so each K-vector of B is packed once or twice if
/// each tile packs its own, and the packed data stay in L2.
bool has_few_rows(const Kernels& kernels, const Engine& engine, const Product& product) {
  const Index tiles = product.depth < kLongDepth ? 1 : 2;
  return !engine.whole_k && panels(product.a.rows, kernels.*engine.mr) <= tiles * kMaxPanelsMc;
}

/// All of the product as one block, if A fits.
std::vector<BlockPlan> with_own_b(const Kernels& kernels, const Engine& engine,
                                  const Product& product, std::size_t memory) {
  BlockPlan plan{&product, 0, product.a.rows, 0, product.b.rows, product.depth, 0, true, {}};
  const auto panels_a = static_cast<std::size_t>(panels(product.a.rows, kernels.*engine.mr));
  plan.bytes = panels_a * engine.bytes(kernels.*engine.mr, kMaxMr, {0, product.depth}).all();
  if (plan.bytes > memory) return {};
  return {plan};
}

/// B is packed already: rows alone are cut, so that A fits.
std::vector<BlockPlan> with_kept_b(const Kernels& kernels, const Engine& engine,
                                   const Product& product, PanelsOfB kept, std::size_t memory) {
  const Index mr = kernels.*engine.mr;
  const std::size_t of_panel = engine.bytes(static_cast<int>(mr), kMaxMr, {0, product.depth}).all();
  const Index fit = std::max(static_cast<Index>(memory / of_panel), Index{1});
  std::vector<BlockPlan> plans;
  for (Index m = 0; m < product.a.rows; m += fit * mr) {
    BlockPlan plan{
        &product, m,   std::min(fit * mr, product.a.rows - m), 0, product.b.rows, product.depth, 0,
        false,    kept};
    plan.bytes = static_cast<std::size_t>(panels(plan.rows, static_cast<int>(mr))) * of_panel;
    plans.push_back(plan);
  }
  return plans;
}

/// Blocks in order, cut to fit `memory` bytes.
std::vector<BlockPlan> cut(const Kernels& kernels, const Engine& engine, const Product& product,
                           PanelsOfB kept, std::size_t memory) {
  if (!kept.empty()) return with_kept_b(kernels, engine, product, kept, memory);
  if (has_few_rows(kernels, engine, product)) {
    std::vector<BlockPlan> plan = with_own_b(kernels, engine, product, memory);
    if (!plan.empty()) return plan;
  }
  Cut best;
  const Index max_parts = engine.whole_k ? 1 : 2 * ceil_div(product.depth, kRun);
  for (Index parts = 1; parts == 1 || parts < max_parts; parts *= 2) {
    try_parts(kernels, engine, product, memory, parts, best);
    if (best.kc == product.depth && best.rows >= product.a.rows) break;
  }
  std::vector<BlockPlan> plans;
  for (Index n = 0; n < product.b.rows; n += best.columns) {
    for (Index m = 0; m < product.a.rows; m += best.rows) {
      BlockPlan plan{&product,
                     m,
                     std::min(best.rows, product.a.rows - m),
                     n,
                     std::min(best.columns, product.b.rows - n),
                     best.kc,
                     0,
                     false,
                     {}};
      plan.bytes = bytes_of(kernels, engine, plan.rows, plan.columns, {0, plan.kc},
                            plan.kc == product.depth);
      plans.push_back(plan);
    }
  }
  return plans;
}

}  // namespace

bool continues_a(const BlockPlan& before, const BlockPlan& plan) {
  return before.product == plan.product && before.first_row == plan.first_row &&
         before.rows == plan.rows && before.kc == plan.product->depth && plan.kc == before.kc &&
         !before.own_b;
}

std::vector<std::vector<BlockPlan>> batches_of(const Kernels& kernels, const Engine& engine,
                                               const std::vector<Product>& products,
                                               const std::vector<PanelsOfB>& kept,
                                               const PackedRoom& room) {
  std::vector<std::vector<BlockPlan>> batches;
  std::size_t left = 0;
  bool continues = false;
  for (std::size_t i = 0; i < products.size(); ++i) {
    for (const BlockPlan& plan : cut(kernels, engine, products[i], kept[i], room.block)) {
      const bool whole = plan.kc == products[i].depth;
      if (!continues || !whole || plan.bytes > left) {
        batches.emplace_back();
        left = room.batch;
      }
      batches.back().push_back(plan);
      left -= std::min(left, plan.bytes);
      continues = whole;
    }
  }
  return batches;
}

void pack_panel(const Kernels& kernels, const Engine& engine, const Product& product,
                const Factor& factor, const KBlock& k_block, MicroPanel& panel,
                PackScratch& scratch) {
  if (k_block.start == 0) begin_bounds(panel);
  engine.pack(kernels, product, factor, k_block, panel, scratch);
  if (k_block.start + k_block.count == product.depth) set_ends(product, factor, panel);
}

void place_panels_of_b(const Kernels& kernels, const Engine& engine, Index first, Index count,
                       const KBlock& k_block, std::byte* memory, std::vector<MicroPanel>& all) {
  all.resize(static_cast<std::size_t>(panels(count, kernels.nr)));
  const PanelBytes bytes = engine.bytes(kernels.nr, kMaxNr, k_block);
  for (MicroPanel& panel : all) {  // full but for the last
    panel.first = first;
    panel.width = static_cast<int>(std::min<Index>(kernels.nr, count));
    panel.step = kernels.nr;
    panel.scale_step = kMaxNr;
    first += panel.width;
    count -= panel.width;
    if (memory == nullptr) continue;
    place_panel(panel, bytes, memory);
    memory += bytes.all();
  }
}

void set_packed_block(const Kernels& kernels, const Engine& engine, const BlockPlan& plan,
                      std::byte* memory, PackedBlock& packed) {
  packed.product = plan.product;
  packed.engine = &engine;
  packed.k_block = {0, plan.kc};
  packed.own_b = plan.own_b;
  packed.a.resize(static_cast<std::size_t>(panels(plan.rows, kernels.*engine.mr)));
  const auto count = static_cast<Index>(packed.a.size());
  Index first = plan.first_row;
  for (Index i = 0; i < count; ++i) {  // as even as possible
    MicroPanel& panel = packed.a[static_cast<std::size_t>(i)];
    panel.width = static_cast<int>(plan.rows / count + (i < plan.rows % count ? 1 : 0));
    panel.first = first;
    first += panel.width;
    panel.step = engine.full_panels ? kernels.*engine.mr : panel.width;
    panel.scale_step = kMaxMr;
    const PanelBytes bytes = engine.bytes(panel.step, panel.scale_step, packed.k_block);
    place_panel(panel, bytes, memory);
    memory += bytes.all();
  }
  packed.b.clear();
  packed.panels_of_b = plan.kept;
  if (plan.kept.empty()) {
    place_panels_of_b(kernels, engine, plan.first_column, plan.columns, packed.k_block,
                      plan.own_b ? nullptr : memory, packed.b);
    packed.panels_of_b = packed.b;
    memory += packed.b.size() * engine.bytes(kernels.nr, kMaxNr, packed.k_block).all();
  }
  const bool whole = plan.kc == plan.product->depth;
  packed.sums = whole ? nullptr : reinterpret_cast<double*>(memory);
}

void add_tiles(PackedBlock& packed, std::size_t wanted, std::vector<MacroTile>& tiles) {
  const int pa = static_cast<int>(packed.a.size());
  const int pb = static_cast<int>(packed.panels_of_b.size());
  int tall = std::min(packed.own_b ? kMaxPanelsMc : kSquareTilePanels, pa);
  int wide = std::min({kMaxPanelsNc, kMaxTilePairs / tall, pb});
  const auto count = [&] {
    return static_cast<std::size_t>(ceil_div(pa, tall) * ceil_div(pb, wide));
  };
  while (count() < wanted && (tall > 1 || wide > 1)) {
    // Where rows are cut each part packs B again: only if there are fewer tiles than threads.
    if (packed.own_b && wide == 1 && 4 * count() >= wanted) break;
    if (wide >= tall || (packed.own_b && wide > 1)) {
      wide = (wide + 1) / 2;
    } else {
      tall = (tall + 1) / 2;
    }
  }
  for (int b = 0; b < pb; b += wide) {
    for (int a = 0; a < pa; a += tall) {
      tiles.push_back({&packed, a, std::min(a + tall, pa), b, std::min(b + wide, pb)});
    }
  }
}

}  // namespace mxo::cpu
