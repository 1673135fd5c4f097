// Codes to panels of byte planes, a span of runs at a time: one unit a line and span, unless the
// scales of the span lie too far apart.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "emu/exact/integer_unit.h"
#include "emu/cpu/gemm/engines/packers.h"
#include "emu/cpu/gemm/engines/two_slices/encode_across.h"

namespace mxo::cpu {
namespace {

static_assert(kSpanBlocks == BlockScales::kMost);

class PlanePacker : LinePacker {
 public:
  PlanePacker(const Kernels& kernels, const Product& product, const Factor& factor,
              const Depth& depth, Panel& panel, PackScratch& scratch)
      : LinePacker(kernels, product, factor, depth, panel, scratch),
        table_(plane_table(factor.codes.dtype)),
        is_b_(panel.scale_step == kMaxLanesB) {}

  void pack() {
    begin();
    const Index step = span_runs(product_.scaling);
    for (Index first = 0; first < depth_.runs(); first += step) {
      pack_span(first, std::min(first + step, depth_.runs()));
    }
    end();
    set_errors();
  }

 private:
  /// A line in the current span.
  struct Line {
    BlockScales scales;
    double worth;    ///< of its unit
    double squares;  ///< at least the sum of those of its values without scale
    double units2;   ///< at least the same in units; `tally` comes to it at the end
    int least;       ///< of runs packed across, as in AcrossTally
    bool tallied;    ///< some runs are in `tally`
    LineTally tally;

    bool is_special() const { return scales.nan || scales.infinite; }
    LineTally& open_tally() {
      if (!tallied) tally.clear();
      tallied = true;
      return tally;
    }
  };

  void pack_span(Index first, Index past) {
    const Index end = std::min(past * kRun, depth_.count);
    const int blocks = static_cast<int>(ceil_div(end - first * kRun, kBlock));
    all_joint_ = true;
    for (int lane = 0; lane < panel_.width; ++lane) open(lane, first, blocks);
    set_worths(first, past);
    if (all_joint_ && factor_.step == 1 && end == past * kRun) {
      pack_lines(first, static_cast<int>(past - first));
    } else {
      pack_runs(first, past);
    }
    for (int lane = 0; lane < panel_.width; ++lane) close(lane, first, past);
  }

  /// Of a span in which each line has one unit; else line by line.
  void set_worths(Index first, Index past) {
    for (Index run = first; run < past; ++run) {
      for (int b = 0; b < kRunBlocks; ++b) {
        double* worths = &worth_at(run, b, 0);
        if (all_joint_) {
          std::copy(worths_, worths_ + panel_.scale_step, worths);
        } else {
          std::fill(worths, worths + panel_.scale_step, 0.0);
        }
      }
    }
  }

  /// Whole runs of lines whose codes are neighbours: each line's at once.
  void pack_lines(Index first, int runs) {
    const std::uint8_t* codes = static_cast<const std::uint8_t*>(factor_.codes.data) +
                                factor_.start + panel_.first * factor_.row_step + depth_.start +
                                first * kRun;
    std::int8_t* to = run_data(first);
    std::memset(with_rests_, 0, sizeof(with_rests_));
    for (int begin = 0; begin < (is_b_ ? kMaxLanesB : panel_.width); begin += kTileLanes) {
      const int lanes = std::clamp(panel_.width - begin, 0, kTileLanes);
      for (int i = 0; i < lanes; ++i) {
        const int lane = begin + i;
        pack_whole_line(lane, runs, codes + lane * factor_.row_step,
                        is_b_
                            ? PlaneTarget{scratch_.spans[0][i], scratch_.spans[1][i], kChunk, kRun}
                            : place_in_a(to, lane));
      }
      if (is_b_) turn_half(begin / kTileLanes, lanes, runs, to);
    }
    for (int run = 0; run < runs; ++run) {
      begin_run(first + run);
      for (std::uint32_t left = with_rests_[run]; left != 0; left &= left - 1) {
        const int lane = std::countr_zero(left);
        keep_rests_of(lane, run * kRunBlocks, codes + lane * factor_.row_step + run * kRun,
                      lines_[lane].tally.rest + run * kChunks);
      }
    }
  }

