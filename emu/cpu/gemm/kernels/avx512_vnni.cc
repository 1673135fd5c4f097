// The integer loop for AVX-512 with VNNI: multiply, add the pair, accumulate in one instruction.
#include <immintrin.h>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/gemm/kernels/vectors.h"
#include "emu/cpu/target_region.h"

MXO_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")
namespace mxo::cpu {
namespace {

struct V : Vectors<64> {
  static constexpr int kMr = 12;
  static I32 mul_add(I32 a, I32 b, I32 c) {
    return reinterpret_cast<I32>(_mm512_dpwssd_epi32(
        reinterpret_cast<__m512i>(c), reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
  }
};

#include "emu/cpu/gemm/kernels/register_tiles.inc"

}  // namespace

const Kernels& avx512_vnni_kernels() {
  static const Kernels kernels = [] {
    Kernels k = avx512_kernels();
    k.isa = Isa::avx512_vnni;
    k.dot_int16 = dot_int16;
    return k;
  }();
  return kernels;
}

}  // namespace mxo::cpu
MXO_TARGET_END
