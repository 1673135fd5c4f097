// bf16 words to panels of digits: each line gets one unit, which keeps its largest element within
// three digits.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emu/cpu/gemm/engines/three_slices/three_slices.h"
#include "emu/exact/integer_unit.h"
#include "emu/cpu/gemm/engines/packers.h"

namespace mxo::cpu {
namespace {

constexpr int kInfinity = 0x7F80;  // of bf16
/// A panel with more rests than one element in this many is computed in f64.
constexpr Index kDense = 16;
/// The quantum of a line with rests is not looked for.
constexpr int kFarQuantum = -4000;

/// The greatest e for which `most` times 2^e is an integer of three digits.
int exponent_for(double most) {
  int e = 22 - std::ilogb(most);
  if (std::ldexp(most, e) > kMostDigitInteger) --e;
  return e;
}

/// In four chains, which take a fourth of the time of one.
double sum_of(const float (&x)[16]) {
  double sum[4] = {};
  for (int i = 0; i < 16; ++i) sum[i % 4] += static_cast<double>(x[i]);
  return sum[0] + sum[1] + (sum[2] + sum[3]);
}

std::int16_t magnitude(std::int16_t word) { return static_cast<std::int16_t>(word & 0x7FFF); }

/// The largest magnitudes of a full panel of neighbours, in registers.
template <int kLanes>
void find_most(const std::int16_t* from, Index step, Index count, std::int16_t* most) {
  std::int16_t found[kLanes] = {};
  for (Index c = 0; c < count; ++c, from += step) {
    for (int lane = 0; lane < kLanes; ++lane) {
      found[lane] = std::max(found[lane], magnitude(from[lane]));
    }
  }
  std::copy(found, found + kLanes, most);
}

class DigitPacker {
 public:
  DigitPacker(const Factor& factor, const Depth& depth, Panel& panel, PackScratch& scratch)
      : factor_(factor),
        depth_(depth),
        panel_(panel),
        scratch_(scratch),
        is_b_(panel.scale_step == kMaxLanesB) {}

  void pack() {
    panel_.rests.clear();
    panel_.specials = 0;
    find_units();
    for (int lane = panel_.width; lane < panel_.step && is_b_; ++lane) {
      for (auto& plane : scratch_.planes) std::memset(plane[lane], 0, kRun);
    }
    const auto most_rests = static_cast<std::size_t>(panel_.width * depth_.count / kDense + 64);
    for (Index run = 0; run < depth_.runs() && !crowded_; ++run) {
      pack_run(run);
      crowded_ = panel_.rests.size() > most_rests;
    }
    end();
  }

 private:
  struct Line {
    int unit = 0;  ///< its exponent
    double roundings = 0;
    double rests = 0;  ///< sum of their magnitudes, in units
    DigitTally tally;
  };

  void find_units() {
    std::int16_t most[kMaxLanesB] = {};
    const auto* from = static_cast<const std::int16_t*>(factor_.codes.data) + factor_.start +
                       panel_.first * factor_.row_step + depth_.start * factor_.step;
    if (factor_.row_step == 1 && panel_.width == kMaxLanesB) {
      find_most<kMaxLanesB>(from, factor_.step, depth_.count, most);
    } else if (factor_.row_step == 1 && panel_.width == kTileLanes) {
      find_most<kTileLanes>(from, factor_.step, depth_.count, most);
    } else {
      for (int lane = 0; lane < panel_.width; ++lane) {
        const std::int16_t* line = from + lane * factor_.row_step;
        for (Index c = 0; c < depth_.count; ++c, line += factor_.step) {
          most[lane] = std::max(most[lane], magnitude(*line));
        }
      }
    }
    for (int lane = 0; lane < panel_.width; ++lane) {
      if (most[lane] >= kInfinity) {
        mark_special(lane, most[lane] > kInfinity);
      } else if (most[lane] > 0) {
        const auto bits = static_cast<std::uint32_t>(most[lane]) << 16;
        lines_[lane].unit = -exponent_for(static_cast<double>(bit_cast<float>(bits)));
      }
    }
  }

  void mark_special(int lane, bool nan) {
    panel_.bound[lane].special = true;
    panel_.bound[lane].nan = panel_.bound[lane].nan || nan;
  }

