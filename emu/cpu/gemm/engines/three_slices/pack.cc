// bf16 words to panels of three slices: each K-vector gets one unit, such that its largest element
// fits in three slices.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/cpu/gemm/pack/scratch.h"
#include "emu/exact/binary32_bounds.h"
#include "emu/exact/integer_unit.h"

namespace mxo::cpu {
namespace {

/// A panel with more residuals than one element in this many is computed in f64.
constexpr Index kOverflowShare = 16;
/// Stands for the quantum of a K-vector with residuals, which is not computed.
constexpr int kFarQuantum = -4000;

/// The largest e for which `max_magnitude` times 2^e fits in three slices.
int exponent_for(double max_magnitude) {
  int e = 22 - std::ilogb(max_magnitude);
  if (std::ldexp(max_magnitude, e) > kMaxThreeSliceInteger) --e;
  return e;
}

/// Four independent chains, to hide latency: a fourth of the time of one.
double sum_of(const float (&x)[16]) {
  double sum[4] = {};
  for (int i = 0; i < 16; ++i) sum[i % 4] += static_cast<double>(x[i]);
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

std::int16_t magnitude(std::int16_t word) { return static_cast<std::int16_t>(word & 0x7FFF); }

/// The largest magnitudes of a full panel of neighbours, in registers.
template <int kLanes>
void find_max_magnitudes(const std::int16_t* from, Index step, Index count,
                         std::int16_t* max_magnitude) {
  std::int16_t found[kLanes] = {};
  for (Index c = 0; c < count; ++c, from += step) {
    for (int lane = 0; lane < kLanes; ++lane) {
      found[lane] = std::max(found[lane], magnitude(from[lane]));
    }
  }
  std::copy(found, found + kLanes, max_magnitude);
}

class ThreeSlicePacker {
 public:
  ThreeSlicePacker(const Kernels& kernels, const Factor& factor, const KBlock& k_block,
                   MicroPanel& panel, PackScratch& scratch)
      : kernels_(kernels),
        factor_(factor),
        k_block_(k_block),
        panel_(panel),
        scratch_(scratch),
        is_b_(panel.scale_step == kMaxNr) {}

  void pack() {
    panel_.by_lane.clear();
    panel_.specials = 0;
    find_units();
    for (int lane = panel_.width; lane < panel_.step && is_b_; ++lane) {
      for (auto& slice : scratch_.slices) std::memset(slice[lane], 0, kRun);
    }
    const auto max_residuals =
        static_cast<std::size_t>(panel_.width * k_block_.count / kOverflowShare + 64);
    for (Index run = 0; run < k_block_.runs() && !crowded_; ++run) {
      pack_run(run);
      crowded_ = panel_.by_lane.size() > max_residuals;
    }
    end();
  }

 private:
  struct KVector {
    int unit = 0;  ///< its exponent
    double roundings = 0;
    double residuals = 0;  ///< sum of their magnitudes, in units
    ThreeSliceTally tally;
  };

  void find_units() {
    std::int16_t max_magnitude[kMaxNr] = {};
    const auto* from = static_cast<const std::int16_t*>(factor_.codes.data) + factor_.start +
                       panel_.first * factor_.row_step + k_block_.start * factor_.step;
    if (factor_.row_step == 1 && panel_.width == kMaxNr) {
      find_max_magnitudes<kMaxNr>(from, factor_.step, k_block_.count, max_magnitude);
    } else if (factor_.row_step == 1 && panel_.width == kTileLanes) {
      find_max_magnitudes<kTileLanes>(from, factor_.step, k_block_.count, max_magnitude);
    } else {
      for (int lane = 0; lane < panel_.width; ++lane) {
        const std::int16_t* vector = from + lane * factor_.row_step;
        for (Index c = 0; c < k_block_.count; ++c, vector += factor_.step) {
          max_magnitude[lane] = std::max(max_magnitude[lane], magnitude(*vector));
        }
      }
    }
    for (int lane = 0; lane < panel_.width; ++lane) {
      if (max_magnitude[lane] >= kInfinityBf16) {
        mark_special(lane, max_magnitude[lane] > kInfinityBf16);
      } else if (max_magnitude[lane] > 0) {
        const auto bits = static_cast<std::uint32_t>(max_magnitude[lane]) << 16;
        k_vectors_[lane].unit = -exponent_for(static_cast<double>(bit_cast<float>(bits)));
      }
    }
  }

  void mark_special(int lane, bool nan) {
    panel_.bound[lane].special = true;
    panel_.bound[lane].nan = panel_.bound[lane].nan || nan;
  }

  void pack_run(Index run) {
    const int count = k_block_.run_count(run);
    const Index start = k_block_.start + run * kRun;
    scratch_.words.fetch(kernels_.isa, factor_, panel_.first, panel_.width, start, count);
    const auto chunks = static_cast<int>(ceil_div(count, kChunk));
    auto* to = static_cast<std::int8_t*>(panel_.data) + run * kChunks * kThreeSliceChunkBytes;
    for (int lane = 0; lane < panel_.width; ++lane) {
      const ThreeSliceTarget target =
          is_b_ ? ThreeSliceTarget{scratch_.slices[0][lane], kMaxNr * kRun, kChunk}
                : ThreeSliceTarget{to + lane * kChunk, kTileBytes, kThreeSliceChunkBytes};
      pack_k_vector(run, chunks, lane, target);
    }
    for (int tile = 0; tile < kSlices * kMaxNr / kTileLanes * chunks && is_b_; ++tile) {
      transpose(tile % kSlices, tile / kSlices % 2, tile / kSlices / 2, to);
    }
  }

  /// 16 lanes of a chunk of one slice to a tile of B.
  void transpose(int slice, int half, int chunk, std::int8_t* run_b) const {
    const std::int8_t* from = scratch_.slices[slice][half * kTileLanes] + chunk * kChunk;
    std::int8_t* to = run_b + slice * kTileBytes +
                      (half * k_block_.runs() * kChunks + chunk) * kThreeSliceChunkBytes;
    kernels_.interleave(kTileLanes, kChunk / 4, reinterpret_cast<const std::uint32_t*>(from),
                        kRun / 4, reinterpret_cast<std::uint32_t*>(to), kTileLanes);
  }

  void pack_k_vector(Index run, int chunks, int lane, const ThreeSliceTarget& to) {
    KVector& vector = k_vectors_[lane];
    alignas(64) float x[kRun];
    const std::uint16_t* words = scratch_.words.lane(lane);
    for (int c = 0; c < kRun; ++c) {
      x[c] = bit_cast<float>(static_cast<std::uint32_t>(words[c]) << 16);
    }
    avx512_encode_three_slices(chunks, x, -vector.unit, to, vector.tally);
    if (panel_.bound[lane].special) return;
    const std::uint64_t last = chunks > 1 ? vector.tally.residual[1] : 0;
    if ((vector.tally.residual[0] | last) != 0) keep_residuals(run, chunks, lane, x);
  }

  void keep_residuals(Index run, int chunks, int lane, const float* x) {
    KVector& vector = k_vectors_[lane];
    for (int word = 0; word < chunks; ++word) {
      for (std::uint64_t left = vector.tally.residual[word]; left != 0; left &= left - 1) {
        const int at = word * kChunk + std::countr_zero(left);
        const double scaled = std::ldexp(static_cast<double>(x[at]), -vector.unit);
        const double residual = scaled - std::trunc(scaled);
        vector.roundings += 6;
        vector.residuals += std::abs(residual);
        panel_.by_lane.push_back({std::ldexp(residual, vector.unit),
                                  static_cast<std::uint32_t>(lane),
                                  static_cast<std::uint32_t>(run * kRun + at)});
      }
    }
  }

  void end() {
    if (crowded_) panel_.by_lane.clear();
    panel_.residual_overflow = crowded_;
    std::stable_sort(panel_.by_lane.begin(), panel_.by_lane.end(),
                     [](const Residual& a, const Residual& b) { return a.lane < b.lane; });
    panel_.errors = {};
    panel_.errors.max_magnitude = (kMaxThreeSliceInteger + 1) / 16.0f;
    std::uint32_t end = 0;
    for (int lane = 0; lane < kMaxNr; ++lane) {
      panel_.lane_begin[lane] = end;
      while (end < panel_.by_lane.size() &&
             panel_.by_lane[end].lane <= static_cast<unsigned>(lane)) {
        ++end;
      }
      if (lane < panel_.width) end_k_vector(lane, end - panel_.lane_begin[lane]);
    }
    panel_.lane_begin[kMaxNr] = end;
  }

  /// docs/exact_product.md, "Sums rounded in binary32".
  void end_k_vector(int lane, std::uint32_t residuals) {
    const KVector& vector = k_vectors_[lane];
    KVectorBound& bound = panel_.bound[lane];
    panel_.unit[lane] = power_f64(vector.unit);
    double squares = sum_of(vector.tally.squares);
    panel_.specials |= (bound.special ? 1u : 0u) << lane;
    if (bound.special || (squares == 0.0 && residuals == 0 && !crowded_)) return;
    if (vector.unit < kMinUnit || vector.unit > kMaxUnit) panel_.residual_overflow = true;
    const double unit = panel_.unit[lane];
    const auto count = static_cast<double>(k_block_.count);
    if (crowded_) squares = count * 0x1p46;  // some runs were not looked at
    const double norm = std::sqrt(squares) * (1.0 + 0x1p-10) + 1.0;
    bound.norm2 = norm * norm * unit * unit;
    bound.quantum = residuals == 0 && !crowded_ ? vector.unit : kFarQuantum;
    bound.roundings = count + vector.roundings + 8;
    panel_.errors.add_k_vector(lane, vector.unit, vector.residuals / 16,
                               share_of_three_slices(norm, count));
  }

  const Kernels& kernels_;
  const Factor& factor_;
  const KBlock& k_block_;
  MicroPanel& panel_;
  PackScratch& scratch_;
  bool is_b_;
  bool crowded_ = false;  ///< too many residuals
  KVector k_vectors_[kMaxNr];
};

}  // namespace

void pack_three_slices(const Kernels& kernels, const Product&, const Factor& factor,
                       const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  ThreeSlicePacker(kernels, factor, k_block, panel, scratch).pack();
}

}  // namespace mxo::cpu
