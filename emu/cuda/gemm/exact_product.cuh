// The exact product on the device.
#pragma once

#include "emu/cuda/gemm/slices.cuh"

namespace mxo::cuda {

/// A bit for each output that failed the rounding test: bit j % 32 of word j / 32 of a
/// K-vector of a, K-vectors of all groups together.
struct FailedOutputs {
  std::uint32_t* bits;
  Index words;  ///< of a K-vector
};

/// Every output that passes the rounding test; the others are marked in `failed` and left alone.
void multiply_slices(DeviceBackend& backend, const Problem& p, const Slices& a, const Slices& b,
                     const FailedOutputs& failed);

/// Outputs that failed the rounding test, from the K-vectors' codes: in binary64, and where that
/// fails it, too, in fixed point.
void compute_failed_outputs(DeviceBackend& backend, const Problem& p, const Slices& a,
                            const Slices& b, const FailedOutputs& failed);

/// Every output, term by term in fixed point.
void add_in_fixed_point(DeviceBackend& backend, const Problem& p);

/// The chain of fused multiply-adds, one output to a thread.
void chain_products(DeviceBackend& backend, const Problem& p);

}  // namespace mxo::cuda
