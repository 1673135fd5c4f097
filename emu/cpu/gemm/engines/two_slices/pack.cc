// Codes to panels of two slices, a span of runs at a time: one unit a K-vector and span, unless
// the scales of the span lie too far apart.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "emu/cpu/gemm/engines/tile_kernels.h"
#include "emu/exact/integer_unit.h"

namespace mxo::cpu {
namespace {

static_assert(kSpanBlocks == BlockScales::kMax);

class TwoSlicePacker : IntegerPacker {
 public:
  TwoSlicePacker(const Kernels& kernels, const Product& product, const Factor& factor,
                 const KBlock& k_block, MicroPanel& panel, PackScratch& scratch)
      : IntegerPacker(kernels, product, factor, k_block, panel, scratch),
        table_(slice_table(factor.codes.dtype)),
        is_b_(panel.scale_step == kMaxNr) {}

  void pack() {
    begin();
    const Index step = span_runs(product_.form);
    for (Index first = 0; first < k_block_.runs(); first += step) {
      pack_span(first, std::min(first + step, k_block_.runs()));
    }
    end();
    set_errors();
  }

 private:
  /// A K-vector in the current span.
  struct KVector {
    BlockScales scales;
    double weight;   ///< of its unit
    double squares;  ///< upper bound of the sum of squares of its unscaled values
    SliceTally tally;

    bool is_special() const { return scales.nan || scales.infinite; }
  };

  void pack_span(Index first, Index end) {
    const Index last = std::min(end * kRun, k_block_.count);
    const int blocks = static_cast<int>(ceil_div(last - first * kRun, kBlock));
    all_joint_ = true;
    for (int lane = 0; lane < panel_.width; ++lane) begin_span(lane, first, blocks);
    set_weights(first, end);
    if (all_joint_ && factor_.step == 1 && last == end * kRun) {
      pack_k_vectors(first, static_cast<int>(end - first));
    } else {
      pack_runs(first, end);
    }
    for (int lane = 0; lane < panel_.width; ++lane) end_span(lane, first, end);
  }

  /// For a span in which each K-vector has one unit; otherwise block by block.
  void set_weights(Index first, Index end) {
    for (Index run = first; run < end; ++run) {
      for (int b = 0; b < kRunBlocks; ++b) {
        double* weights = &weight_at(run, b, 0);
        if (all_joint_) {
          std::copy(weights_, weights_ + panel_.scale_step, weights);
        } else {
          std::fill(weights, weights + panel_.scale_step, 0.0);
        }
      }
    }
  }

  /// Whole runs where a K-vector's codes are contiguous: one K-vector at a time.
  void pack_k_vectors(Index first, int runs) {
    const std::uint8_t* codes = static_cast<const std::uint8_t*>(factor_.codes.data) +
                                factor_.start + panel_.first * factor_.row_step + k_block_.start +
                                first * kRun;
    std::int8_t* to = run_data(first);
    std::memset(with_residuals_, 0, sizeof(with_residuals_));
    for (int begin = 0; begin < (is_b_ ? kMaxNr : panel_.width); begin += kTileLanes) {
      const int lanes = std::clamp(panel_.width - begin, 0, kTileLanes);
      for (int i = 0; i < lanes; ++i) {
        const int lane = begin + i;
        pack_whole_k_vector(
            lane, runs, codes + lane * factor_.row_step,
            is_b_ ? SliceTarget{scratch_.spans[0][i], scratch_.spans[1][i], kChunk, kRun}
                  : place_in_a(to, lane));
      }
      if (is_b_) transpose_half(begin / kTileLanes, lanes, runs, to);
    }
    for (int run = 0; run < runs; ++run) {
      begin_run(first + run);
      for (std::uint32_t left = with_residuals_[run]; left != 0; left &= left - 1) {
        const int lane = std::countr_zero(left);
        keep_residuals_of(lane, run * kRunBlocks, codes + lane * factor_.row_step + run * kRun,
                          k_vectors_[lane].tally.residual + run * kChunks);
      }
    }
  }

  void pack_whole_k_vector(int lane, int runs, const std::uint8_t* codes, const SliceTarget& to) {
    KVector& vector = k_vectors_[lane];
    const int chunks = runs * kChunks;
    if (!vector.is_special()) {
      SliceTally& tally = vector.tally;
      kernels_.tiles->encode_two_slices(table_, chunks, codes, vector.scales.shift, to, tally);
      // Prefetch the next span to L2: too many streams for the hardware prefetcher.
      for (int i = chunks; i < 2 * chunks; ++i) __builtin_prefetch(codes + i * kChunk, 0, 2);
      if (!tally.special) return find_residuals(lane, runs);
      for (int run = 0; run < runs; ++run) mark_special(lane, has_nan(codes + run * kRun));
    }
    clear(to, chunks);
  }

