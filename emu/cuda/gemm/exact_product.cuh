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

/// Tiles of 128 x 256 outputs that few slices leave to more of them.
struct HardTiles {
  std::uint8_t* tile = nullptr;  ///< 1: it is hard; none: all of them are
  std::int32_t* any = nullptr;   ///< 1: some tile is
  __device__ static Index place(const Problem& p, Index group, Index row, Index column) {
    const Index down =
        p.contracts_rows() ? group * ((p.a.rows + 127) / 128) : Index{p.span[group].row_tile};
    return (down + row / 128) * ((p.b.rows + 255) / 256) + column / 256;
  }
};

/// Outputs that failed the rounding test, from the K-vectors' codes: in binary64, and where that
/// fails it, too, in fixed point.  None where `wanted` is given and 0 on the device.
void compute_failed_outputs(DeviceBackend& backend, const Problem& p, const KnownKVectors& a,
                            const KnownKVectors& b, const FailedOutputs& failed,
                            const std::int32_t* wanted);

/// True if few K-vectors of b meet plain rows.
bool takes_few_columns(const Problem& p);
/// Every output, in binary64 and, where that does not decide it, in fixed point.
void multiply_few_columns(DeviceBackend& backend, const Problem& p);

/// Every output, term by term in fixed point.
void add_in_fixed_point(DeviceBackend& backend, const Problem& p);

/// The chain of fused multiply-adds, one output to a thread.
void chain_products(DeviceBackend& backend, const Problem& p);

}  // namespace mxo::cuda
