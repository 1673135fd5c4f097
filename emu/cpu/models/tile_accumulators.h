// The accumulator state of a machine's product, per output, during the loop over K.
#pragma once

#include "emu/cpu/models/cache_lines.h"
#include "emu/cpu/models/model_tile.h"
#include "emu/sums/machine_dot.h"

namespace mxo::cpu {

/// The accumulators of all outputs of a tile: panels of `panel` columns, each row-major, so that a
/// kernel reads memory in order.
class TileAccumulators {
 public:
  TileAccumulators(const ContractionView& product, const DotSchedule& schedule,
                   const ModelTile& tile, Index panel)
      : product_(product),
        schedule_(schedule),
        tile_(tile),
        panel_(panel),
        chunk_(outputs()),
        promoted_(schedule.promotes ? outputs() : 0),
        blocks_(product.sum.block > 0 ? outputs() : 0),
        parts_(outputs()) {
    if (!product.c.given()) return;
    CacheLines<float>& first = schedule.promotes ? promoted_ : chunk_;
    for (Index r = 0; r < tile.rows; ++r) {
      for (Index j = 0; j < tile.columns; ++j) {
        const Index at = product.c_at({}, tile.row + r, tile.column + j);
        first[index(r, j)] = static_cast<const float*>(product.c.data)[at];
      }
    }
    if (schedule.chunks() == 0) std::copy_n(first.data(), first.size(), parts_.data());
  }

  /// The accumulators of the panel that starts at column j; the next row is `panel` on.
  float* chunk(Index j) { return chunk_.data() + j * tile_.rows; }

  /// Ends a chunk for every output: after_chunk of emu/sums, column by column.
  void after(std::uint8_t what) {
    if ((what & kPromote) != 0) {
      for (std::size_t i = 0; i < chunk_.size(); ++i) {
        promoted_[i] = promoted_sum(product_.sum, promoted_[i], chunk_[i]);
        chunk_[i] = 0.0f;
      }
    }
    if ((what & kBlockEnd) != 0) end_block();
    if ((what & kPartEnd) != 0) end_part();
  }

  float result(Index r, Index j) const { return machine_result(product_.sum, parts_[index(r, j)]); }

 private:
  std::size_t outputs() const {
    return static_cast<std::size_t>(tile_.rows * round_up(tile_.columns, panel_));
  }
  std::size_t index(Index r, Index j) const {
    return static_cast<std::size_t>((j / panel_ * tile_.rows + r) * panel_ + j % panel_);
  }

  void end_block() {
    CacheLines<float>& sum = schedule_.promotes ? promoted_ : chunk_;
    const Index k = schedule_.block_first[block_++];
    std::vector<float> scales_b(static_cast<std::size_t>(tile_.columns), 1.0f);
    const bool numbers = product_.sum.fold != Fold::term;
    for (Index j = 0; numbers && j < tile_.columns; ++j) {
      scales_b[static_cast<std::size_t>(j)] = product_.b.scale({}, tile_.column + j, k);
    }
    for (Index r = 0; r < tile_.rows; ++r) {
      const float scale_a = numbers ? product_.a.scale({}, tile_.row + r, k) : 1.0f;
      for (Index j = 0; j < tile_.columns; ++j) {
        const std::size_t i = index(r, j);
        blocks_[i] = fold_block(product_.sum.fold, sum[i], scale_a,
                                scales_b[static_cast<std::size_t>(j)], blocks_[i]);
        sum[i] = 0.0f;
      }
    }
  }

  void end_part() {
    CacheLines<float>& sum = product_.sum.block > 0 ? blocks_
                             : schedule_.promotes   ? promoted_
                                                    : chunk_;
    for (std::size_t i = 0; i < sum.size(); ++i) {
      parts_[i] = first_part_ ? sum[i] : parts_[i] + sum[i];
      sum[i] = 0.0f;
    }
    first_part_ = false;
  }

  const ContractionView& product_;
  const DotSchedule& schedule_;
  const ModelTile& tile_;
  Index panel_;
  CacheLines<float> chunk_;
  CacheLines<float> promoted_;
  CacheLines<float> blocks_;
  CacheLines<float> parts_;
  std::size_t block_ = 0;
  bool first_part_ = true;
};

}  // namespace mxo::cpu
