// What the packers of integer panels share: the scales of a run, residuals, and bounds.
#pragma once

#include "emu/cpu/gemm/pack/scratch.h"

namespace mxo::cpu {

/// The scales of some neighbouring blocks of one K-vector: block b's is 2^(top - shift[b]) * value.
struct BlockScales {
  static constexpr int kMax = 16;
  int top;
  int min_scale;  ///< exponent of the smallest scale's last place
  std::uint8_t shift[kMax];
  bool joint;  ///< the scales are close enough for one unit
  float value;
  bool nan;
  bool infinite;
};
/// The scales of `blocks` blocks from element `start` of a K-vector on.
void read_scales(ScaleForm form, const Factor& factor, Index row, Index start, int blocks,
                 BlockScales& scales);

/// Layout of a panel of integers whose data take `data` bytes.
PanelBytes integer_bytes(Index data, int scale_step, const KBlock& k_block);

/// Fills the parts of a panel that do not depend on how it stores integers.
class IntegerPacker {
 public:
  IntegerPacker(const Kernels& kernels, const Product& product, const Factor& factor,
                const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);

 protected:
  void begin();
  void begin_run(Index run);
  void end();

  /// Encodes a run of one K-vector as int16 pairs, each run or block in the unit its norm allows.
  void pack_pairs(Index run, int count, int lane, std::int32_t* pairs);
  /// Records the residuals of a run; bit c of 128 candidates: element c may have one.
  void keep_residuals(int lane, const std::uint64_t* candidates, const std::uint8_t* codes,
                      const int (&exponent)[kRunBlocks], const double (&weight)[kRunBlocks]);
  /// The residual of element `at` of a K-vector's run, if it has one; `exponent` of the unit its
  /// code is in.
  void keep_residual(int lane, int at, std::uint8_t code, int exponent, double weight);
  void check_residuals();
  void sort_residuals(Index run);
  void mark_special(int lane, bool nan);
  bool has_nan(const std::uint8_t* codes) const;
  double& weight_at(Index run, int block, int lane) {
    return panel_.scales[(run * kRunBlocks + block) * panel_.scale_step + lane];
  }

  const Kernels& kernels_;
  const Product& product_;
  const Factor& factor_;
  const KBlock& k_block_;
  MicroPanel& panel_;
  PackScratch& scratch_;
  const float* values_;
  CodeFormat format_;
  Index run_ = 0;  ///< the one begun last
  std::size_t max_residuals_ = 0;
  double residuals_[kMaxNr] =
      {};  ///< sum of magnitudes of the residuals of each K-vector, in its units
};

}  // namespace mxo::cpu