  void find_residuals(int lane, int runs) {
    const auto& residual = k_vectors_[lane].tally.residual;
    for (int run = 0; run < runs; ++run) {
      const bool any = (residual[run * kChunks] | residual[run * kChunks + 1]) != 0;
      with_residuals_[run] |= std::uint32_t{any} << lane;
    }
  }

  void transpose_half(int half, int lanes, int runs, std::int8_t* to) {
    const auto step = static_cast<int>(sizeof(scratch_.spans[0][0]));
    for (int slice = 0; slice < 2; ++slice) {
      auto& k_vectors = scratch_.spans[slice];
      for (int lane = lanes; lane < kTileLanes; ++lane)
        std::memset(k_vectors[lane], 0, sizeof(k_vectors[0]));
      for (int run = 0; run < runs; ++run) {
        transpose_slice(half, slice, kChunks, k_vectors[0] + run * kRun, step,
                        to + run * 2 * kRunBytes);
      }
    }
  }

  /// 16 K-vectors of bytes of one slice, `step` apart, to the first tiles of a half of a run of B.
  void transpose_slice(int half, int slice, int chunks, const std::int8_t* k_vectors, int step,
                       std::int8_t* run_b) const {
    kernels_.interleave(
        kTileLanes, chunks * kChunk / 4, reinterpret_cast<const std::uint32_t*>(k_vectors),
        step / 4, reinterpret_cast<std::uint32_t*>(run_b + tile_of_b(half, slice, 0)), kTileLanes);
  }

  std::int8_t* run_data(Index run) const {
    return static_cast<std::int8_t*>(panel_.data) + run * (is_b_ ? 2 : 1) * kRunBytes;
  }
  static SliceTarget place_in_a(std::int8_t* run, int lane) {
    return {run + tile_of_a(0, 0) + lane * kChunk, run + tile_of_a(1, 0) + lane * kChunk,
            kTileBytes, kRunBytes};
  }

  void pack_runs(Index first, Index end) {
    for (int lane = panel_.width; lane < panel_.step && is_b_; ++lane) {
      for (int slice = 0; slice < 2; ++slice) std::memset(scratch_.slices[slice][lane], 0, kRun);
    }
    for (Index run = first; run < end; ++run) {
      const int block = static_cast<int>(run - first) * kRunBlocks;
      begin_run(run);
      pack_run(run, block);
    }
  }

  void begin_span(int lane, Index first, int blocks) {
    KVector& vector = k_vectors_[lane];
    read_scales(product_.form, factor_, panel_.first + lane, k_block_.start + first * kRun, blocks,
                vector.scales);
    if (vector.scales.nan || vector.scales.infinite) mark_special(lane, vector.scales.nan);
    vector.weight =
        power_f64(table_.unit + vector.scales.top) * static_cast<double>(vector.scales.value);
    weights_[lane] = vector.is_special() ? 0.0 : vector.weight;
    all_joint_ = all_joint_ && vector.scales.joint;
    vector.squares = 0;
    vector.tally.clear();
  }

  void pack_run(Index run, int block) {
    const int count = k_block_.run_count(run);
    scratch_.codes.fetch(kernels_.isa, factor_, panel_.first, panel_.width,
                         k_block_.start + run * kRun, count);
    std::int8_t* to = run_data(run);
    const auto chunks = static_cast<int>(ceil_div(count, kChunk));
    auto& slices = scratch_.slices;
    for (int lane = 0; lane < panel_.width; ++lane) {
      pack_k_vector(run, block, count, lane,
                    is_b_ ? SliceTarget{slices[0][lane], slices[1][lane], kChunk, kRun}
                          : place_in_a(to, lane));
    }
    for (int i = 0; i < 4 && is_b_; ++i) {
      const int half = i / 2;
      transpose_slice(half, i % 2, chunks, slices[i % 2][half * kTileLanes], kRun, to);
    }
  }

  void pack_k_vector(Index run, int block, int count, int lane, const SliceTarget& to) {
    KVector& vector = k_vectors_[lane];
    if (vector.is_special()) return clear(to, kChunks);
    if (!vector.scales.joint) {
      pack_pairs(run, count, lane, reinterpret_cast<std::int32_t*>(scratch_.k_vectors[lane]));
      panel_.split[run] = 1;
      return avx512_split_pairs(scratch_.k_vectors[lane], to);
    }
    const std::uint8_t* codes = scratch_.codes.lane(lane);
    SliceTally& tally = vector.tally;
    tally.residual[1] = 0;
    const auto chunks = static_cast<int>(ceil_div(count, kChunk));
    kernels_.tiles->encode_two_slices(table_, chunks, codes, vector.scales.shift + block, to,
                                      tally);
    if (tally.special) {
      mark_special(lane, has_nan(codes));
      return clear(to, kChunks);
    }
    for (int b = 0; b < kRunBlocks && !all_joint_; ++b) weight_at(run, b, lane) = vector.weight;
    if ((tally.residual[0] | tally.residual[1]) != 0)
      keep_residuals_of(lane, block, codes, tally.residual);
  }

