// What real stacks do differently when they choose a scale, as named data.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/host_device.h"

namespace mxo {

/// How rceil divides amax by the largest value of the format.
enum class Descale : std::uint8_t {
  reciprocal_multiply,  ///< fl32(amax * fl32(1 / max))
  division,             ///< fl32(amax / max)
  exact,                ///< the real quotient
};

/// The scale of a block whose amax is infinite.
enum class InfinityRule : std::uint8_t {
  nan,       ///< FF: the whole block becomes NaN
  saturate,  ///< FE: infinities saturate, the rest is cast by 2^-127
};

/// Whether a NaN element reaches amax.
enum class NanRule : std::uint8_t {
  propagate,  ///< one NaN makes the block NaN
  ignore,     ///< amax of the other elements; the element alone becomes NaN
};

/// How the floor mode takes the exponent.
enum class FloorRule : std::uint8_t {
  exponent_field,  ///< integer arithmetic on amax
  /// fl32(amax * 2^-emax), then toward zero; differs at 047FFFFF (e4m3) and 07FFFFFF (e5m2).
  multiply,
};

/// A named bundle of choices.
struct ScaleProfile {
  Descale descale = Descale::reciprocal_multiply;
  InfinityRule infinity = InfinityRule::nan;
  NanRule nan = NanRule::propagate;
  FloorRule floor = FloorRule::exponent_field;
  friend constexpr bool operator==(const ScaleProfile&, const ScaleProfile&) = default;
};

/// torchao to_mx, eager (pytorch/ao 36027d8): what tests/data holds.
inline constexpr ScaleProfile kTorchao{};
/// torchao's CUDA and CuTeDSL kernels at the same commit: floor goes through a multiply.
inline constexpr ScaleProfile kTorchaoCuda{Descale::reciprocal_multiply, InfinityRule::nan,
                                           NanRule::propagate, FloorRule::multiply};
/// TransformerEngine MXFP8 (d0067d0): float_to_e8m0 satfinite, fmax drops NaN.
inline constexpr ScaleProfile kTransformerEngine{
    Descale::reciprocal_multiply, InfinityRule::saturate, NanRule::ignore, FloorRule::multiply};
/// OCP MX v1.0 section 6.3 with every quotient exact.
inline constexpr ScaleProfile kOcp{Descale::exact, InfinityRule::nan, NanRule::propagate,
                                   FloorRule::exponent_field};

}  // namespace mxo