  void pack_run(Index run) {
    const int count = depth_.run_count(run);
    const Index start = depth_.start + run * kRun;
    scratch_.words.fetch(factor_, panel_.first, panel_.width, start, count);
    const auto chunks = static_cast<int>(ceil_div(count, kChunk));
    auto* to = static_cast<std::int8_t*>(panel_.data) + run * kChunks * kDigitChunkBytes;
    for (int lane = 0; lane < panel_.width; ++lane) {
      const DigitTarget target =
          is_b_ ? DigitTarget{scratch_.planes[0][lane], kMaxLanesB * kRun, kChunk}
                : DigitTarget{to + lane * kChunk, kTileBytes, kDigitChunkBytes};
      pack_line(run, chunks, lane, target);
    }
    for (int plane = 0; plane < kDigits && is_b_; ++plane) {
      turn_digits(plane, chunks, scratch_.planes[plane][0], to,
                  depth_.runs() * kChunks * kDigitChunkBytes);
    }
  }

  void pack_line(Index run, int chunks, int lane, const DigitTarget& to) {
    Line& line = lines_[lane];
    alignas(64) float x[kRun];
    const std::uint16_t* words = scratch_.words.lane(lane);
    for (int c = 0; c < kRun; ++c) {
      x[c] = bit_cast<float>(static_cast<std::uint32_t>(words[c]) << 16);
    }
    encode_digits(chunks, x, -line.unit, to, line.tally);
    if (panel_.bound[lane].special) return;
    const std::uint64_t last = chunks > 1 ? line.tally.rest[1] : 0;
    if ((line.tally.rest[0] | last) != 0) keep_rests(run, chunks, lane, x);
  }

  void keep_rests(Index run, int chunks, int lane, const float* x) {
    Line& line = lines_[lane];
    for (int word = 0; word < chunks; ++word) {
      for (std::uint64_t left = line.tally.rest[word]; left != 0; left &= left - 1) {
        const int at = word * kChunk + std::countr_zero(left);
        const double scaled = std::ldexp(static_cast<double>(x[at]), -line.unit);
        const double rest = scaled - std::trunc(scaled);
        line.roundings += 6;
        line.rests += std::abs(rest);
        panel_.rests.push_back({std::ldexp(rest, line.unit), static_cast<std::uint32_t>(lane),
                                static_cast<std::uint32_t>(run * kRun + at)});
      }
    }
  }

  void end() {
    if (crowded_) panel_.rests.clear();
    panel_.dense = crowded_;
    std::stable_sort(panel_.rests.begin(), panel_.rests.end(),
                     [](const Rest& a, const Rest& b) { return a.lane < b.lane; });
    panel_.errors = {};
    panel_.errors.most = (kMostDigitInteger + 1) / 16.0f;
    std::uint32_t past = 0;
    for (int lane = 0; lane < kMaxLanesB; ++lane) {
      panel_.rest_begin[lane] = past;
      while (past < panel_.rests.size() && panel_.rests[past].lane <= static_cast<unsigned>(lane)) {
        ++past;
      }
      if (lane < panel_.width) end_line(lane, past - panel_.rest_begin[lane]);
    }
    panel_.rest_begin[kMaxLanesB] = past;
  }

  /// docs/numerics.md, "Sums rounded in binary32".
  void end_line(int lane, std::uint32_t rests) {
    const Line& line = lines_[lane];
    LineBound& bound = panel_.bound[lane];
    panel_.unit[lane] = power_f64(line.unit);
    double squares = sum_of(line.tally.squares);
    panel_.specials |= (bound.special ? 1u : 0u) << lane;
    if (bound.special || (squares == 0.0 && rests == 0 && !crowded_)) return;
    if (line.unit < kLeastUnit || line.unit > kMostUnit) panel_.dense = true;
    const double unit = panel_.unit[lane];
    const auto count = static_cast<double>(depth_.count);
    if (crowded_) squares = count * 0x1p46;  // some runs were not looked at
    const double norm = std::sqrt(squares) * (1.0 + 0x1p-10) + 1.0;
    bound.norm2 = norm * norm * unit * unit;
    bound.quantum = rests == 0 && !crowded_ ? line.unit : kFarQuantum;
    bound.roundings = count + line.roundings + 8;
    const double low = 0x8080 * std::sqrt(count);
    panel_.errors.add_line(lane, line.unit, line.rests / 16,
                           5.5 * 0x1p-32 * low * (norm + 1.5 * low) + 33.0 * count);
  }

  const Factor& factor_;
  const Depth& depth_;
  Panel& panel_;
  PackScratch& scratch_;
  bool is_b_;
  bool crowded_ = false;  ///< too many rests
  Line lines_[kMaxLanesB];
};

}  // namespace

void pack_digits(const Factor& factor, const Depth& depth, Panel& panel, PackScratch& scratch) {
  DigitPacker(factor, depth, panel, scratch).pack();
}

}  // namespace mxo::cpu
