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
    if (chunks_ <= kMostChunksAtOnce) {
      scratch_.digits.resize(1);
      for (int j = 0; j < part_.wide(); ++j) {
        for (int i = 0; i < part_.tall(); ++i) {
          if (is_dense(i, j)) continue;
          for (int half = 0; half < kHalves; ++half) add(i, j, half, 0, chunks_, 0);
          round(i, j, 0);
        }
      }
      return;
    }
    scratch_.digits.resize(kTilePairs);
    for (Index first = 0; first < chunks_; first += kDigitSpanChunks) {
      const Index past = std::min<Index>(first + kDigitSpanChunks, chunks_);
      for (int j = 0; j < part_.wide(); ++j) {
        for (int half = 0; half < kHalves; ++half) {
          for (int i = 0; i < part_.tall(); ++i) {
            if (!is_dense(i, j)) add(i, j, half, first, past, j * part_.tall() + i);
          }
        }
        for (int i = 0; i < part_.tall() && past == chunks_; ++i) {
          if (!is_dense(i, j)) round(i, j, j * part_.tall() + i);
        }
      }
    }
  }

  bool is_dense(int i, int j) const { return part_.a[i].dense || part_.b[j].dense; }

 private:
  void add(int i, int j, int half, Index first, Index past, int block) {
    const auto* a = static_cast<const std::int8_t*>(part_.a[i].data);
    const auto* b = static_cast<const std::int8_t*>(part_.b[j].data) +
                    half * part_.depth.runs() * kChunks * kDigitChunkBytes;
    kernels_.add_digits(static_cast<int>(past - first), a + first * kDigitChunkBytes,
                        b + first * kDigitChunkBytes, first != 0,
                        scratch_.digits[static_cast<std::size_t>(block)].halves[half]);
  }

  void round(int i, int j, int block) {
    const Panel& a = part_.a[i];
    const Panel& b = part_.b[j];
    const DigitSums* halves = scratch_.digits[static_cast<std::size_t>(block)].halves;
    std::uint32_t specials = 0;
    for (int n = 0; n < b.width; ++n) specials |= (b.bound[n].special ? 1u : 0u) << n;
    bool special_row = false;
    for (int m = 0; m < a.width; ++m) special_row = special_row || a.bound[m].special;
    const bool direct = b.width == kMaxLanesB && specials == 0 && !special_row;
    DigitRounding& to = scratch_.rounding;
    to.out = direct ? writer_.row(a.first, b.first) : nullptr;
    to.step = writer_.row_step();
    to.streams = writer_.streams(to.out);
    round_digits(a.width, halves, a.digits, b.digits, to);
    const std::uint32_t all = 0xFFFFFFFFu >> (kMaxLanesB - b.width);
    const DigitPair pair(part_.depth, a, b, halves);
    for (int m = 0; m < a.width; ++m) {
      if (to.open[m] == 0 && to.out != nullptr) continue;
      const std::uint32_t open = a.bound[m].special ? all : (to.open[m] | specials) & all;
      finish_row(pair, a, b, m, open, to.left[m]);
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
