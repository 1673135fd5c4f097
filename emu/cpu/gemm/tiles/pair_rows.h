// Pairs of panels whose sums are rounded a row at a time, and written.
#pragma once

#include <algorithm>
#include <bit>

#include "emu/cpu/gemm/tiles/writer.h"

namespace mxo::cpu {

/// Rounds rows [first, end) of a pair's sums by round(first, end, to) and writes them.
/// sum_of(m, n) is one sum in f64, with no more roundings than the K-vectors' bounds count.
template <typename Round, typename SumOf>
void write_rows(const Writer& writer, const MicroPanel& a, const MicroPanel& b, int first, int end,
                const Round& round, const SumOf& sum_of, RoundedRows& to, StageCounts& stages) {
  end = std::min(end, a.width);
  stages.outputs += Index{std::max(end - first, 0)} * b.width;
  const bool whole = b.width == kMaxNr && (a.specials | b.specials) == 0;
  to.out = whole ? writer.row(a.first, b.first) : nullptr;
  to.step = writer.row_step();
  to.streams = writer.streams(to.out);
  round(first, end, to);
  const std::uint32_t all = 0xFFFFFFFFu >> (kMaxNr - b.width);
  for (std::uint32_t left = to.rows_left; left != 0; left &= left - 1) {
    const int m = std::countr_zero(left);
    std::uint16_t* bits = to.left[m];
    std::uint32_t to_fallback = 0;
    std::uint32_t failed = (a.specials >> m & 1u) != 0 ? all : (to.failed[m] | b.specials) & all;
    for (; failed != 0; failed &= failed - 1) {
      const int n = std::countr_zero(failed);
      const bool special = a.bound[m].special || b.bound[n].special;
      if (special || !round_one(a, b, m, n, sum_of(m, n), bits[n])) {
        to_fallback |= 1u << n;
      } else {
        ++stages.by_f64;
      }
    }
    writer.put_row(a.first + m, b.first, b.width, bits);
    put_failed(writer, a, b, m, to_fallback, stages);
  }
}

/// Panels a of A and b of B, and which of the two buffers holds their sums.
struct PipelinedPair {
  int a, b, block;
};

/// All pairs of a tile for which takes(a, b): add(pair, step) sums one in that many steps;
/// write(pair, first, end) finishes its rows between the steps of the next pair, so that the two
/// overlap in the pipeline.
template <typename Takes, typename Add, typename Write>
void pipeline_pairs(const KcTile& tile, int steps, const Takes& takes, const Add& add,
                    const Write& write) {
  PipelinedPair last{-1, 0, 1};
  const auto write_last = [&](int first, int end) {
    if (last.a >= 0) write(last, first, end);
  };
  for (int j = 0; j < tile.wide(); ++j) {
    for (int i = 0; i < tile.tall(); ++i) {
      if (!takes(i, j)) continue;
      const PipelinedPair pair{i, j, 1 - last.block};
      for (int step = 0; step < steps; ++step) {
        add(pair, step);
        write_last(kTileLanes * step / steps, kTileLanes * (step + 1) / steps);
      }
      last = pair;
    }
  }
  write_last(0, kTileLanes);
}

}  // namespace mxo::cpu
