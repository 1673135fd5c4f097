// Certified bounds of operators that sum nothing: a gate activation, a cast to codes.
#pragma once

#include <optional>

#include "golden/judge/bound.h"
#include "golden/judge/comparator.h"
#include "ops/catalogue.h"

namespace mxo {

/// For y = s b p of swiglu, s = a * sigma(a), p = 1 where nothing weighs:
///
///   stray = 12 u |y| + 2^-125 |a b p| + 2^-147 (1 + |s|) (1 + |b|) (1 + |p|),  u = 2^-24
///
/// and infinite where s b, s p or b p may overflow.  docs/gates.md derives it.  `exact` is computed
/// in double, to which `doubt` is what it may lose.
ErrorBound swiglu_bound(const NamedTensors& inputs);

/// For codes of quantize, as the values that they stand for at their own scales (which are held to
/// bits): no further from x than the expected code is, but for 4 u |x|, as docs/gates.md derives.
/// So a tie may go either way, and nothing else may. Nothing where x is no matrix of the shape of
/// the codes.  Computed element by element when asked: its arguments must outlive it.
std::optional<ErrorBound> quantize_bound(const NamedTensors& inputs, const Parameters& set,
                                         const ExpectedOutput& codes, const Tensor& actual,
                                         Roundings roundings = Roundings::worst);

}  // namespace mxo