  /// Of a run from block `block` of the span on.
  void keep_residuals_of(int lane, int block, const std::uint8_t* codes,
                         const std::uint64_t* candidates) {
    const KVector& vector = k_vectors_[lane];
    int exponent[kRunBlocks];
    double weight[kRunBlocks];
    for (int b = 0; b < kRunBlocks; ++b) {
      exponent[b] = table_.unit + vector.scales.shift[block + b];
      weight[b] = vector.weight;
    }
    keep_residuals(lane, candidates, codes, exponent, weight);
  }

  static void clear(const SliceTarget& to, int chunks) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::memset(to.high + to.place(chunk), 0, kChunk);
      std::memset(to.low + to.place(chunk), 0, kChunk);
    }
  }

  /// In a split span sums are weighted block by block: a joint K-vector repeats its one weight for
  /// each block.
  void end_span(int lane, Index first, Index end) {
    KVector& vector = k_vectors_[lane];
    const SliceTally& tally = vector.tally;
    if (!vector.scales.joint) {
      for (Index run = first; run < end; ++run) panel_.split[run] = 1;
      return;
    }
    std::uint8_t min_magnitude = 255;  // as vector code
    for (const std::uint8_t x : tally.min_magnitude) min_magnitude = std::min(min_magnitude, x);
    if (min_magnitude == 255 || vector.is_special()) return;
    KVectorBound& bound = panel_.bound[lane];
    bound.quantum =
        std::min(bound.quantum, quantum_of(format_, min_magnitude + 1) + vector.scales.min_scale);
    const double scale = power_f64(vector.scales.top) * static_cast<double>(vector.scales.value);
    vector.squares = 65536.0 * std::accumulate(tally.squares, tally.squares + 16, 0) *
                     power_f64(2 * table_.unit);
    bound.norm2 += vector.squares * scale * scale;
  }

  /// docs/exact_product.md, "Sums rounded in binary32".
  void set_errors() {
    panel_.direct = false;
    const bool one_span = k_block_.count == product_.depth && k_block_.runs() <= kSpanRuns;
    if (!one_span || product_.form != ScaleForm::mx || product_.out.dtype != Dtype::bf16) return;
    if (panel_.residual_overflow || panel_.residuals.size() > kMaxDirectResiduals) return;
    panel_.errors = {};
    const double max_magnitude =
        static_cast<double>(values_[table_.max_finite]) * power_f64(-table_.unit);
    panel_.errors.max_magnitude = static_cast<float>(max_magnitude);
    for (int lane = 0; lane < panel_.width; ++lane) {
      const KVector& vector = k_vectors_[lane];
      const int unit = table_.unit + vector.scales.top;
      if (panel_.bound[lane].special || !vector.scales.joint) return;
      panel_.unit[lane] = vector.weight;
      if (vector.squares == 0.0) continue;
      if (unit < kMinUnit || unit > kMaxUnit) return;
      panel_.errors.add_k_vector(lane, unit, residuals_[lane], 0.0);
    }
    order_residuals();
    panel_.direct = true;
  }

  void order_residuals() {
    std::uint32_t(&begin)[kMaxNr + 1] = panel_.lane_begin;
    std::memset(begin, 0, sizeof(begin));
    for (const Residual& residual : panel_.residuals) ++begin[residual.lane + 1];
    for (int lane = 0; lane < kMaxNr; ++lane) begin[lane + 1] += begin[lane];
    std::uint32_t next[kMaxNr];
    std::memcpy(next, begin, sizeof(next));
    panel_.by_lane.resize(panel_.residuals.size());
    for (const Residual& residual : panel_.residuals) {
      panel_.by_lane[next[residual.lane]++] = residual;
    }
  }

  const SliceTable& table_;
  bool is_b_;
  bool all_joint_ = true;  ///< in the current span each K-vector has one unit: its weight
  double weights_[kMaxNr] = {};
  std::uint32_t with_residuals_[kSpanRuns];  ///< of each run of pack_k_vectors, bit of each lane
  KVector k_vectors_[kMaxNr];
};

}  // namespace

void pack_two_slices(const Kernels& kernels, const Product& product, const Factor& factor,
                     const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  TwoSlicePacker(kernels, product, factor, k_block, panel, scratch).pack();
}

}  // namespace mxo::cpu
