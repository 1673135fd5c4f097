// The exact product on the device.
#pragma once

#include "emu/cuda/gemm/digit_planes.cuh"

namespace mxo::cuda {

/// A bit for each output whose rounding the planes leave open: bit j % 32 of word j / 32 of a line
/// of a, lines of all groups together.
struct Doubt {
  std::uint32_t* bits;
  Index words;  ///< of a line
};

/// Every output whose rounding the planes decide; the others are marked in `doubt` and left alone.
void multiply_planes(DeviceBackend& backend, const Problem& p, const DigitPlanes& a,
                     const DigitPlanes& b, const Doubt& doubt);

/// Outputs in doubt, from the lines' codes: in binary64, and where that leaves the rounding open,
/// in fixed point.
void decide_doubt(DeviceBackend& backend, const Problem& p, const DigitPlanes& a,
                  const DigitPlanes& b, const Doubt& doubt);

/// Every output, term by term in fixed point.
void add_in_fixed_point(DeviceBackend& backend, const Problem& p);

/// The chain of fused multiply-adds, one output to a thread.
void chain_products(DeviceBackend& backend, const Problem& p);

}  // namespace mxo::cuda
