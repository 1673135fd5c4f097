// Whether memory for a tensor can be had, asked before it is taken.
// Thread safety: a function of its arguments and the machine; any threads at once.
#pragma once

#include <span>
#include <string_view>

#include "formats/dtype.h"
#include "formats/tensor_view.h"

namespace mxo {

/// Throws Error(unsupported) "where: found ..., needs ..." for a tensor of more bytes than this
/// machine has memory: the system would grant them, and end the process at the first use.
/// Error(shape) for an extent below 0.
void require_room(std::string_view where, Dtype dtype, std::span<const Index> shape);

}  // namespace mxo
