// Products and quotients that no flag of a user's compiler may split, join or turn round.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include "formats/host_device.h"

namespace mxo {

/// The same, compiled with our own flags (formats/rounded_once.cc).
namespace library {
MXO_HD float mul_rn(float a, float b);
MXO_HD float div_rn(float a, float b);
MXO_HD double div_rn(double a, double b);
}  // namespace library

inline namespace MXO_ARITHMETIC {

/// a * b, rounded once to nearest even.
MXO_HD constexpr float mul_rn(float a, float b) {
  if constexpr (MXO_THROUGH_LIBRARY) {
    if (!__builtin_is_constant_evaluated()) return library::mul_rn(a, b);
  }
  return a * b;
}

/// a / b, rounded once to nearest even.
MXO_HD constexpr float div_rn(float a, float b) {
  if constexpr (MXO_THROUGH_LIBRARY) {
    if (!__builtin_is_constant_evaluated()) return library::div_rn(a, b);
  }
  return a / b;
}
MXO_HD constexpr double div_rn(double a, double b) {
  if constexpr (MXO_THROUGH_LIBRARY) {
    if (!__builtin_is_constant_evaluated()) return library::div_rn(a, b);
  }
  return a / b;
}

}  // namespace MXO_ARITHMETIC
}  // namespace mxo
