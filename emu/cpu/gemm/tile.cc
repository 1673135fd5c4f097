// From sums to rounded outputs; those that the bound leaves open go to the superaccumulator.
#include "emu/cpu/gemm/tile.h"

#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emu/cpu/gemm/tile_sums.h"
#include "emu/reference/dot.h"

namespace mxo::cpu {

void TileScratchDelete::operator()(TileScratch* scratch) const { delete scratch; }

TileScratchPtr make_tile_scratch() {
  TileScratchPtr scratch(new TileScratch);
  scratch->pack = make_pack_scratch();
  return scratch;
}

double* block_of(const Tile& tile, TileScratch& scratch, int i, int j) {
  const Job& job = *tile.job;
  if (job.sums != nullptr) {
    const auto row = static_cast<std::size_t>(tile.a0 + i);
    return job.sums + (row * job.b.size() + static_cast<std::size_t>(tile.b0 + j)) * kBlockSums;
  }
  return scratch.sums[j * (tile.a1 - tile.a0) + i];
}

namespace {

constexpr std::uint32_t kNanF32 = 0x7FC00000u;
constexpr std::uint32_t kNanBf16 = 0x7FC0u;
constexpr std::size_t kAlign = 64;  // of panels

RowEnd end_of(const Product& product, const Factor& factor, const Panel& panel, int lane) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const LineBound& bound = panel.bound[lane];
  RowEnd end{0.0, 0.0, bound.roundings, 1.0};
  if (product.scaling == Scaling::rowwise) {
    end.scale = static_cast<double>(factor.line(panel.first + lane).scale(0));
  }
  if (bound.special || !std::isfinite(end.scale)) return {kInfinity, kInfinity, 0.0, 1.0};
  if (bound.quantum == LineBound::kNone) return end;  // all zero
  end.norm = std::sqrt(bound.norm2) * (1.0 + 0x1p-10);
  end.reach = std::ldexp(end.norm, -bound.quantum);
  return end;
}

/// Writes rounded outputs of one product.
class Writer {
 public:
  explicit Writer(const Product& product)
      : product_(product),
        wide_(product.out.dtype == Dtype::f32),
        streams_(product.a.rows * product.b.rows * (wide_ ? 4 : 2) >= kStreamedBytes) {}

  void put(Index row, Index column, std::uint32_t bits) const {
    const Index at = offset(row, column);
    if (wide_) {
      static_cast<std::uint32_t*>(product_.out.data)[at] = bits;
    } else {
      static_cast<std::uint16_t*>(product_.out.data)[at] = static_cast<std::uint16_t>(bits);
    }
  }
  /// `bits` as Kernels::round leaves them.
  void put_row(Index row, Index column, int n, const void* bits) const {
    if (product_.out_column_step == 1) {
      const std::size_t size = wide_ ? 4 : 2;
      std::byte* to = static_cast<std::byte*>(product_.out.data) +
                      static_cast<std::size_t>(offset(row, column)) * size;
      const std::size_t bytes = static_cast<std::size_t>(n) * size;
      if (streams_ && (reinterpret_cast<std::uintptr_t>(to) | bytes) % kLine == 0) {
        stream(to, bits, bytes);
      } else {
        std::memcpy(to, bits, bytes);
      }
      return;
    }
    for (int i = 0; i < n; ++i) {
      put(row, column + i,
          wide_ ? static_cast<const std::uint32_t*>(bits)[i]
                : static_cast<const std::uint16_t*>(bits)[i]);
    }
  }
  void put_nan(Index row, Index column) const { put(row, column, wide_ ? kNanF32 : kNanBf16); }
  void put_exact(Index row, Index column) const {
    const ExactSum sum = exact_dot(product_.a.line(row), product_.b.line(column), product_.depth);
    put(row, column,
        wide_ ? bit_cast<std::uint32_t>(sum.round_to_f32()) : sum.round_to_bf16().bits);
  }
  void put_f32(Index row, Index column, float value) const {
    if (std::isnan(value)) return put_nan(row, column);
    put(row, column, wide_ ? bit_cast<std::uint32_t>(value) : encode<kBF16>(value).bits);
  }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr Index kStreamedBytes = Index{4} << 20;

  /// Whole lines of a large result do not pass through the caches.
  static void stream(std::byte* to, const void* bits, std::size_t bytes) {
    const auto* from = static_cast<const __m128i*>(bits);
    for (std::size_t i = 0; i < bytes / 16; ++i) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, _mm_load_si128(from + i));
    }
  }

  Index offset(Index row, Index column) const {
    return product_.out_start + row * product_.out_row_step + column * product_.out_column_step;
  }
  const Product& product_;
  bool wide_;
  bool streams_;
};

