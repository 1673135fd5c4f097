// Elementwise in f32; the sum of squares in f64.
#include "tools/train/adamw.h"

#include <cmath>
#include <cstring>

#include "tools/train/elementary.h"
#include "tools/train/parallel.h"

namespace mxo::tools {

float learning_rate(const TrainOptions& options, Index step) {
  if (step <= options.warm_up) {
    return static_cast<float>(options.learning_rate * static_cast<double>(step) /
                              static_cast<double>(options.warm_up));
  }
  const double done = static_cast<double>(step - options.warm_up) /
                      static_cast<double>(options.whole_decay() - options.warm_up);
  const double lowest = options.lowest_rate();
  return static_cast<float>(lowest + (options.learning_rate - lowest) * half_cosine(done));
}

float gradient_norm(Communicator& communicator, const Parameters& parameters, int threads) {
  struct Part {
    const float* data;
    Index size;
    double sum;
  };
  std::vector<Part> parts;  // one of a parameter, or of an expert of it
  for (const Parameter& p : parameters.all()) {
    if (!p.trained) continue;
    const Index count = p.sharding == Sharding::experts ? p.gradient.extent(0) : 1;
    const Index size = p.elements() / count;
    for (Index i = 0; i < count; ++i) parts.push_back({p.gradient.as<float>() + i * size, size, 0});
  }
  for_each_task(static_cast<Index>(parts.size()), threads, [&](Index i) {
    Part& part = parts[static_cast<std::size_t>(i)];
    double sum = 0.0;
    for (Index e = 0; e < part.size; ++e) {
      sum += static_cast<double>(part.data[e]) * static_cast<double>(part.data[e]);
    }
    part.sum = sum;
  });
  double total = 0.0;
  auto part = parts.begin();
  for (const Parameter& p : parameters.all()) {
    if (!p.trained) continue;
    if (p.sharding == Sharding::replicated) {
      total += part++->sum;
      continue;
    }
    std::vector<double> sums;
    for (Index i = 0; i < p.gradient.extent(0); ++i) sums.push_back(part++->sum);
    for (const auto& rank : communicator.all_gather(std::as_bytes(std::span(sums)))) {
      for (std::size_t at = 0; at < rank.size(); at += sizeof(double)) {
        double sum = 0.0;
        std::memcpy(&sum, rank.data() + at, sizeof sum);
        total += sum;
      }
    }
  }
  return static_cast<float>(std::sqrt(total));
}

void adamw(Parameters& parameters, const TrainOptions& options, Index step, float norm,
           int threads) {
  constexpr float kEpsilon = 1e-8f;
  constexpr Index kPart = 1 << 16;  // of a tensor: what a thread takes at once
  const auto keep_mean = static_cast<float>(options.beta1);
  const auto keep_square = static_cast<float>(options.beta2);
  const auto clip = static_cast<float>(options.clip);
  const float scale = clip > 0.0f && norm > clip ? clip / norm : 1.0f;
  const float rate = learning_rate(options, step);
  const auto mean_share = static_cast<float>(1.0 - power(options.beta1, step));
  const auto square_share = static_cast<float>(1.0 - power(options.beta2, step));
  for (Parameter& p : parameters.all()) {
    if (!p.trained) continue;
    const float decay = p.decays ? static_cast<float>(options.weight_decay) : 0.0f;
    float* w = p.value.as<float>();
    float* m = p.mean.as<float>();
    float* v = p.square.as<float>();
    const float* gradient = p.gradient.as<float>();
    for_each_part(p.elements(), kPart, threads, [=](Index first, Index end) {
      for (Index e = first; e < end; ++e) {
        const float g = gradient[e] * scale;
        m[e] = keep_mean * m[e] + (1.0f - keep_mean) * g;
        v[e] = keep_square * v[e] + (1.0f - keep_square) * (g * g);
        const float step_of = (m[e] / mean_share) / (std::sqrt(v[e] / square_share) + kEpsilon);
        w[e] -= rate * (step_of + decay * w[e]);
      }
    });
  }
}

}  // namespace mxo::tools
