// The router's scores of one token, by one warp, with the sums of the definition.
#pragma once

#include "emu/cuda/canonical.cuh"
#include "formats/exp.h"
#include "formats/softplus.h"
#include "ops/route.h"

namespace mxo::cuda {

inline constexpr unsigned kWarp = 0xFFFFFFFFu;

/// Adds the 32 values of a warp to `sum`, lane 0 first; all lanes get the result.
__device__ inline float add_in_order(float sum, float value, int count) {
  for (int lane = 0; lane < count; ++lane) sum += __shfl_sync(kWarp, value, lane);
  return sum;
}

/// score[e] for e = lane, lane + 32, ..; `logits` is one row of E.
template <typename T>
__device__ void score_row(const TensorView<const T, 1>& row, RouterScore kind, float* score) {
  const Index experts = row.extent[0];
  const auto logits = [&](Index e) { return as_float(row(e)); };
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (kind == RouterScore::sigmoid) {
    for (Index e = lane; e < experts; e += 32) score[e] = sigmoid_rn(logits(e));
    __syncwarp();
    return;
  }
  if (kind == RouterScore::sqrtsoftplus) {
    for (Index e = lane; e < experts; e += 32) score[e] = __fsqrt_rn(softplus_f32(logits(e)));
    __syncwarp();
    return;
  }
  if (kind == RouterScore::softmax_of_chosen) {
    for (Index e = lane; e < experts; e += 32) score[e] = logits(e);
    __syncwarp();
    return;
  }
  // The definition starts from the first logit and takes what is larger, so that a NaN stays if it
  // comes first and is passed over elsewhere.
  float top = logits(0);
  if (top == top) {
    for (Index e = lane; e < experts; e += 32) top = logits(e) > top ? logits(e) : top;
    for (int step = 1; step < 32; step *= 2) {
      const float other = __shfl_xor_sync(kWarp, top, step);
      top = other > top ? other : top;
    }
  }
  float sum = 0.0f;
  for (Index first = 0; first < experts; first += 32) {
    const Index e = first + lane;
    const float value = e < experts ? exp_rn(logits(e) - top) : 0.0f;
    if (e < experts) score[e] = value;
    sum = add_in_order(sum, value, static_cast<int>(min(experts - first, Index{32})));
  }
  for (Index e = lane; e < experts; e += 32) score[e] /= sum;
  __syncwarp();
}

/// Softmax over the slots of a token, few enough for every lane to have all of it.
struct SlotSoftmax {
  float top, sum;

  /// `score_of(j)` is the score of slot j of `slots`.
  template <typename Score>
  __device__ SlotSoftmax(Index slots, Score score_of) : top(0.0f), sum(0.0f) {
    if (slots > 0) top = score_of(0);
    for (Index j = 1; j < slots; ++j) top = score_of(j) > top ? score_of(j) : top;
    for (Index j = 0; j < slots; ++j) sum += exp_rn(score_of(j) - top);
  }
  __device__ float of(float score) const { return exp_rn(score - top) / sum; }
};

}  // namespace mxo::cuda