void write_exact(const Kernels& kernels, const Product& product, const Panel& a, const Panel& b,
                 const RowEnd* rows, const ColumnEnds& columns, const double* sums) {
  const Writer writer(product);
  const double reach = *std::max_element(columns.reach, columns.reach + b.width);
  for (int m = 0; m < a.width; ++m) {
    alignas(64) std::uint32_t bits[kMaxLanesB];
    if (product.scaling != Scaling::rowwise && rows[m].reach * reach <= 0x1p53) {
      kernels.round_exact(sums + m * kernels.lanes_b, b.width, product.out.dtype, bits);
      writer.put_row(a.first + m, b.first, b.width, bits);
      continue;
    }
    std::uint32_t open = kernels.round(rows[m], columns, sums + m * kernels.lanes_b, b.width,
                                       product.out.dtype, bits);
    writer.put_row(a.first + m, b.first, b.width, bits);
    for (; open != 0; open &= open - 1) {
      const int n = std::countr_zero(open);
      if (a.bound[m].nan || b.bound[n].nan) {
        writer.put_nan(a.first + m, b.first + n);
      } else {
        writer.put_exact(a.first + m, b.first + n);
      }
    }
  }
}

void write_chain(const Kernels& kernels, const Product& product, const Panel& a, const Panel& b,
                 const float* sums) {
  const Writer writer(product);
  for (int m = 0; m < a.width; ++m) {
    for (int n = 0; n < b.width; ++n) {
      float value = sums[m * kernels.lanes_b + n];
      if (product.scaling == Scaling::rowwise) {
        value = value * product.a.line(a.first + m).scale(0) * product.b.line(b.first + n).scale(0);
      }
      writer.put_f32(a.first + m, b.first + n, value);
    }
  }
}

void write_tile(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  const Job& job = *part.tile->job;
  const Product& product = *job.product;
  RowEnd rows[kTilePanelsA][kMaxLanesA];
  for (int i = 0; i < part.tall() && job.engine != Engine::chain; ++i) {
    const Panel& a = part.a[i];
    for (int m = 0; m < a.width; ++m) rows[i][m] = end_of(product, product.a, a, m);
  }
  for (int j = 0; j < part.wide(); ++j) {
    const Panel& b = part.b[j];
    ColumnEnds columns = {};
    for (int n = 0; n < b.width && job.engine != Engine::chain; ++n) {
      const RowEnd end = end_of(product, product.b, b, n);
      columns.reach[n] = end.reach;
      columns.norm[n] = end.norm;
      columns.roundings[n] = end.roundings;
      columns.scale[n] = end.scale;
    }
    for (int i = 0; i < part.tall(); ++i) {
      const double* sums = block_of(*part.tile, scratch, i, j);
      if (job.engine == Engine::chain) {
        write_chain(kernels, product, part.a[i], b, reinterpret_cast<const float*>(sums));
      } else {
        write_exact(kernels, product, part.a[i], b, rows[i], columns, sums);
      }
    }
  }
  _mm_sfence();  // streamed stores become visible before the threads join
}

void add_part(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  switch (part.tile->job->engine) {
    case Engine::int16: sum_int16(kernels, part, scratch); break;
    case Engine::f64: sum_f64(kernels, part, scratch); break;
    case Engine::chain: sum_chain(kernels, part, scratch); break;
  }
  if (kernels.end != nullptr) kernels.end();
}

/// All of the depth, with B packed a part at a time into memory that stays in the second cache.
TilePart add_with_own_b(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  TilePart part{&tile, job.a.data() + tile.a0, scratch.own_b, {0, 0}, 0};
  const Depth most{0, std::min(kOwnDepth, job.depth.count)};
  const std::size_t bytes = panel_bytes(job.engine, kernels.lanes_b, kMaxLanesB, most);
  scratch.own_memory.resize(bytes * kTilePanelsB + kAlign);
  std::byte* memory = scratch.own_memory.data();
  memory += (kAlign - reinterpret_cast<std::uintptr_t>(memory) % kAlign) % kAlign;
  for (int j = 0; j < part.wide(); ++j) {
    Panel& b = scratch.own_b[j];
    std::vector<Rest> rests = std::move(b.rests);  // keeps its room
    b = job.b[static_cast<std::size_t>(tile.b0 + j)];
    b.rests = std::move(rests);
  }
  while (part.depth.start < job.depth.count) {
    part.depth.count = std::min(kOwnDepth, job.depth.count - part.depth.start);
    part.first_of_a = part.depth.start / kRun;
    for (int j = 0; j < part.wide(); ++j) {
      Panel& b = scratch.own_b[j];
      place_panel(b, job.engine, part.depth, memory + static_cast<std::size_t>(j) * bytes);
      pack_panel(kernels, job.engine, *job.product, job.product->b, part.depth, b, *scratch.pack);
    }
    add_part(kernels, part, scratch);
    part.depth.start += part.depth.count;
  }
  return part;
}

}  // namespace

void compute_tile(const Kernels& kernels, const Tile& tile, TileScratch& scratch) {
  const Job& job = *tile.job;
  if (job.first_part()) {
    for (int j = 0; j < tile.b1 - tile.b0; ++j) {
      for (int i = 0; i < tile.a1 - tile.a0; ++i) {
        std::memset(block_of(tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
      }
    }
  }
  if (job.own_b) return write_tile(kernels, add_with_own_b(kernels, tile, scratch), scratch);
  const TilePart part{&tile, job.a.data() + tile.a0, job.b.data() + tile.b0, job.depth, 0};
  add_part(kernels, part, scratch);
  if (job.last_part()) write_tile(kernels, part, scratch);
}

}  // namespace mxo::cpu
