// The grouped products and fused_dot: which way each sum goes.
#include "ops/grouped_matmul.h"

#include <algorithm>
#include <optional>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/machine_product.cuh"
#include "emu/cuda/gemm/three_slices.cuh"
#include "emu/cuda/gemm/two_slices.cuh"
#include "ops/fused_dot.h"

namespace mxo::cuda {
namespace {

/// Hopper, whose own instructions the *_sm90a files use.
bool is_hopper(const DeviceBackend& backend) {
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, backend.device()),
        "cudaDeviceGetAttribute");
  return major == 9;
}

/// The K-vectors of both factors, laid along k.
struct Laid {
  std::optional<Scratch<std::uint8_t>> scratch[2];
  KVectorMemory a;
  KVectorMemory b;
  Laid(DeviceBackend& backend, const Problem& p)
      : a(lay_k_vectors(backend, p, p.a, p.a.rows, scratch[0])),
        b(lay_k_vectors(backend, p, p.b, p.b.rows, scratch[1])) {}
};

/// By slices, as many as K-vectors need: all tiles, or the hard ones.
void multiply_hard_tiles(DeviceBackend& backend, const Problem& p, const Laid& laid,
                         const HardTiles& hard) {
  SliceScratch scratch_a;
  SliceScratch scratch_b;
  const Slices a = make_slices(backend, p, p.a, laid.a, p.a.rows, hard.any, scratch_a);
  const Slices b = make_slices(backend, p, p.b, laid.b, p.b.rows, hard.any, scratch_b);
  const Index words = ceil_div(p.b.rows, 32);
  Scratch<std::uint32_t> marks(backend, p.lines_a() * words);
  backend.fill_zero(reinterpret_cast<std::byte*>(marks.data()),
                    static_cast<std::size_t>(p.lines_a() * words) * sizeof(std::uint32_t));
  const FailedOutputs failed{marks.data(), words};
  multiply_slices(backend, p, a, b, failed, hard);
  compute_failed_outputs(backend, p, a, b, failed, hard.any);
}

/// By two slices all tiles but hard ones, which it names.
void multiply_easy_tiles(DeviceBackend& backend, const Problem& p, const Laid& laid,
                         const HardTiles& hard) {
  TwoSliceScratch scratch_a;
  TwoSliceScratch scratch_b;
  const TwoSlices a = make_two_slices(backend, p, p.a, laid.a, p.a.rows, scratch_a);
  const TwoSlices b = make_two_slices(backend, p, p.b, laid.b, p.b.rows, scratch_b);
  std::optional<Scratch<std::uint8_t>> sums;
  const Corrections corrections = make_corrections(backend, p, a, b, sums);
  constexpr Index kMostDoubts = Index{1} << 25;
  const Index capacity = std::min(p.lines_a() * p.b.rows / 4 + 1, kMostDoubts);
  Scratch<Doubt> list(backend, capacity);
  Scratch<unsigned long long> count(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(count.data()), sizeof(unsigned long long));
  const Doubts doubts{list.data(), static_cast<unsigned long long>(capacity), count.data()};
  (p.form == ScaleForm::blockwise ? multiply_scaled_runs : multiply_two_slices)(
      backend, p, a, b, corrections, doubts, hard);
  settle_doubts(backend, p, a, b, doubts);
}

void multiply_exactly(DeviceBackend& backend, const Problem& p) {
  if (p.form == ScaleForm::other || !is_hopper(backend)) return add_in_fixed_point(backend, p);
  const Laid laid(backend, p);
  const bool three = takes_three_slices(p);
  if (!three && !takes_two_slices(p)) return multiply_hard_tiles(backend, p, laid, {});
  const Index tiles = (p.contracts_rows() ? p.groups * ceil_div(p.a.rows, 128)
                                          : ceil_div(p.a.rows, 128) + p.groups) *
                      ceil_div(p.b.rows, 256);
  Scratch<std::uint8_t> tile(backend, tiles);
  Scratch<std::int32_t> any(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(tile.data()), static_cast<std::size_t>(tiles));
  backend.fill_zero(reinterpret_cast<std::byte*>(any.data()), sizeof(std::int32_t));
  const HardTiles hard{tile.data(), any.data()};
  if (three) {
    multiply_by_three_slices(backend, p, laid.a, laid.b, hard);
  } else {
    multiply_easy_tiles(backend, p, laid, hard);
  }
  multiply_hard_tiles(backend, p, laid, hard);
}

void multiply(DeviceBackend& backend, const Accumulation& sum, const Problem& p) {
  switch (sum.family) {
    case SumFamily::exact: return multiply_exactly(backend, p);
    case SumFamily::fma_chain: return chain_products(backend, p);
    default: break;
  }
  if (is_hopper(backend) && wgmma_gives(sum, p)) return multiply_with_wgmma(backend, sum, p);
  multiply_as_modelled(backend, sum, p);
}

bool empty(const Problem& p) { return p.groups == 0 || p.a.rows == 0 || p.b.rows == 0; }

}  // namespace

void DeviceBackend::run(const GroupedMatmul& op) {
  Problem p{contraction_of(op), nullptr};
  Scratch<GroupSpan> span(*this, p.groups + 1);
  plan_groups(*this, p, op.group_ends, span.data());
  p.span = span.data();
  if (!empty(p)) multiply(*this, p.sum, p);
}

void DeviceBackend::run(const GroupedMatmulWgrad& op) {
  Problem p{contraction_of(op), nullptr};
  Scratch<GroupSpan> span(*this, p.groups + 1);
  plan_groups(*this, p, op.group_ends, span.data());
  p.span = span.data();
  if (!empty(p)) multiply(*this, p.sum, p);
}

void DeviceBackend::run(const FusedDot& op) {
  Problem p{contraction_of(op), nullptr};
  Scratch<GroupSpan> span(*this, p.groups + 1);
  plan_batch(*this, p.groups, p.a.rows, span.data());
  p.span = span.data();
  if (!empty(p)) multiply_as_modelled(*this, p.sum, p);
}

bool DeviceBackend::honours(const Accumulation&) const { return true; }

}  // namespace mxo::cuda
