// A few lines of a factor, packed for an engine, with what is known of their sums.
#pragma once

#include <memory>
#include <vector>

#include "emu/cpu/gemm/product.h"
#include "emu/cpu/gemm/tiles/rounded_rows.h"

namespace mxo::cpu {

/// How a product is computed.
enum class Engine : std::uint8_t {
  int16,   ///< 8-bit codes as int16, exact int32 sums of a run, f64 across runs
  bf16,    ///< 8-bit codes of few blocks as bf16, sums in f32, rounded to bf16 within a bound
  digits,  ///< bf16 operands as 24-bit integers, exact int32 sums, rounded to bf16 in f32
  f64,     ///< bf16 operands in f64
  chain,   ///< fma_chain in f32
};

/// What is known of one line; docs/numerics.md, "The exact product".
struct LineBound {
  double norm2;      ///< at least the sum of squares of its elements
  int quantum;       ///< every element is a multiple of 2^quantum
  double roundings;  ///< roundings it can cause in a sum
  bool special;      ///< holds a NaN or an infinity, maybe in a scale
  bool nan;
  static constexpr int kNone = 1 << 20;
};

/// A panel with more rests has its sums taken to f64.
inline constexpr int kMostDirectRests = 128;

/// Runs of byte planes that share a unit: several, unless each has an f32 scale of its own.
inline Index span_runs(Scaling scaling) { return scaling == Scaling::blockwise ? 1 : kSpanRuns; }

struct Panel {
  Panel() {}  // which leaves the arrays as they are: a product has thousands of panels
  Index first = 0;
  int width = 0;                  ///< lines
  int step = 0;                   ///< lines as stored: of A the width, of B all lanes of the table
  int scale_step = 0;             ///< lanes of `scales`
  void* data = nullptr;           ///< as kernels.h says, `depth` rounded up to blocks
  double* scales = nullptr;       ///< int16: [block][scale_step], what a line's int16 unit is worth
  std::uint8_t* split = nullptr;  ///< int16: [run] 1 if its blocks differ in unit
  std::uint32_t* rest_begin = nullptr;  ///< int16: [run + 1], digits: [lane + 1], into rests
  std::vector<Rest> rests;              ///< of each run or lane by rising `at`
  bool dense = false;                   ///< too many rests; the integers are not to be used
  bool direct = false;                  ///< int16: sums may be rounded in f32, by `errors`
  double unit[kMaxLanesB];              ///< bf16, digits, direct: of each line
  LineErrors errors;                    ///< bf16, digits, direct
  /// Direct: the rests in the order of their lanes, and where in it each lane's begin.
  std::uint8_t by_lane[kMostDirectRests];
  std::uint8_t lane_begin[kMaxLanesB + 1];
  std::uint32_t specials = 0;  ///< bf16, digits: bit of each line with a NaN or an infinity
  LineBound bound[kMaxLanesB];
  ColumnEnds ends;  ///< of its lines, once all of the depth is packed

  RowEnd row_end(int lane) const {
    return {ends.reach[lane], ends.norm[lane], ends.roundings[lane], ends.scale[lane]};
  }
};

/// Which part of the contracted axis a panel holds.
struct Depth {
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
std::size_t panel_bytes(Engine engine, int step, int scale_step, const Depth& depth);
/// Points the panel into memory of panel_bytes, 64-aligned.
void place_panel(Panel& panel, Engine engine, const Depth& depth, std::byte* memory);

/// Room for one run on its way into a panel.
struct PackScratch;
struct PackScratchDelete {
  void operator()(PackScratch* scratch) const;
};
using PackScratchPtr = std::unique_ptr<PackScratch, PackScratchDelete>;
PackScratchPtr make_pack_scratch();

/// Fills the panel from elements [depth.start, + count) of its lines; bounds accumulate over
/// calls for the parts of one depth, and the last of them sets the ends.
void pack_panel(const Kernels& kernels, Engine engine, const Product& product, const Factor& factor,
                const Depth& depth, Panel& panel, PackScratch& scratch);

/// One run of a line as f64 values, code times scale; a special line gives zeros.
void pack_run_f64(const Product& product, const Factor& factor, const Panel& panel, Index start,
                  int count, int half_lanes, double* out, PackScratch& scratch);

}  // namespace mxo::cpu
