// The error function and the hyperbolic tangent of a float, correctly rounded, on the host.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

namespace mxo {

/// erf(x) = 2 / sqrt(pi) * the integral of exp(-t^2) over 0 .. x, rounded once to nearest even.
/// erf(-0) is -0; NaN is the canonical one.
float erf_rn(float x);

/// tanh(x), rounded once to nearest even.  tanh(-0) is -0; NaN is the canonical one.
float tanh_rn(float x);

}  // namespace mxo
