// Loops over the panels of a tile of digits, some chunks of the depth at a time.
#include "emu/cpu/gemm/digit_tile.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emu/cpu/gemm/digit_pair.h"
#include "emu/cpu/gemm/tile_write.h"
#include "emu/cpu/gemm/writer.h"

namespace mxo::cpu {
namespace {

constexpr int kHalves = kMaxLanesB / kTileLanes;
/// A depth of so many chunks is summed at once, and rounded while its sums are in the first cache.
constexpr Index kMostChunksAtOnce = 12;

class DigitTile {
 public:
  DigitTile(const Kernels& kernels, const TilePart& part, TileScratch& scratch)
      : kernels_(kernels),
        part_(part),
        scratch_(scratch),
        product_(*part.tile->job->product),
        writer_(product_),
        chunks_(ceil_div(part.depth.count, kChunk)) {}

  void compute() {
    if (chunks_ <= kMostChunksAtOnce) return compute_at_once();
    scratch_.digits.resize(kTilePairs);
    for (Index first = 0; first < chunks_; first += kDigitSpanChunks) {
      const Index past = std::min<Index>(first + kDigitSpanChunks, chunks_);
      for (int j = 0; j < part_.wide(); ++j) {
        for (int half = 0; half < kHalves; ++half) {
          for (int i = 0; i < part_.tall(); ++i) {
            if (!is_dense(i, j)) add({i, j, j * part_.tall() + i}, half, first, past);
          }
        }
        for (int i = 0; i < part_.tall() && past == chunks_; ++i) {
          if (!is_dense(i, j)) round({i, j, j * part_.tall() + i}, 0, kTileLanes);
        }
      }
    }
  }

  bool is_dense(int i, int j) const { return part_.a[i].dense || part_.b[j].dense; }

 private:
  /// Panel a of A and b of B, and the block of the scratch that holds their sums.
  struct Pair {
    int a, b, block;
  };

  /// The sums of a pair are rounded between the halves of the next one's, so that the processor
  /// has both in flight.
  void compute_at_once() {
    scratch_.digits.resize(2);
    Pair last{-1, 0, 1};
    const auto round_last = [&](int first, int past) {
      if (last.a >= 0) round(last, first, past);
    };
    for (int j = 0; j < part_.wide(); ++j) {
      for (int i = 0; i < part_.tall(); ++i) {
        if (is_dense(i, j)) continue;
        const Pair pair{i, j, 1 - last.block};
        add(pair, 0, 0, chunks_);
        round_last(0, kTileLanes / 2);
        add(pair, 1, 0, chunks_);
        round_last(kTileLanes / 2, kTileLanes);
        last = pair;
      }
    }
    round_last(0, kTileLanes);
  }

  void add(const Pair& pair, int half, Index first, Index past) {
    const auto* a = static_cast<const std::int8_t*>(part_.a[pair.a].data);
    const auto* b = static_cast<const std::int8_t*>(part_.b[pair.b].data) +
                    half * part_.depth.runs() * kChunks * kDigitChunkBytes;
    kernels_.add_digits(static_cast<int>(past - first), a + first * kDigitChunkBytes,
                        b + first * kDigitChunkBytes, first != 0,
                        scratch_.digits[static_cast<std::size_t>(pair.block)].halves[half]);
  }

  void round(const Pair& of, int first, int past) {
    const Panel& a = part_.a[of.a];
    const Panel& b = part_.b[of.b];
    past = std::min(past, a.width);
    const DigitSums* halves = scratch_.digits[static_cast<std::size_t>(of.block)].halves;
    const bool direct = b.width == kMaxLanesB && (a.specials | b.specials) == 0;
    DigitRounding& to = scratch_.rounding;
    to.out = direct ? writer_.row(a.first, b.first) : nullptr;
    to.step = writer_.row_step();
    to.streams = writer_.streams(to.out);
    round_digits(first, past, halves, a.digits, b.digits, to);
    const std::uint32_t all = 0xFFFFFFFFu >> (kMaxLanesB - b.width);
    for (int m = first; m < past; ++m) {
      if (to.out != nullptr && to.open[m] == 0) continue;
      const bool special = (a.specials >> m & 1u) != 0;
      const std::uint32_t open = special ? all : (to.open[m] | b.specials) & all;
      finish_row(DigitPair(part_.depth, a, b, halves), a, b, m, open, to.left[m]);
    }
  }

  void finish_row(const DigitPair& pair, const Panel& a, const Panel& b, int m, std::uint32_t open,
                  std::uint16_t* bits) const {
    std::uint32_t undecided = 0;
    for (; open != 0; open &= open - 1) {
      const int n = std::countr_zero(open);
      if (!pair.round(m, n, bits[n])) undecided |= 1u << n;
    }
    writer_.put_row(a.first + m, b.first, b.width, bits);
    for (; undecided != 0; undecided &= undecided - 1) {
      const int n = std::countr_zero(undecided);
      if (a.bound[m].nan || b.bound[n].nan) {
        writer_.put_nan(a.first + m, b.first + n);
      } else {
        writer_.put_exact(a.first + m, b.first + n);
      }
    }
  }

  const Kernels& kernels_;
  const TilePart& part_;
  TileScratch& scratch_;
  const Product& product_;
  Writer writer_;
  Index chunks_;
};

/// The pairs that digits leave, through f64.
void compute_dense(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  for (int j = 0; j < part.wide(); ++j) {
    for (int i = 0; i < part.tall(); ++i) {
      std::memset(block_of(*part.tile, scratch, i, j), 0, sizeof(double) * kBlockSums);
    }
  }
  sum_dense(kernels, part, scratch);
  for (int j = 0; j < part.wide(); ++j) {
    for (int i = 0; i < part.tall(); ++i) {
      if (!part.a[i].dense && !part.b[j].dense) continue;
      write_exact(kernels, *part.tile->job->product, part.a[i], part.b[j],
                  block_of(*part.tile, scratch, i, j));
    }
  }
}

}  // namespace

void compute_digits(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  DigitTile(kernels, part, scratch).compute();
  if (kernels.end != nullptr) kernels.end();
  const auto dense = [](const Panel& panel) { return panel.dense; };
  if (std::any_of(part.a, part.a + part.tall(), dense) ||
      std::any_of(part.b, part.b + part.wide(), dense)) {
    compute_dense(kernels, part, scratch);
  }
  _mm_sfence();  // streamed stores become visible before the threads join
}

}  // namespace mxo::cpu
