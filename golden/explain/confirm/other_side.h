// What may be a pair; and one side of a product put right where scales of the other are left.
#pragma once

#include "golden/explain/confirm/altered_call_runner.h"

namespace mxo {

/// Two of one stage exclude each other, but operands can be misread on both sides.
bool combine(const Hypothesis& a, const Hypothesis& b);

/// Whether neither of two alters a parameter that the other one alters.
bool in_any_order(const AlteredCallRunner& runner, const Hypothesis& a, const Hypothesis& b);

/// Operands misread in two ways that come to the same are one cause: the first says it best, unless
/// it is the order of K, which either operand may have, or they are the same of these numbers only.
/// What holds in a part holds in the whole only if it is local.
bool is_another_cause(const Call& call, const Hypothesis& h, const Hypothesis& first);

/// Of hypotheses that read one side from elsewhere the first, at most `most`, under which a few
/// lines of the other side, whatever their scales, give the actual output; none where that is so
/// as they are given.
Hypotheses leaving_scales(const Call& call, const Output& y, const Hypotheses& list,
                          std::size_t most);

}  // namespace mxo
