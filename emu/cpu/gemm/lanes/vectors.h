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
    const hn::DFromV<Vector> tag;
    HWY_ALIGN hn::TFromD<decltype(tag)> x[kLanes], y[kLanes], z[kLanes];
    hn::Store(a, tag, x);
    hn::Store(b, tag, y);
    hn::Store(c, tag, z);
    for (std::size_t i = 0; i < hn::MaxLanes(tag); ++i) z[i] = std::fma(x[i], y[i], z[i]);
    return hn::Load(tag, z);
  }
}

/// What packing.cc has of a table.
void set_packing(Kernels& table);

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
