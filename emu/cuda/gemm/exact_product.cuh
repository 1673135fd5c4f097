// The exact product on the device.
#pragma once

#include "emu/cuda/gemm/digit_planes.cuh"

namespace mxo::cuda {

/// Every output whose lines are in_integers, from the planes; the others are left alone.
void multiply_planes(DeviceBackend& backend, const Problem& p, const DigitPlanes& a,
                     const DigitPlanes& b);

/// Every output whose lines are not in_integers, all of them if there are no windows, term by term
/// in fixed point.
void add_in_fixed_point(DeviceBackend& backend, const Problem& p, const LineWindow* a,
                        const LineWindow* b);

/// The chain of fused multiply-adds, one output to a thread.
void chain_products(DeviceBackend& backend, const Problem& p);

}  // namespace mxo::cuda
