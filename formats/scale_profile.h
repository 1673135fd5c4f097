// What real stacks do differently when they choose a scale, as named data.
// Thread safety: functions of their arguments and values; any threads at once.
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
  division_in_x,        ///< amax / max rounded to the type of x; named in `rule_for`
  division_in_bf16,     ///< the same for x in bf16
  division_in_f16,      ///< the same for x in f16
};

/// Where the exponent of a scale comes from.  Logarithms are fl32(log2(.)): a little below or
/// above a power of two they are the power's.
enum class ExponentRule : std::uint8_t {
  by_mode,           ///< as ScaleMode says
  floor_quotient,    ///< floor(log2(fl32(amax / max))); 1 for a quotient of 0
  nearest_quotient,  ///< the integer nearest to log2(fl32(amax / max)), as a real number
  ceil_quotient,     ///< ceil(log2(fl32(amax / max)))
  floor_amax,        ///< floor(log2(amax)), emax not subtracted
  floor_log2,        ///< floor(log2(amax)) - emax
  quarter,           ///< that of amax + 2^21 units of its binade's 2^23, less emax
};

/// What becomes of a quotient between 0 and 2^-126 that is rounded up.
enum class SubnormalUp : std::uint8_t {
  exact,   ///< 2^-127 up to 2^-127, else 2^-126
  always,  ///< 2^-126: its fraction is not zero
};

/// The scale of a block whose amax is infinite.
enum class InfinityRule : std::uint8_t {
  nan,             ///< FF: the whole block becomes NaN
  saturate,        ///< FE: infinities saturate, the rest is cast by 2^-127
  flush,           ///< FF, and x is divided by infinity: zeros, and NaN where x is infinite
  saturate_flush,  ///< FE, and x is multiplied by 0, what 2^-127 is where subnormals are flushed
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
  ExponentRule exponent = ExponentRule::by_mode;
  SubnormalUp up = SubnormalUp::exact;
  std::uint8_t nan_scale = 0xFF;  ///< of a block whose amax is NaN
  bool nan_codes = false;         ///< all of such a block is NaN, whatever its scale
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
