// What the loops of products and of packing share: tags of Highway's vectors, and fused steps.
#pragma once

#include <cmath>

#include "emu/cpu/gemm/kernels/kernels.h"
#include "emu/cpu/lanes/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

constexpr hn::Repartition<double, decltype(kInts)> kDoubles;
constexpr hn::RebindToSigned<decltype(kDoubles)> kLongs;
constexpr hn::Rebind<std::int32_t, decltype(kDoubles)> kIntsOfDoubles;
constexpr hn::Rebind<float, decltype(kDoubles)> kFloatsOfDoubles;
using D = hn::Vec<decltype(kDoubles)>;

constexpr int kLanes = hn::MaxLanes(kInts);
constexpr int kLanes64 = kLanes / 2;
constexpr int kNr = 2 * kLanes;  // a row of a register tile is two vectors
/// MR: 2 kMr vectors of sums, two of B and one of A are registers.
constexpr int kMr = kLanes == 16 ? 12 : kLanes == 8 ? 6 : 4;

/// a * b + c, rounded once.
template <typename Vector>
HWY_API Vector fused(Vector a, Vector b, Vector c) {
  if constexpr (HWY_NATIVE_FMA) {
    return hn::MulAdd(a, b, c);
  } else {
    constexpr int kCount = hn::MaxLanes(hn::DFromV<Vector>());
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
      c.raw[i] = std::fma(a.raw[i], b.raw[i], c.raw[i]);
    }
    return c;
  }
}

/// What packing.cc has of a table.
void set_packing(Kernels& table);

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
