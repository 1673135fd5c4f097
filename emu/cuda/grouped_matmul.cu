// The grouped products and fused_dot: which way each sum goes.
#include "ops/grouped_matmul.h"

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/machine_product.cuh"
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

void multiply_exactly(DeviceBackend& backend, const Problem& p) {
  if (p.form == ScaleForm::other || !is_hopper(backend)) return add_in_fixed_point(backend, p);
  SliceScratch scratch_a;
  SliceScratch scratch_b;
  const Slices a = make_slices(backend, p, p.a, p.a.rows, scratch_a);
  const Slices b = make_slices(backend, p, p.b, p.b.rows, scratch_b);
  const Index words = ceil_div(p.b.rows, 32);
  Scratch<std::uint32_t> marks(backend, p.lines_a() * words);
  backend.fill_zero(reinterpret_cast<std::byte*>(marks.data()),
                    static_cast<std::size_t>(p.lines_a() * words) * sizeof(std::uint32_t));
  const FailedOutputs failed{marks.data(), words};
  multiply_slices(backend, p, a, b, failed);
  compute_failed_outputs(backend, p, a, b, failed);
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
