// A few K-vectors of a factor, packed for an engine, with the error bounds of their sums.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "ops/contraction_view.h"

namespace mxo::cpu {

/// One group's product: C[m, n] = sum over c of A[m, c] * B[n, c], through strides.
using Product = ContractionView;

/// Range of units for which every nonzero result is a normal bf16 number.
inline constexpr int kMinUnit = -60;
inline constexpr int kMaxUnit = 33;

/// Error bounds of a panel's K-vectors for rounding in f32; docs/exact_product.md, "Sums rounded in
/// binary32".  Sums of two slices are in the product of both K-vectors' units, those of three
/// slices in 256 times that.
struct KVectorErrors {
  float max_magnitude;                  ///< upper bound of all elements
  alignas(64) float residuals[kMaxNr];  ///< sum of magnitudes, per K-vector; bf16: what its small
                                        ///< elements lose, in units of `lower`'s product
  /// Three slices: bound of what the lower slices and rounding add; bf16: a last place of sums.
  alignas(64) float lower[kMaxNr];
  float max_lower;
  alignas(64) std::uint16_t exponent[kMaxNr];  ///< exponent of the unit, in bf16's exponent field
  std::uint32_t nonzero;                       ///< bit of each K-vector that is neither zero nor
                                               ///< special; all other results are +0
  std::uint32_t with_residuals;                ///< bit of each K-vector that has residuals

  /// Adds a K-vector in units of 2^unit; the other arguments are as the members, in binary64.
  void add_k_vector(int lane, int unit, double of_residuals, double of_lower) {
    residuals[lane] = static_cast<float>(of_residuals * (1.0 + 0x1p-10));
    lower[lane] = static_cast<float>(of_lower);
    max_lower = max_lower < lower[lane] ? lower[lane] : max_lower;
    exponent[lane] = static_cast<std::uint16_t>(unit * 128);
    nonzero |= 1u << lane;
    if (of_residuals > 0) with_residuals |= 1u << lane;
  }
};

/// What is known of one K-vector; docs/exact_product.md.
struct KVectorBound {
  double norm2;      ///< upper bound of the sum of squares of its elements
  int quantum;       ///< every element is a multiple of 2^quantum
  double roundings;  ///< max number of roundings it causes in a sum
  bool special;      ///< has a NaN or an infinity, possibly in a scale
  bool nan;
  static constexpr int kNone = 1 << 20;
};

/// With more residuals, a panel's sums are rounded in f64.
inline constexpr int kMaxDirectResiduals = 128;

/// Runs of two slices that share a unit: several, unless each has an f32 scale of its own.
inline Index span_runs(ScaleForm form) { return form == ScaleForm::blockwise ? 1 : kSpanRuns; }

struct RunRange {
  Index first;
  Index end;
};

struct MicroPanel {
  MicroPanel() {}  // leaves the arrays uninitialised: a product has thousands of panels
  Index first = 0;
  int width = 0;         ///< K-vectors
  int step = 0;          ///< K-vectors as stored: width for A, all lanes of the table for B
  int scale_step = 0;    ///< lanes of `scales`
  void* data = nullptr;  ///< laid out as in kernels.h, the kc block rounded up to blocks
  double* scales =
      nullptr;  ///< int16: [block][scale_step], weight of the last bit of a K-vector's integers
  std::uint8_t* split = nullptr;             ///< int16: [run] 1 if its blocks differ in unit
  std::uint32_t* residual_begin = nullptr;   ///< int16: [run + 1], into residuals
  std::uint64_t* residual_places = nullptr;  ///< int16: [run][2] bit of each element that some
                                             ///< K-vector has a residual at
  std::vector<Residual> residuals;           ///< int16: by ascending `at`
  bool residual_overflow = false;            ///< too many residuals; do not use the integers
  bool direct = false;                       ///< int16: sums may be rounded in f32, by `errors`
  double unit[kMaxNr];                       ///< bf16, three slices, direct: of each K-vector
  KVectorErrors errors;                      ///< bf16, three slices, direct
  /// Three slices, direct: the residuals, lane by lane, `at` counted over all of K, and the start
  /// of each lane's.
  std::vector<Residual> by_lane;
  std::uint32_t lane_begin[kMaxNr + 1];
  std::uint32_t specials =
      0;  ///< bf16, three slices: bit of each K-vector with a NaN or an infinity
  KVectorBound bound[kMaxNr];
  ColumnEnds ends;  ///< of its K-vectors; valid once all of K is packed

  std::span<const Residual> residuals_in(const RunRange& runs) const {
    return {residuals.data() + residual_begin[runs.first],
            residuals.data() + residual_begin[runs.end]};
  }
  std::span<const Residual> residuals_of(int lane) const {
    return {by_lane.data() + lane_begin[lane], by_lane.data() + lane_begin[lane + 1]};
  }
  RowEnd row_end(int lane) const {
    return {ends.reach[lane], ends.norm[lane], ends.roundings[lane], ends.scale[lane]};
  }
};

/// The kc block: the part of the contracted axis that a panel holds.
struct KBlock {
  Index start = 0;
  Index count = 0;
  Index runs() const { return ceil_div(count, kRun); }
  Index blocks() const { return ceil_div(count, kBlock); }
  int run_count(Index run) const {
    const Index left = count - run * kRun;
    return static_cast<int>(left < kRun ? left : kRun);
  }
};

/// Where the parts of a panel lie, each a multiple of 64 bytes.
struct PanelBytes {
  std::size_t data = 0;
  std::size_t scales = 0;
  std::size_t residual_places = 0;
  std::size_t residual_begin = 0;
  std::size_t split = 0;
  std::size_t all() const { return data + scales + residual_places + residual_begin + split; }
};
inline std::size_t whole_lines(Index bytes) {
  return static_cast<std::size_t>(round_up(bytes, Index{64}));
}
/// Points the panel into 64-byte aligned memory laid out like that.
void place_panel(MicroPanel& panel, const PanelBytes& bytes, std::byte* memory);

/// Scratch for one run while it is packed.
struct PackScratch;
struct PackScratchDelete {
  void operator()(PackScratch* scratch) const;
};
using PackScratchPtr = std::unique_ptr<PackScratch, PackScratchDelete>;
PackScratchPtr make_pack_scratch();

/// Before the first kc block is packed, and after the last.
void begin_bounds(MicroPanel& panel);
void set_ends(const Product& product, const Factor& factor, MicroPanel& panel);

}  // namespace mxo::cpu
