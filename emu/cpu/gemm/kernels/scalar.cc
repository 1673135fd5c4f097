// The inner loops in plain C++, by vectors of 16 bytes, which every machine has.
#include <cmath>
#include <utility>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/gemm/kernels/vectors.h"
#include "emu/exact/integer_unit.h"

namespace mxo::cpu {
namespace {

struct V : Vectors<16> {
  static constexpr int kMr = 4;
  template <typename Float>
  static Float mul_add(Float a, Float b, Float c) {
    for (std::size_t i = 0; i < sizeof(a) / sizeof(a[0]); ++i) c[i] = std::fma(a[i], b[i], c[i]);
    return c;
  }
  static I32 mul_add(I32 a, I32 b, I32 c) {
    return c + (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
  }
  static F64 to_f64(I32OfF64 x) { return __builtin_convertvector(x, F64); }
  static F32OfF64 to_f32(F64 x) { return __builtin_convertvector(x, F32OfF64); }
  static I32 widened(const std::uint8_t* from) {
    const I32 lanes = {from[0], from[1], from[2], from[3]};
    return lanes;
  }
  static I16OfF32 narrowed(I32 x) { return __builtin_convertvector(x, I16OfF32); }
  static std::uint32_t differ(F32 a, F32 b) {
    std::uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits |= (a[i] != b[i] ? 1u : 0u) << i;
    return bits;
  }
  static std::uint32_t signs(I64 x) { return (x[0] < 0 ? 1u : 0u) | (x[1] < 0 ? 2u : 0u); }
};

#include "emu/cpu/gemm/kernels/register_tiles.inc"

#include "emu/cpu/gemm/kernels/products.inc"

#include "emu/cpu/gemm/kernels/packing.inc"

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels kernels = table(Isa::scalar);
  return kernels;
}

}  // namespace mxo::cpu
