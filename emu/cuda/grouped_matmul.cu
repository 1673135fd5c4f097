// The grouped products and fused_dot: which way each sum goes.
#include "ops/grouped_matmul.h"

#include <algorithm>
#include <optional>

#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/gemm/exact_product.cuh"
#include "emu/cuda/gemm/four_slices.cuh"
#include "emu/cuda/gemm/machine_product.cuh"
#include "emu/cuda/gemm/nine_products.cuh"
#include "emu/cuda/gemm/residues.cuh"
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

/// A factor's K-vectors along k.  Those that two slices take from where they lie are laid when they
/// are asked for.
struct LaidSide {
  const Factor& of;  ///< p.a or p.b itself
  const bool later;
  std::optional<Scratch<std::uint8_t>> scratch;
  const KVectorMemory codes;

  LaidSide(DeviceBackend& backend, const Problem& p, const Factor& f, bool by_two_slices)
      : of(f),
        later(by_two_slices && takes_columns(p, f, f.rows)),
        codes((later ? room_for_k_vectors : lay_k_vectors)(backend, p, f, f.rows, scratch)) {}
  /// Nothing where `given_up` is given and not 0 on the device.
  TwoSlices two_slices(DeviceBackend& backend, const Problem& p, TwoSliceScratch& parts,
                       const std::int32_t* given_up) const {
    return later ? slice_columns(backend, p, of, codes, of.rows, parts)
                 : make_two_slices(backend, p, of, codes, of.rows, parts, given_up);
  }
  /// If one of the two numbers that `wanted` has on the device is not 0.
  void lay_now(DeviceBackend& backend, const Problem& p, const std::int32_t* wanted) const {
    if (later) transpose_k_vectors(backend, p, of, codes, scratch->data(), wanted);
  }
};
struct Laid {
  LaidSide a;
  LaidSide b;
};

/// By residues, as many as K-vectors need: all tiles, or the hard ones.
void multiply_hard_tiles(DeviceBackend& backend, const Problem& p, const Laid& laid,
                         const HardTiles& hard) {
  IntegerScratch scratch_a;
  IntegerScratch scratch_b;
  const IntegerKVectors a = measure_integers(backend, p, p.a, laid.a.codes, hard.any, scratch_a);
  const IntegerKVectors b = measure_integers(backend, p, p.b, laid.b.codes, hard.any, scratch_b);
  const Index words = ceil_div(p.b.rows, 32);
  Scratch<std::uint32_t> marks(backend, p.lines_a() * words);
  backend.fill_zero(reinterpret_cast<std::byte*>(marks.data()),
                    static_cast<std::size_t>(p.lines_a() * words) * sizeof(std::uint32_t));
  const FailedOutputs failed{marks.data(), words};
  multiply_by_residues(backend, p, a, b, failed, hard);
  compute_failed_outputs(backend, p, a, b, failed, hard.any);
}

/// By two slices all tiles but hard ones, which it names, if not all of them are.  `wanted` says of
/// tiles whether some are hard, and of outputs whether the codes of some are needed.
void multiply_easy_tiles(DeviceBackend& backend, const Problem& p, const Laid& laid,
                         const HardTiles& hard, Index tiles, std::int32_t* wanted) {
  std::optional<Scratch<std::int32_t>> looks;  // two of them, and what comes of them
  const std::int32_t* given_up = nullptr;
  if (!laid.a.later && !laid.b.later) {
    looks.emplace(backend, 5);
    backend.fill_zero(reinterpret_cast<std::byte*>(looks->data()), 5 * sizeof(std::int32_t));
    auto* look = reinterpret_cast<Look*>(looks->data());
    look_at(backend, p, p.a, laid.a.codes, p.a.rows, look);
    look_at(backend, p, p.b, laid.b.codes, p.b.rows, look + 1);
    give_up_hopeless(backend, look, hard, tiles, looks->data() + 4);
    given_up = looks->data() + 4;
  }
  TwoSliceScratch scratch_a;
  TwoSliceScratch scratch_b;
  const TwoSlices a = laid.a.two_slices(backend, p, scratch_a, given_up);
  const TwoSlices b = laid.b.two_slices(backend, p, scratch_b, given_up);
  std::optional<Scratch<std::uint8_t>> sums;
  const Corrections corrections = make_corrections(backend, p, a, b, sums);
  constexpr Index kMostDoubts = Index{1} << 25;
  const Index capacity = std::min(p.lines_a() * p.b.rows / 4 + 1, kMostDoubts);
  Scratch<Doubt> list(backend, capacity);
  Scratch<unsigned long long> count(backend, 1);
  backend.fill_zero(reinterpret_cast<std::byte*>(count.data()), sizeof(unsigned long long));
  const Doubts doubts{list.data(), static_cast<unsigned long long>(capacity), count.data(),
                      wanted + 1};
  if (p.form == ScaleForm::blockwise) {
    multiply_scaled_runs(backend, p, a, b, corrections, doubts, hard);
  } else {
    multiply_two_slices(backend, p, a, b, corrections, doubts, hard);
    settle_by_residuals(backend, p, a, b, doubts);
  }
  laid.a.lay_now(backend, p, wanted);
  laid.b.lay_now(backend, p, wanted);
  settle_from_codes(backend, p, a, b, doubts);
}

void multiply_exactly(DeviceBackend& backend, const Problem& p) {
  if (takes_few_columns(p)) return multiply_few_columns(backend, p);
  if (p.form == ScaleForm::other || !is_hopper(backend)) return add_in_fixed_point(backend, p);
  const bool by_two_slices = takes_two_slices(p);
  const bool by_three_slices = takes_three_slices(p);
  const bool by_nine_products = takes_nine_products(p);
  const Laid laid{{backend, p, p.a, by_two_slices}, {backend, p, p.b, by_two_slices}};
  if (!by_three_slices && !by_two_slices && !by_nine_products) {
    return multiply_hard_tiles(backend, p, laid, {});
  }
  const Index tiles = (p.contracts_rows() ? p.groups * ceil_div(p.a.rows, 128)
                                          : ceil_div(p.a.rows, 128) + p.groups) *
                      ceil_div(p.b.rows, 256);
  Scratch<std::uint8_t> tile(backend, 4 * tiles);
  Scratch<std::int32_t> wanted(backend, 5);
  backend.fill_zero(reinterpret_cast<std::byte*>(tile.data()), static_cast<std::size_t>(4 * tiles));
  backend.fill_zero(reinterpret_cast<std::byte*>(wanted.data()), 5 * sizeof(std::int32_t));
  const HardTiles of_two{tile.data(), wanted.data()};
  const HardTiles again{tile.data() + tiles, wanted.data() + 2};
  const HardTiles of_three{tile.data() + 2 * tiles, wanted.data() + 3};
  const HardTiles of_four{tile.data() + 3 * tiles, wanted.data() + 4};
  if (by_two_slices) multiply_easy_tiles(backend, p, laid, of_two, tiles, wanted.data());
  if (by_three_slices) {
    multiply_by_three_slices(backend, p, laid.a.codes, laid.b.codes,
                             by_two_slices ? of_two : HardTiles{}, again, of_three);
    multiply_by_four_slices(backend, p, laid.a.codes, laid.b.codes, of_three, of_four);
  }
  if (by_nine_products) {
    multiply_by_nine_products(backend, p, laid.a.codes, laid.b.codes, of_three);
  }
  multiply_hard_tiles(backend, p, laid,
                      by_three_slices    ? of_four
                      : by_nine_products ? of_three
                                         : of_two);
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
