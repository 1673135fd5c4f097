// Codes to panels of int16 pairs.
#include <cstring>

#include "emu/cpu/gemm/engines/packers.h"

namespace mxo::cpu {
namespace {

class PairPacker : LinePacker {
 public:
  using LinePacker::LinePacker;

  void pack() {
    begin();
    std::memset(panel_.scales, 0,
                static_cast<std::size_t>(depth_.runs() * kRunBlocks * panel_.scale_step) * 8);
    for (int lane = panel_.width; lane < panel_.step; ++lane) {
      std::memset(scratch_.lines[lane], 0, sizeof(scratch_.lines[lane]));
    }
    for (Index run = 0; run < depth_.runs(); ++run) {
      begin_run(run);
      pack_run(run);
    }
    end();
  }

 private:
  void pack_run(Index run) {
    const int count = depth_.run_count(run);
    scratch_.codes.fetch(factor_, panel_.first, panel_.width, depth_.start + run * kRun, count);
    for (int lane = 0; lane < panel_.width; ++lane) {
      pack_pairs(run, count, lane, reinterpret_cast<std::int32_t*>(scratch_.lines[lane]));
    }
    auto* to = static_cast<std::int32_t*>(panel_.data) + run * kRunPairs * panel_.step;
    const int blocks = static_cast<int>(ceil_div(count, kBlock));
    const bool is_b = panel_.scale_step == kMaxLanesB;
    (is_b ? kernels_.place_b : kernels_.place_a)(panel_.step, blocks, scratch_.lines[0], to);
  }
};

}  // namespace

void pack_pairs(const Kernels& kernels, const Product& product, const Factor& factor,
                const Depth& depth, Panel& panel, PackScratch& scratch) {
  PairPacker(kernels, product, factor, depth, panel, scratch).pack();
}

}  // namespace mxo::cpu
