// What the packers of integer panels share: the scales of a run, rests, and bounds.
#pragma once

#include "emu/cpu/gemm/pack/scratch.h"

namespace mxo::cpu {

/// The scales of some neighbouring blocks of one line: block b's is 2^(top - shift[b]) * value.
struct BlockScales {
  static constexpr int kMost = 16;
  int top;
  int least;  ///< exponent of the least scale's last place
  std::uint8_t shift[kMost];
  bool joint;  ///< near enough for one unit
  float value;
  bool nan;
  bool infinite;
};
/// Those of `blocks` blocks from element `start` of a line on.
void read_scales(Scaling scaling, const Factor& factor, Index row, Index start, int blocks,
                 BlockScales& scales);

/// The exponent of the last place of the binade of a magnitude code.
int quantum_of(Dtype dtype, int magnitude);

/// Fills the parts of a panel that do not depend on how it stores integers.
class LinePacker {
 public:
  LinePacker(const Kernels& kernels, const Product& product, const Factor& factor,
             const Depth& depth, Panel& panel, PackScratch& scratch);

 protected:
  void begin();
  void begin_run(Index run);
  void end();

  /// A run of one line to int16 pairs, each run or block with the unit that its norm allows.
  void pack_pairs(Index run, int count, int lane, std::int32_t* pairs);
  /// Of a run; bit c of its 128 candidates: element c may have a rest.
  void keep_rests(int lane, const std::uint64_t* candidates, const std::uint8_t* codes,
                  const int (&exponent)[kRunBlocks], const double (&worth)[kRunBlocks]);
  /// The rest of element `at` of a line's run, if it has one; `exponent` of the unit its code is
  /// in.
  void keep_rest(int lane, int at, std::uint8_t code, int exponent, double worth);
  void check_rests();
  void sort_rests(Index run);
  void mark_special(int lane, bool nan);
  bool has_nan(const std::uint8_t* codes) const;
  double& worth_at(Index run, int block, int lane) {
    return panel_.scales[(run * kRunBlocks + block) * panel_.scale_step + lane];
  }

  const Kernels& kernels_;
  const Product& product_;
  const Factor& factor_;
  const Depth& depth_;
  Panel& panel_;
  PackScratch& scratch_;
  const float* values_;
  std::size_t most_rests_ = 0;
  double rests_[kMaxLanesB] = {};  ///< sum of magnitudes of the rests of each line, in its units
};

}  // namespace mxo::cpu
