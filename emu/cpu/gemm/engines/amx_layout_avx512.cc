// The table of AMX with its tile instructions spelt out in plain C++, upon AVX-512.
#include "emu/cpu/gemm/engines/amx.h"

namespace mxo::cpu {

const Kernels& amx_layout_kernels() {
  static const Engine* const engines[] = {&kThreeSlicesEngine, &kBf16Engine, &kTwoSlicesEngine,
                                          nullptr};
  static const Kernels kernels = [] {
    Kernels k = avx512_kernels();
    k.mr_integers = kTileLanes;
    k.tile_engines = engines;
    k.slices = &two_slices_layout_kernels();
    k.add_three_slices = avx512_add_three_slices;
    k.bf16 = &bf16_layout_kernels();
    k.add_residuals_of_a = avx512_add_residuals_of_a;
    k.add_residuals_of_b = avx512_add_residuals_of_b;
    return k;
  }();
  return kernels;
}

}  // namespace mxo::cpu
