// combine_rows and its gradients, tokens over threads, strips of columns through the kernels.
#include "emu/reference/combine_rows.h"

#include <algorithm>

#include "emu/cpu/cpu_backend.h"
#include "emu/cpu/float_kernels.h"
#include "emu/cpu/ieee_thread.h"

namespace mxo::cpu {
namespace {

constexpr Index kStrip = 1024;  // sums that stay in L1
constexpr Index kChains = 8;    // independent sums, interleaved

/// What the kernels take: neighbours of f32 or bf16.
template <typename View>
bool adjacent(const View& rows) {
  return rows.stride[1] == 1 && rows.dtype != Dtype::f16;
}

/// Element (r, k) of a matrix.
template <typename View>
auto* element(const View& matrix, Index r, Index k) {
  using Byte = std::conditional_t<std::is_same_v<View, Operand>, const std::byte, std::byte>;
  return static_cast<Byte*>(matrix.data) +
         (r * matrix.stride[0] + k * matrix.stride[1]) * static_cast<Index>(size_of(matrix.dtype));
}

float weight_of(const Operand& weights, Index t, Index s) {
  return weights.given() ? weights.as<const float, 2>()(t, s) : 1.0f;
}

void combine_token(const FloatKernels& kernels, const CombineRows& op, Index t) {
  const auto add = kernels.add_scaled[float_index(op.rows.dtype)];
  const auto round = kernels.scale[0][float_index(op.out.dtype)];
  const auto slots = op.slots.as<const std::int32_t, 2>();
  alignas(64) float sum[kStrip];
  for (Index k = 0; k < op.out.extent[1]; k += kStrip) {
    const Index n = std::min(kStrip, op.out.extent[1] - k);
    std::fill_n(sum, n, 0.0f);
    for (Index s = 0; s < slots.extent[1]; ++s) {
      if (slots(t, s) < 0) continue;
      add(element(op.rows, slots(t, s), k), n, weight_of(op.weights, t, s), sum);
    }
    round(sum, n, 1.0f, element(op.out, t, k));
  }
}

/// dweights[t, s .. s + count) : the sum over columns ascending, up to kChains slots at a time.
void weigh_slots(const FloatKernels& kernels, const CombineRowsBackward& op, Index t, Index s,
                 Index count) {
  const auto multiply = kernels.multiply[float_index(op.dout.dtype)][float_index(op.rows.dtype)];
  const auto slots = op.slots.as<const std::int32_t, 2>();
  const auto dweights = op.dweights.as<float, 2>();
  alignas(64) float products[kChains][kStrip];
  float sum[kChains] = {};
  for (Index k = 0; k < op.dout.extent[1]; k += kStrip) {
    const Index n = std::min(kStrip, op.dout.extent[1] - k);
    for (Index i = 0; i < kChains; ++i) {
      if (i < count && slots(t, s + i) >= 0) {
        multiply(element(op.dout, t, k), element(op.rows, slots(t, s + i), k), n, products[i]);
      } else if (k == 0) {
        std::fill_n(products[i], n, 0.0f);
      }
    }
    for (Index c = 0; c < n; ++c) {
      for (Index i = 0; i < kChains; ++i) sum[i] += products[i][c];
    }
  }
  for (Index i = 0; i < count; ++i) dweights(t, s + i) = rounded<float>(sum[i]);
}

void spread_token(const FloatKernels& kernels, const CombineRowsBackward& op, Index t) {
  const auto scale = kernels.scale[float_index(op.dout.dtype)][float_index(op.drows.dtype)];
  const auto slots = op.slots.as<const std::int32_t, 2>();
  for (Index s = 0; s < slots.extent[1]; ++s) {
    if (slots(t, s) < 0) continue;
    scale(element(op.dout, t, 0), op.dout.extent[1], weight_of(op.weights, t, s),
          element(op.drows, slots(t, s), 0));
  }
  if (!op.dweights.given()) return;
  for (Index s = 0; s < slots.extent[1]; s += kChains) {
    weigh_slots(kernels, op, t, s, std::min(kChains, slots.extent[1] - s));
  }
}

}  // namespace

void CpuBackend::run(const CombineRows& op) {
  if (!adjacent(op.rows) || !adjacent(op.out) || op.steps != CombineSteps::f32) {
    visit_combine(op, [&](auto token) { share_steps(op.out.extent[0], threads_, token); });
    return;
  }
  const FloatKernels& kernels = float_kernels(isa());
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (Index t = 0; t < op.out.extent[0]; ++t) combine_token(kernels, op, t);
}

void CpuBackend::run(const CombineRowsBackward& op) {
  clear_unnamed(op);
  const bool asked = op.dweights.given();
  if (!adjacent(op.dout) || !adjacent(op.drows) || (asked && !adjacent(op.rows))) {
    visit_combine_backward(op,
                           [&](auto token) { share_steps(op.dout.extent[0], threads_, token); });
    return;
  }
  const FloatKernels& kernels = float_kernels(isa());
#pragma omp parallel for num_threads(threads_) firstprivate(ieee_thread)
  for (Index t = 0; t < op.dout.extent[0]; ++t) spread_token(kernels, op, t);
}

}  // namespace mxo::cpu
