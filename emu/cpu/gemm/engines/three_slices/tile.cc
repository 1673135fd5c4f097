// Loops over the panels of a tile of digits, some chunks of the depth at a time.
#include "emu/cpu/gemm/engines/three_slices/tile.h"

#include <algorithm>
#include <cstring>

#include "emu/cpu/gemm/engines/three_slices/pair.h"
#include "emu/cpu/gemm/tiles/pair_rows.h"
#include "emu/cpu/gemm/tiles/tile_write.h"
#include "emu/cpu/simd/streaming.h"

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
        writer_(*part.tile->job->product),
        chunks_(ceil_div(part.depth.count, kChunk)) {}

  void compute() {
    if (chunks_ <= kMostChunksAtOnce) {
      scratch_.digits.resize(2);
      return pairs_in_turn(
          part_, kHalves, [this](int i, int j) { return takes(i, j); },
          [this](const PairInTurn& pair, int half) { add(pair, half, 0, chunks_); },
          [this](const PairInTurn& pair, int first, int past) { write(pair, first, past); });
    }
    scratch_.digits.resize(kTilePairs);
    for (Index first = 0; first < chunks_; first += kDigitSpanChunks) {
      const Index past = std::min<Index>(first + kDigitSpanChunks, chunks_);
      for (int j = 0; j < part_.wide(); ++j) {
        for (int half = 0; half < kHalves; ++half) {
          for (int i = 0; i < part_.tall(); ++i) {
            if (takes(i, j)) add({i, j, j * part_.tall() + i}, half, first, past);
          }
        }
        for (int i = 0; i < part_.tall() && past == chunks_; ++i) {
          if (takes(i, j)) write({i, j, j * part_.tall() + i}, 0, kTileLanes);
        }
      }
    }
  }

 private:
  bool takes(int i, int j) const { return !part_.a[i].dense && !part_.b[j].dense; }

  void add(const PairInTurn& pair, int half, Index first, Index past) {
    const auto* a = static_cast<const std::int8_t*>(part_.a[pair.a].data);
    const auto* b = static_cast<const std::int8_t*>(part_.b[pair.b].data) +
                    half * part_.depth.runs() * kChunks * kDigitChunkBytes;
    kernels_.add_digits(static_cast<int>(past - first), a + first * kDigitChunkBytes,
                        b + first * kDigitChunkBytes, first != 0,
                        scratch_.digits[static_cast<std::size_t>(pair.block)].halves[half]);
  }

  void write(const PairInTurn& of, int first, int past) {
    const Panel& a = part_.a[of.a];
    const Panel& b = part_.b[of.b];
    const DigitSums* halves = scratch_.digits[static_cast<std::size_t>(of.block)].halves;
    const DigitPair pair(part_.depth, a, b, halves);
    const auto round = [&](int begin, int end, RoundedRows& to) {
      round_sums(begin, end, halves, a.errors, b.errors, to);
    };
    const auto sum_of = [&](int m, int n) { return pair.sum(m, n); };
    write_rows(writer_, a, b, first, past, round, sum_of, scratch_.rows);
  }

  const Kernels& kernels_;
  const TilePart& part_;
  TileScratch& scratch_;
  Writer writer_;
  Index chunks_;
};

}  // namespace

void compute_digits(const Kernels& kernels, const TilePart& part, TileScratch& scratch) {
  if (kernels.begin != nullptr) kernels.begin();
  DigitTile(kernels, part, scratch).compute();
  if (kernels.end != nullptr) kernels.end();
  compute_dense(kernels, part, scratch);
  finish_streams();  // before the threads join
}

}  // namespace mxo::cpu
