// Outputs so near the exact product that any order of f32 may have given them.
// Thread safety: any threads at once, where the backend is one of a CPU.
#pragma once

#include "golden/judge/error_bound.h"
#include "ops/catalogue.h"

namespace mxo {

/// ErrorBound::sure of a product called on `inputs`, which must outlive it.  The first call has
/// `backend` make the exact product e, each element rounded once to f32; then `value` passes where
/// |value - e| and what e was rounded by are within least_relative |e|: M is no less than the
/// magnitude of the sum, so that `least_relative` M <= stray everywhere is enough
/// (docs/gates.md).  None pass where the backend refuses the product.
std::function<std::vector<bool>(const OutputBlock&, const std::function<double(Index)>& value)>
beside_exact(Backend& backend, std::string_view op, std::string_view output,
             const NamedTensors& inputs, const Parameters& set, double least_relative);

}  // namespace mxo
