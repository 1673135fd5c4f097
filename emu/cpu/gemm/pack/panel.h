// A few K-vectors of a factor, packed for an engine, with what is known of their sums.
#pragma once

#include <memory>
#include <vector>

#include "emu/cpu/gemm/product.h"
#include "emu/cpu/gemm/tiles/rounded_rows.h"

namespace mxo::cpu {

/// How a product is computed.
enum class Engine : std::uint8_t {
  int16,         ///< 8-bit codes as int16, exact int32 sums of a run, f64 across runs
  bf16,          ///< 8-bit codes of few blocks as bf16, sums in f32, rounded to bf16 within a bound
  three_slices,  ///< bf16 operands as 24-bit integers, exact int32 sums, rounded to bf16 in f32
  f64,           ///< bf16 operands in f64
  chain,         ///< fma_chain in f32
};

/// What is known of one K-vector; docs/numerics.md, "The exact product".
struct KVectorBound {
  double norm2;      ///< at least the sum of squares of its elements
  int quantum;       ///< every element is a multiple of 2^quantum
  double roundings;  ///< roundings it can cause in a sum
  bool special;      ///< holds a NaN or an infinity, maybe in a scale
  bool nan;
  static constexpr int kNone = 1 << 20;
};

/// A panel with more residuals has its sums taken to f64.
inline constexpr int kMaxDirectResiduals = 128;

/// Runs of two slices that share a unit: several, unless each has an f32 scale of its own.
inline Index span_runs(Scaling scaling) { return scaling == Scaling::blockwise ? 1 : kSpanRuns; }

struct MicroPanel {
  MicroPanel() {}  // which leaves the arrays as they are: a product has thousands of panels
  Index first = 0;
  int width = 0;         ///< K-vectors
  int step = 0;          ///< K-vectors as stored: of A the width, of B all lanes of the table
  int scale_step = 0;    ///< lanes of `scales`
  void* data = nullptr;  ///< as kernels.h says, the kc block rounded up to blocks
  double* scales =
      nullptr;  ///< int16: [block][scale_step], weight of the last bit of a K-vector's integers
  std::uint8_t* split = nullptr;  ///< int16: [run] 1 if its blocks differ in unit
  std::uint32_t* residual_begin =
      nullptr;                      ///< int16: [run + 1], three slices: [lane + 1], into residuals
  std::vector<Residual> residuals;  ///< of each run or lane by rising `at`
  bool residual_overflow = false;   ///< too many residuals; the integers are not to be used
  bool direct = false;              ///< int16: sums may be rounded in f32, by `errors`
  double unit[kMaxNr];              ///< bf16, three slices, direct: of each K-vector
  KVectorErrors errors;             ///< bf16, three slices, direct
  /// Direct: the residuals in the order of their lanes, and where in it each lane's begin.
  std::uint8_t by_lane[kMaxDirectResiduals];
  std::uint8_t lane_begin[kMaxNr + 1];
  std::uint32_t specials =
      0;  ///< bf16, three slices: bit of each K-vector with a NaN or an infinity
  KVectorBound bound[kMaxNr];
  ColumnEnds ends;  ///< of its K-vectors, once all of K is packed

  RowEnd row_end(int lane) const {
    return {ends.reach[lane], ends.norm[lane], ends.roundings[lane], ends.scale[lane]};
  }
};

/// The kc block: what of the contracted axis a panel holds.
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

/// Bytes of everything a panel points to.
std::size_t panel_bytes(Engine engine, int step, int scale_step, const KBlock& k_block);
/// Points the panel into memory of panel_bytes, 64-aligned.
void place_panel(MicroPanel& panel, Engine engine, const KBlock& k_block, std::byte* memory);

/// Room for one run on its way into a panel.
struct PackScratch;
struct PackScratchDelete {
  void operator()(PackScratch* scratch) const;
};
using PackScratchPtr = std::unique_ptr<PackScratch, PackScratchDelete>;
PackScratchPtr make_pack_scratch();

/// Fills the panel from elements [k_block.start, + count) of its K-vectors; bounds accumulate over
/// calls for the kc blocks of one K, and the last of them sets the ends.
void pack_panel(const Kernels& kernels, Engine engine, const Product& product, const Factor& factor,
                const KBlock& k_block, MicroPanel& panel, PackScratch& scratch);

/// One run of a K-vector as f64 values, code times scale; a special K-vector gives zeros.
void pack_run_f64(const Product& product, const Factor& factor, const MicroPanel& panel,
                  Index start, int count, int half_lanes, double* out, PackScratch& scratch);

}  // namespace mxo::cpu