  void pack_whole_line(int lane, int runs, const std::uint8_t* codes, const PlaneTarget& to) {
    Line& line = lines_[lane];
    const int chunks = runs * kChunks;
    if (!line.is_special()) {
      LineTally& tally = line.open_tally();
      kernels_.planes->encode(table_, chunks, codes, line.scales.shift, to, tally);
      // The next span, to the second cache: lines are too many for the processor to follow.
      for (int i = chunks; i < 2 * chunks; ++i) __builtin_prefetch(codes + i * kChunk, 0, 2);
      if (!tally.special) return find_rests(lane, runs);
      for (int run = 0; run < runs; ++run) mark_special(lane, has_nan(codes + run * kRun));
    }
    clear(to, chunks);
  }

  void find_rests(int lane, int runs) {
    const auto& rest = lines_[lane].tally.rest;
    for (int run = 0; run < runs; ++run) {
      const bool any = (rest[run * kChunks] | rest[run * kChunks + 1]) != 0;
      with_rests_[run] |= std::uint32_t{any} << lane;
    }
  }

  void turn_half(int half, int lanes, int runs, std::int8_t* to) {
    const auto step = static_cast<int>(sizeof(scratch_.spans[0][0]));
    for (int plane = 0; plane < 2; ++plane) {
      auto& lines = scratch_.spans[plane];
      for (int lane = lanes; lane < kTileLanes; ++lane)
        std::memset(lines[lane], 0, sizeof(lines[0]));
      for (int run = 0; run < runs; ++run) {
        turn_plane(half, plane, kChunks, lines[0] + run * kRun, step, to + run * 2 * kRunBytes);
      }
    }
  }

  std::int8_t* run_data(Index run) const {
    return static_cast<std::int8_t*>(panel_.data) + run * (is_b_ ? 2 : 1) * kRunBytes;
  }
  static PlaneTarget place_in_a(std::int8_t* run, int lane) {
    return {run + tile_of_a(0, 0) + lane * kChunk, run + tile_of_a(1, 0) + lane * kChunk,
            kTileBytes, kRunBytes};
  }

  void pack_runs(Index first, Index past) {
    for (int lane = panel_.width; lane < panel_.step && is_b_; ++lane) {
      for (int plane = 0; plane < 2; ++plane) std::memset(scratch_.planes[plane][lane], 0, kRun);
    }
    for (Index run = first; run < past; ++run) {
      const int block = static_cast<int>(run - first) * kRunBlocks;
      begin_run(run);
      if (!all_joint_ || factor_.row_step != 1 || !pack_run_across(run, block)) {
        pack_run(run, block);
      }
    }
  }

  void open(int lane, Index first, int blocks) {
    Line& line = lines_[lane];
    read_scales(product_.scaling, factor_, panel_.first + lane, depth_.start + first * kRun, blocks,
                line.scales);
    if (line.scales.nan || line.scales.infinite) mark_special(lane, line.scales.nan);
    line.worth = power_f64(table_.unit + line.scales.top) * static_cast<double>(line.scales.value);
    worths_[lane] = line.is_special() ? 0.0 : line.worth;
    all_joint_ = all_joint_ && line.scales.joint;
    line.squares = 0;
    line.units2 = 0;
    line.least = 0xFFFF;
    line.tallied = false;
  }

  void pack_run(Index run, int block) {
    const int count = depth_.run_count(run);
    scratch_.codes.fetch(factor_, panel_.first, panel_.width, depth_.start + run * kRun, count);
    std::int8_t* to = run_data(run);
    const auto chunks = static_cast<int>(ceil_div(count, kChunk));
    auto& planes = scratch_.planes;
    for (int lane = 0; lane < panel_.width; ++lane) {
      pack_line(run, block, count, lane,
                is_b_ ? PlaneTarget{planes[0][lane], planes[1][lane], kChunk, kRun}
                      : place_in_a(to, lane));
    }
    for (int i = 0; i < 4 && is_b_; ++i) {
      const int half = i / 2;
      turn_plane(half, i % 2, chunks, planes[i % 2][half * kTileLanes], kRun, to);
    }
  }

