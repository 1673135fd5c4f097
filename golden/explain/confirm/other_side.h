// What may be a pair; and one side of a product put right where scales of the other are left.
#pragma once

#include "golden/explain/confirm/altered_call_runner.h"

namespace mxo {

/// Two of one stage exclude each other, but operands can be misread on both sides.
bool combine(const Hypothesis& a, const Hypothesis& b);

/// Of hypotheses that read one side from elsewhere the first, at most `most`, under which a few
/// lines of the other side, whatever their scales, give the actual output; none where that is so
/// as they are given.
Hypotheses leaving_scales(const Call& call, const Output& y, const Hypotheses& list,
                          std::size_t most);

}  // namespace mxo
