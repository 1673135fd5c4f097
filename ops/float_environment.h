// Arithmetic as written: a process with flush-to-zero or contraction cannot be an oracle.
// Thread safety: looks at the calling thread; any threads at once.
#pragma once

namespace mxo {

/// Throws Error(unsupported) if subnormals are flushed, if the rounding mode is not to nearest
/// even, or if the compiler fused a multiply and an add in this library.
void require_ieee_arithmetic();

}  // namespace mxo