  /// All lines of a run at once; false if it holds a NaN or an infinity, or part of a block.
  bool pack_run_across(Index run, int block) {
    if (depth_.run_count(run) % kBlock != 0) return false;
    RunAcross lines{nullptr, factor_.step, panel_.width, depth_.run_count(run), {}};
    lines.codes = static_cast<const std::uint8_t*>(factor_.codes.data) + factor_.start +
                  panel_.first + (depth_.start + run * kRun) * factor_.step;
    for (int lane = 0; lane < panel_.width; ++lane) {
      const BlockScales& scales = lines_[lane].scales;
      if (lines_[lane].is_special()) return false;
      for (int b = 0; b < kRunBlocks; ++b) lines.shift[b][lane] = scales.shift[block + b];
    }
    std::int8_t* to = run_data(run);
    AcrossTally tally;
    auto* turned = reinterpret_cast<std::int8_t*>(scratch_.columns);
    encode_planes_across(table_, lines, is_b_ ? to : turned, tally);
    if (tally.any_special) return false;
    if (!is_b_) turn_to_a(static_cast<int>(ceil_div(lines.count, kChunk)), turned, to);
    for (int lane = 0; lane < panel_.width; ++lane) {
      Line& line = lines_[lane];
      line.units2 += 1024.0 * tally.squares[lane];
      line.least = std::min<int>(line.least, tally.least[lane]);
    }
    if (tally.any_rests) keep_rests_across(lines, tally);
    return true;
  }

  void keep_rests_across(const RunAcross& lines, const AcrossTally& tally) {
    for (int c = 0; c < lines.count; ++c) {
      for (std::uint32_t left = tally.rests[c]; left != 0; left &= left - 1) {
        const int lane = std::countr_zero(left);
        const int exponent = table_.unit + lines.shift[c / kBlock][lane];
        keep_rest(lane, c, lines.codes[c * lines.step + lane], exponent, lines_[lane].worth);
        lines_[lane].units2 += 64;  // |v| < 16 where there is a rest: (|v| + 1)^2 - v^2 < 32
      }
    }
    check_rests();
  }

  void pack_line(Index run, int block, int count, int lane, const PlaneTarget& to) {
    Line& line = lines_[lane];
    if (line.is_special()) return clear(to, kChunks);
    if (!line.scales.joint) {
      pack_pairs(run, count, lane, reinterpret_cast<std::int32_t*>(scratch_.lines[lane]));
      panel_.split[run] = 1;
      return split_pairs(scratch_.lines[lane], to);
    }
    const std::uint8_t* codes = scratch_.codes.lane(lane);
    LineTally& tally = line.open_tally();
    tally.rest[1] = 0;
    const auto chunks = static_cast<int>(ceil_div(count, kChunk));
    kernels_.planes->encode(table_, chunks, codes, line.scales.shift + block, to, tally);
    if (tally.special) {
      mark_special(lane, has_nan(codes));
      return clear(to, kChunks);
    }
    for (int b = 0; b < kRunBlocks && !all_joint_; ++b) worth_at(run, b, lane) = line.worth;
    if ((tally.rest[0] | tally.rest[1]) != 0) keep_rests_of(lane, block, codes, tally.rest);
  }

  /// Of a run from block `block` of the span on.
  void keep_rests_of(int lane, int block, const std::uint8_t* codes,
                     const std::uint64_t* candidates) {
    const Line& line = lines_[lane];
    int exponent[kRunBlocks];
    double worth[kRunBlocks];
    for (int b = 0; b < kRunBlocks; ++b) {
      exponent[b] = table_.unit + line.scales.shift[block + b];
      worth[b] = line.worth;
    }
    keep_rests(lane, candidates, codes, exponent, worth);
  }

