// route and its gradient on the device: one warp a token.
#include "emu/cuda/canonical.cuh"
#include "emu/cuda/launch.cuh"
#include "emu/cuda/scores.cuh"
#include "emu/reference/elementwise.h"
#include "ops/route.h"
#include "ops/router_gradients.h"

namespace mxo::cuda {
namespace {

constexpr int kWarps = 4;  // of a block
constexpr Index kMostBlocks = 4096;

template <typename T>
__device__ TensorView<T, 1> row_of(const Matrix<T>& matrix, Index row) {
  return {matrix.data + row * matrix.stride[0], {matrix.extent[1]}, {matrix.stride[1]}};
}

/// Larger keys are better: NaN 1, then the order of floats, both zeros alike; 0 is no candidate.
__device__ std::uint32_t key_of(float x) {
  if (x != x) return 1;
  const std::uint32_t word = __float_as_uint(x == 0.0f ? 0.0f : x);
  return word >> 31 ? ~word : word | 0x80000000u;
}

/// The index of the largest key, the lowest among equals; all lanes get it.
__device__ Index best_of(const std::uint32_t* key, Index count) {
  std::uint32_t top = 0;
  Index at = 0;
  for (Index i = threadIdx.x % 32; i < count; i += 32) {
    if (key[i] > top) {
      top = key[i];
      at = i;
    }
  }
  const std::uint32_t most = __reduce_max_sync(kWarp, top);
  const auto mine = top == most ? static_cast<std::uint32_t>(at) : ~0u;
  return __reduce_min_sync(kWarp, mine);
}

template <typename T>
struct RoutePlan {
  Matrix<const T> logits;
  TensorView<const float, 1> bias;
  bool biased;
  Matrix<std::int32_t> experts;
  Matrix<float> weights;
  TensorView<std::int32_t, 1> tokens_per_expert;
  RouterScore kind;
  Index groups, limited_groups;
  bool normalize;
  float scale;
  GroupScore group_score;
  OtherGroups other_groups;
};

template <typename T>
__device__ float choice_of(const RoutePlan<T>& plan, const float* score, Index e) {
  return plan.biased ? score[e] + plan.bias(e) : score[e];
}

/// The largest choice of a run, or the sum of its two largest; NaN counts as the smallest.
template <typename T>
__device__ float run_score(const RoutePlan<T>& plan, const float* score, Index first, Index count) {
  float best = -INFINITY;
  float second = -INFINITY;
  for (Index e = first; e < first + count; ++e) {
    const float choice = choice_of(plan, score, e);
    if (choice > best) {
      second = best;
      best = choice;
    } else if (choice > second) {
      second = choice;
    }
  }
  return count == 1 || plan.group_score == GroupScore::best ? best : best + second;
}

/// Keys of the experts that may be chosen.
template <typename T>
__device__ void admit(const RoutePlan<T>& plan, const float* score, std::uint32_t* key,
                      std::uint32_t* run_key) {
  const Index experts = plan.logits.extent[1];
  const Index lane = threadIdx.x % 32;
  const bool all = plan.limited_groups == plan.groups;
  const std::uint32_t others = plan.other_groups == OtherGroups::zero ? key_of(0.0f) : 0;
  for (Index e = lane; e < experts; e += 32) {
    key[e] = all ? key_of(choice_of(plan, score, e)) : others;
  }
  __syncwarp();
  if (all) return;
  const Index run = experts / plan.groups;
  for (Index g = lane; g < plan.groups; g += 32) {
    run_key[g] = key_of(run_score(plan, score, g * run, run));
  }
  __syncwarp();
  for (Index n = 0; n < plan.limited_groups; ++n) {
    const Index g = best_of(run_key, plan.groups);
    for (Index i = lane; i < run; i += 32) {
      key[g * run + i] = key_of(choice_of(plan, score, g * run + i));
    }
    if (lane == 0) run_key[g] = 0;
    __syncwarp();
  }
}

template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    route_kernel(RoutePlan<T> plan, float* scores, std::uint32_t* keys, std::uint32_t* run_keys) {
  const Index experts = plan.logits.extent[1];
  const Index k = plan.experts.extent[1];
  const Index warp = grid_thread() / 32;
  const bool first_lane = threadIdx.x % 32 == 0;
  float* score = scores + warp * experts;
  std::uint32_t* key = keys + warp * experts;
  for (Index t = warp; t < plan.logits.extent[0]; t += grid_threads() / 32) {
    score_row(row_of(plan.logits, t), plan.kind, score);
    admit(plan, score, key, run_keys + warp * plan.groups);
    float sum = 0.0f;
    for (Index i = 0; i < k; ++i) {
      const Index e = best_of(key, experts);
      __syncwarp();
      if (first_lane) {
        key[e] = 0;
        plan.experts(t, i) = static_cast<std::int32_t>(e);
        atomicAdd(&plan.tokens_per_expert(e), 1);
      }
      sum += score[e];
      __syncwarp();
    }
    const auto score_of = [&](Index i) { return score[plan.experts(t, i)]; };
    const bool of_chosen = plan.kind == RouterScore::softmax_of_chosen;
    const SlotSoftmax slots(of_chosen ? k : 0, score_of);
    for (Index i = threadIdx.x % 32; i < k; i += 32) {
      const float s = score_of(i);
      const float w = of_chosen ? slots.of(s) : plan.normalize ? s / (sum + 1e-20f) : s;
      plan.weights(t, i) = canonical<float>(w * plan.scale);
    }
    __syncwarp();
  }
}

__global__ void clear_kernel(TensorView<std::int32_t, 1> words) {
  const Index step = grid_threads();
  for (Index i = grid_thread(); i < words.extent[0]; i += step) words(i) = 0;
}

template <typename T>
struct BackwardPlan {
  Matrix<const T> logits;
  Matrix<const std::int32_t> experts;
  Matrix<const float> dweights;
  Matrix<float> dlogits;
  RouterScore kind;
  bool normalize;
  float scale;
  FaultWord faults;

