// Shapes of the outputs of a call that is too large to be made.
// Thread safety: functions of their arguments; any threads at once.
#pragma once

#include "golden/suites/shapes/slices.h"
#include "ops/backend.h"
#include "ops/communicator.h"

namespace mxo {

/// What the call would give, by the operator's own checks: nothing is computed.  Empty for an
/// operator on ranks.  Throws what the operator throws.
std::vector<OutputShape> output_shapes(const ShapedCall& call);
/// The same of an operator on ranks that is cut into columns, by two narrow calls; empty where it
/// is not cut.
std::vector<OutputShape> output_shapes_on_ranks(const ShapedCall& call, Backend& backend,
                                                World& world);
/// Bytes of all operands.
double input_bytes(const ShapedCall& call);

}  // namespace mxo