  static void clear(const PlaneTarget& to, int chunks) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::memset(to.high + to.place(chunk), 0, kChunk);
      std::memset(to.low + to.place(chunk), 0, kChunk);
    }
  }

  /// Blocks of a split span have units of their own in every line: the sums ask for one worth
  /// each, which a joint line repeats.
  void close(int lane, Index first, Index past) {
    Line& line = lines_[lane];
    const LineTally& tally = line.tally;
    if (!line.scales.joint) {
      for (Index run = first; run < past; ++run) panel_.split[run] = 1;
      return;
    }
    int least = line.least;
    if (line.tallied) {
      std::uint8_t of_tally = 255;  // as vector code
      for (const std::uint8_t x : tally.least) of_tally = std::min(of_tally, x);
      if (of_tally != 255) least = std::min<int>(least, of_tally);
      line.units2 += 65536.0 * std::accumulate(tally.squares, tally.squares + 16, 0);
    }
    if (least == 0xFFFF || line.is_special()) return;
    LineBound& bound = panel_.bound[lane];
    bound.quantum =
        std::min(bound.quantum, quantum_of(factor_.codes.dtype, least + 1) + line.scales.least);
    const double scale = power_f64(line.scales.top) * static_cast<double>(line.scales.value);
    line.squares = line.units2 * power_f64(2 * table_.unit);
    bound.norm2 += line.squares * scale * scale;
  }

  /// docs/numerics.md, "Sums rounded in binary32".
  void set_errors() {
    panel_.direct = false;
    const bool one_span = depth_.count == product_.depth && depth_.runs() <= kSpanRuns;
    if (!one_span || product_.scaling != Scaling::mx || product_.out.dtype != Dtype::bf16) return;
    if (panel_.dense || panel_.rests.size() > kMostDirectRests) return;
    panel_.errors = {};
    const double most = static_cast<double>(values_[table_.most_finite]) * power_f64(-table_.unit);
    panel_.errors.most = static_cast<float>(most);
    for (int lane = 0; lane < panel_.width; ++lane) {
      const Line& line = lines_[lane];
      const int unit = table_.unit + line.scales.top;
      if (panel_.bound[lane].special || !line.scales.joint) return;
      panel_.unit[lane] = line.worth;
      if (line.squares == 0.0) continue;
      if (unit < kLeastUnit || unit > kMostUnit) return;
      panel_.errors.add_line(lane, unit, rests_[lane], 0.0);
    }
    order_rests();
    panel_.direct = true;
  }

  void order_rests() {
    std::uint8_t(&begin)[kMaxLanesB + 1] = panel_.lane_begin;
    std::memset(begin, 0, sizeof(begin));
    for (const Rest& rest : panel_.rests) ++begin[rest.lane + 1];
    for (int lane = 0; lane < kMaxLanesB; ++lane) begin[lane + 1] += begin[lane];
    std::uint8_t next[kMaxLanesB];
    std::memcpy(next, begin, sizeof(next));
    for (std::size_t i = 0; i < panel_.rests.size(); ++i) {
      panel_.by_lane[next[panel_.rests[i].lane]++] = static_cast<std::uint8_t>(i);
    }
  }

  const PlaneTable& table_;
  bool is_b_;
  bool all_joint_ = true;  ///< in the current span each line has one unit: its worth
  double worths_[kMaxLanesB] = {};
  std::uint32_t with_rests_[kSpanRuns];  ///< of each run of pack_lines, bit of each lane
  Line lines_[kMaxLanesB];
};

}  // namespace

void pack_planes(const Kernels& kernels, const Product& product, const Factor& factor,
                 const Depth& depth, Panel& panel, PackScratch& scratch) {
  PlanePacker(kernels, product, factor, depth, panel, scratch).pack();
}

}  // namespace mxo::cpu