  /// The expert of a slot; 0 if there is no such expert.
  __device__ Index expert(Index t, Index j) const {
    const Index e = experts(t, j);
    if (e >= 0 && e < logits.extent[1]) return e;
    faults.report(DeviceFault::indices);
    return 0;
  }
  /// The gradient of the logit of a slot's expert e, of score s and gradient ds.
  __device__ float through_score(Index t, Index e, float s, float ds, float dot) const {
    if (kind == RouterScore::sigmoid) return ds * (s * (1.0f - s));
    if (kind == RouterScore::sqrtsoftplus) {
      return through_sqrtsoftplus(ds, s, as_float(logits(t, e)));
    }
    return s * (ds - dot);
  }
};

template <typename T>
__global__ void __launch_bounds__(kWarps * 32)
    route_backward_kernel(BackwardPlan<T> plan, float* scores) {
  const Index experts = plan.logits.extent[1];
  const Index k = plan.experts.extent[1];
  const Index lane = threadIdx.x % 32;
  const Index warp = grid_thread() / 32;
  float* score = scores + warp * experts;
  const bool softmax = plan.kind == RouterScore::softmax;
  const bool of_chosen = plan.kind == RouterScore::softmax_of_chosen;
  for (Index t = warp; t < plan.logits.extent[0]; t += grid_threads() / 32) {
    score_row(row_of(plan.logits, t), plan.kind, score);
    const SlotSoftmax slots(of_chosen ? k : 0, [&](Index j) { return score[plan.expert(t, j)]; });
    const auto s_of = [&](Index j) {
      const float s = score[plan.expert(t, j)];
      return of_chosen ? slots.of(s) : s;
    };
    float sum = 0.0f;
    float weighted = 0.0f;
    for (Index j = 0; j < k; ++j) {
      const float s = s_of(j);
      sum += s;
      weighted += (plan.dweights(t, j) * plan.scale) * s;
    }
    const float total = sum + 1e-20f;
    const float mean = weighted / total;
    const auto ds_of = [&](Index j) {
      const float g = plan.dweights(t, j) * plan.scale;
      return plan.normalize && !of_chosen ? (g - mean) / total : g;
    };
    float dot = 0.0f;
    for (Index j = 0; j < k; ++j) dot += ds_of(j) * s_of(j);
    for (Index e = lane; e < experts; e += 32) {
      plan.dlogits(t, e) = softmax ? canonical<float>(score[e] * (0.0f - dot)) : 0.0f;
    }
    __syncwarp();
    if (lane == 0) {  // in order: the last of two slots that name one expert stays
      for (Index j = 0; j < k; ++j) {
        const Index e = plan.expert(t, j);
        const float s = s_of(j);
        const float ds = ds_of(j);
        plan.dlogits(t, e) = canonical<float>(plan.through_score(t, e, s, ds, dot));
      }
    }
    __syncwarp();
  }
}

}  // namespace

void DeviceBackend::run(const Route& op) {
  const auto counts = op.tokens_per_expert.as<std::int32_t, 1>();
  clear_kernel<<<blocks_for(counts.extent[0]), kThreads, 0, stream()>>>(counts);
  check_launch("route");
  const Index tokens = op.logits.extent[0];
  const Index experts = op.logits.extent[1];
  if (tokens == 0) return;
  const Index blocks = std::min(ceil_div(tokens, kWarps), kMostBlocks);
  const Scratch<float> scores(*this, blocks * kWarps * experts);
  const Scratch<std::uint32_t> keys(*this, blocks * kWarps * experts);
  const Scratch<std::uint32_t> run_keys(*this, blocks * kWarps * op.groups);
  visit_wide_float(op.logits.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const RoutePlan<T> plan{op.logits.as<const T, 2>(),
                            op.bias.as<const float, 1>(),
                            op.bias.given(),
                            op.experts.as<std::int32_t, 2>(),
                            op.weights.as<float, 2>(),
                            counts,
                            op.score,
                            op.groups,
                            op.limited_groups,
                            op.normalize,
                            op.scale,
                            op.group_score,
                            op.other_groups};
    route_kernel<<<static_cast<unsigned>(blocks), kWarps * 32, 0, stream()>>>(
        plan, scores.data(), keys.data(), run_keys.data());
  });
  check_launch("route");
}

void DeviceBackend::run(const RouteBackward& op) {
  const Index tokens = op.logits.extent[0];
  const Index experts = op.logits.extent[1];
  if (tokens == 0 || experts == 0) return;
  const Index blocks = std::min(ceil_div(tokens, kWarps), kMostBlocks);
  const Scratch<float> scores(*this, blocks * kWarps * experts);
  visit_wide_float(op.logits.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const BackwardPlan<T> plan{op.logits.as<const T, 2>(),
                               op.experts.as<const std::int32_t, 2>(),
                               op.dweights.as<const float, 2>(),
                               op.dlogits.as<float, 2>(),
                               op.score,
                               op.normalize,
                               op.scale,
                               faults()};
    route_backward_kernel<<<static_cast<unsigned>(blocks), kWarps * 32, 0, stream()>>>(
        plan, scores.data());
  });
  check_launch("route_backward");
}

}  // namespace mxo::cuda
