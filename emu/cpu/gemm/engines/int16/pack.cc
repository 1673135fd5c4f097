// Codes to panels of int16 pairs.
#include <cstring>

#include "emu/cpu/gemm/engines/packers.h"

namespace mxo::cpu {
namespace {

class PairPacker : IntegerPacker {
 public:
  using IntegerPacker::IntegerPacker;

  void pack() {
    begin();
    std::memset(panel_.scales, 0,
                static_cast<std::size_t>(k_block_.runs() * kRunBlocks * panel_.scale_step) * 8);
    for (int lane = panel_.width; lane < panel_.step; ++lane) {
      std::memset(scratch_.k_vectors[lane], 0, sizeof(scratch_.k_vectors[lane]));
    }
    for (Index run = 0; run < k_block_.runs(); ++run) {
      begin_run(run);
      pack_run(run);
    }
    end();
  }

 private:
  void pack_run(Index run) {
    const int count = k_block_.run_count(run);
    scratch_.codes.fetch(factor_, panel_.first, panel_.width, k_block_.start + run * kRun, count);
    for (int lane = 0; lane < panel_.width; ++lane) {
      pack_pairs(run, count, lane, reinterpret_cast<std::int32_t*>(scratch_.k_vectors[lane]));
    }
    auto* to = static_cast<std::int32_t*>(panel_.data) + run * kRunPairs * panel_.step;
    const int blocks = static_cast<int>(ceil_div(count, kBlock));
    const bool is_b = panel_.scale_step == kMaxNr;
    (is_b ? kernels_.place_b : kernels_.place_a)(panel_.step, blocks, scratch_.k_vectors[0], to);
  }
};

}  // namespace

void pack_pairs(const Kernels& kernels, const Product& product, const Factor& factor,
                const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  PairPacker(kernels, product, factor, k_block, panel, scratch).pack();
}

}  // namespace mxo::cpu
