// Cuts that pack as little as possible more than once.
#include "emu/cpu/gemm/plan/plan.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "emu/cpu/gemm/tiles/tile_sums.h"

namespace mxo::cpu {
namespace {

Index panels(Index lines, int lanes) { return ceil_div(lines, lanes); }

/// A line has one unit, which takes all of it to find.
bool packs_whole_lines(Engine engine) { return engine == Engine::digits || engine == Engine::bf16; }

int lanes_a(const Kernels& kernels, Engine engine) {
  const bool wide = engine != Engine::f64 && engine != Engine::chain;
  return wide ? kernels.lanes_int16 : kernels.lanes_a;
}

std::size_t bytes_of(const Kernels& kernels, Engine engine, Index rows, Index columns,
                     const Depth& part, bool whole) {
  const auto pa = static_cast<std::size_t>(panels(rows, lanes_a(kernels, engine)));
  const auto pb = static_cast<std::size_t>(panels(columns, kernels.lanes_b));
  const std::size_t sums = whole ? 0 : pa * pb * kBlockSums * sizeof(double);
  return pa * panel_bytes(engine, lanes_a(kernels, engine), kMaxLanesA, part) +
         pb * panel_bytes(engine, kernels.lanes_b, kMaxLanesB, part) + sums;
}

struct Cut {
  Index rows = 0, columns = 0, part = 0;
  Index cost = std::numeric_limits<Index>::max();  ///< lines packed, and sums moved, per element
};

/// The cheapest cut with the depth in `parts`, by trying each number of row pieces.
void try_parts(const Kernels& kernels, Engine engine, const Product& p, std::size_t memory,
               Index parts, Cut& best) {
  const Index part = parts == 1 ? p.depth : round_up(ceil_div(p.depth, parts), kRun);
  const Index most_row_pieces = panels(p.a.rows, lanes_a(kernels, engine));
  const Index most_column_pieces = panels(p.b.rows, kernels.lanes_b);
  Index i = most_row_pieces;
  // More row pieces allow fewer column pieces, so one walk along the staircase finds all.
  for (Index j = 1; j <= most_column_pieces && i >= 1; ++j) {
    const Index columns = ceil_div(most_column_pieces, j) * kernels.lanes_b;
    const auto fits = [&](Index row_pieces) {
      const Index rows = ceil_div(most_row_pieces, row_pieces) * lanes_a(kernels, engine);
      return bytes_of(kernels, engine, rows, columns, {0, part}, parts == 1) <= memory;
    };
    if (!fits(i)) continue;
    while (i > 1 && fits(i - 1)) --i;
    const Index moved = parts == 1 ? 0 : parts * ceil_div(p.a.rows * p.b.rows, p.depth);
    const Index cost = j * p.a.rows + i * p.b.rows + moved;
    if (cost < best.cost) {
      best = {ceil_div(most_row_pieces, i) * lanes_a(kernels, engine), columns, part, cost};
    }
  }
}

}  // namespace

namespace {

/// Few rows: a tile holds them all, so that each line of B is packed once even if each tile packs
/// its own, and what it packs need not leave the second cache.
bool has_few_rows(const Kernels& kernels, Engine engine, const Product& product) {
  return !packs_whole_lines(engine) &&
         panels(product.a.rows, lanes_a(kernels, engine)) <= kTilePanelsA;
}

/// All of the product as one piece, if A fits.
std::vector<Piece> with_own_b(const Kernels& kernels, Engine engine, const Product& product,
                              std::size_t memory) {
  Piece piece{&product, 0, product.a.rows, 0, product.b.rows, product.depth, 0, true};
  const auto panels_a = static_cast<std::size_t>(panels(product.a.rows, lanes_a(kernels, engine)));
  piece.bytes =
      panels_a * panel_bytes(engine, lanes_a(kernels, engine), kMaxLanesA, {0, product.depth});
  if (piece.bytes > memory) return {};
  return {piece};
}

}  // namespace

std::vector<Piece> cut(const Kernels& kernels, Engine engine, const Product& product,
                       std::size_t memory) {
  if (has_few_rows(kernels, engine, product)) {
    std::vector<Piece> piece = with_own_b(kernels, engine, product, memory);
    if (!piece.empty()) return piece;
  }
  Cut best;
  const Index most_parts = packs_whole_lines(engine) ? 1 : 2 * ceil_div(product.depth, kRun);
  for (Index parts = 1; parts == 1 || parts < most_parts; parts *= 2) {
    try_parts(kernels, engine, product, memory, parts, best);
    if (best.part == product.depth && best.rows >= product.a.rows) break;
  }
  std::vector<Piece> pieces;
  for (Index n = 0; n < product.b.rows; n += best.columns) {
    for (Index m = 0; m < product.a.rows; m += best.rows) {
      Piece piece{&product,
                  m,
                  std::min(best.rows, product.a.rows - m),
                  n,
                  std::min(best.columns, product.b.rows - n),
                  best.part,
                  0,
                  false};
      piece.bytes = bytes_of(kernels, engine, piece.rows, piece.columns, {0, piece.part},
                             piece.part == product.depth);
      pieces.push_back(piece);
    }
  }
  return pieces;
}

namespace {
/// Enough to keep the threads busy, and little enough to be in the caches when it is multiplied.
constexpr std::size_t kBatchBytes = std::size_t{8} << 20;
}  // namespace

std::vector<std::vector<Piece>> batches_of(const Kernels& kernels, Engine engine,
                                           const std::vector<Product>& products,
                                           std::size_t memory) {
  std::vector<std::vector<Piece>> batches;
  std::size_t left = 0;
  bool open = false;
  for (const Product& product : products) {
    for (const Piece& piece : cut(kernels, engine, product, memory)) {
      const bool whole = piece.part == product.depth;
      if (!open || !whole || piece.bytes > left) {
        batches.emplace_back();
        left = std::min(memory, kBatchBytes);
      }
      batches.back().push_back(piece);
      left -= std::min(left, piece.bytes);
      open = whole;
    }
  }
  return batches;
}

void set_job(const Kernels& kernels, Engine engine, const Piece& piece, std::byte* memory,
             Job& job) {
  job.product = piece.product;
  job.engine = engine;
  job.depth = {0, piece.part};
  job.own_b = piece.own_b;
  const bool full =
      packs_whole_lines(engine) || (engine == Engine::int16 && kernels.planes != nullptr);
  const auto place = [&](std::vector<Panel>& all, Index first, Index lines, int lanes,
                         bool padded) {
    const Index count = panels(lines, lanes);
    all.resize(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i) {
      // B's panels are full but the last; A's are as even as they can be.
      Panel& panel = all[static_cast<std::size_t>(i)];
      const Index even = lines / count + (i < lines % count ? 1 : 0);
      panel.width = static_cast<int>(padded ? std::min<Index>(lanes, lines - i * lanes) : even);
      panel.first = first;
      first += panel.width;
      panel.step = padded || full ? lanes : panel.width;
      panel.scale_step = padded ? kMaxLanesB : kMaxLanesA;
      if (padded && job.own_b) continue;
      place_panel(panel, engine, job.depth, memory);
      memory += panel_bytes(engine, panel.step, panel.scale_step, job.depth);
    }
  };
  place(job.a, piece.first_row, piece.rows, lanes_a(kernels, engine), false);
  place(job.b, piece.first_column, piece.columns, kernels.lanes_b, true);
  const bool whole = piece.part == piece.product->depth;
  job.sums = whole ? nullptr : reinterpret_cast<double*>(memory);
}

void add_tiles(Job& job, std::size_t wanted, std::vector<Tile>& tiles) {
  const int pa = static_cast<int>(job.a.size());
  const int pb = static_cast<int>(job.b.size());
  int tall = std::min(job.own_b ? kTilePanelsA : kTileSide, pa);
  int wide = std::min({kTilePanelsB, kTilePairs / tall, pb});
  const auto count = [&] {
    return static_cast<std::size_t>(ceil_div(pa, tall) * ceil_div(pb, wide));
  };
  while (count() < wanted && (tall > 1 || wide > 1)) {
    if (wide >= tall || (job.own_b && wide > 1)) {
      wide = (wide + 1) / 2;
    } else {
      tall = (tall + 1) / 2;
    }
  }
  for (int b = 0; b < pb; b += wide) {
    for (int a = 0; a < pa; a += tall) {
      tiles.push_back({&job, a, std::min(a + tall, pa), b, std::min(b + wide, pb)});
    }
  }
}

}  // namespace mxo::cpu
