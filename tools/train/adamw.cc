// Elementwise in f32; the sum of squares in f64.
#include "tools/train/adamw.h"

#include <cmath>
#include <cstring>

#include "tools/train/elementary.h"
#include "tools/train/parallel.h"

namespace mxo::tools {

float learning_rate(const TrainOptions& options, Index step) {
  constexpr double kLowest = 0.1;
  if (step <= options.warm_up) {
    return static_cast<float>(options.learning_rate * static_cast<double>(step) /
                              static_cast<double>(options.warm_up));
  }
  const double done = static_cast<double>(step - options.warm_up) /
                      static_cast<double>(options.steps - options.warm_up);
  return static_cast<float>(options.learning_rate *
                            (kLowest + (1.0 - kLowest) * half_cosine(done)));
}

float gradient_norm(Communicator& communicator, const Parameters& parameters) {
  double total = 0.0;
  for (const Parameter& p : parameters.all()) {
    const bool experts = p.sharding == Sharding::experts;
    const Index parts = experts ? p.gradient.extent(0) : 1;
    const Index size = p.elements() / parts;
    std::vector<double> sums(static_cast<std::size_t>(parts), 0.0);
    for (Index part = 0; part < parts; ++part) {
      const float* g = p.gradient.as<float>() + part * size;
      double& sum = sums[static_cast<std::size_t>(part)];
      for (Index i = 0; i < size; ++i) sum += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    if (!experts) {
      total += sums[0];
      continue;
    }
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
  constexpr float kMean = 0.9f;
  constexpr float kSquare = 0.95f;
  constexpr float kEpsilon = 1e-8f;
  const auto clip = static_cast<float>(options.clip);
  const float scale = clip > 0.0f && norm > clip ? clip / norm : 1.0f;
  const float rate = learning_rate(options, step);
  const auto mean_share = static_cast<float>(1.0 - power(0.9, step));
  const auto square_share = static_cast<float>(1.0 - power(0.95, step));
  std::vector<Parameter>& all = parameters.all();
  for_each_task(static_cast<Index>(all.size()), threads, [&](Index i) {
    Parameter& p = all[static_cast<std::size_t>(i)];
    const float decay = p.decays ? static_cast<float>(options.weight_decay) : 0.0f;
    float* w = p.value.as<float>();
    float* m = p.mean.as<float>();
    float* v = p.square.as<float>();
    const float* gradient = p.gradient.as<float>();
    for (Index e = 0; e < p.elements(); ++e) {
      const float g = gradient[e] * scale;
      m[e] = kMean * m[e] + (1.0f - kMean) * g;
      v[e] = kSquare * v[e] + (1.0f - kSquare) * (g * g);
      const float step_of = (m[e] / mean_share) / (std::sqrt(v[e] / square_share) + kEpsilon);
      w[e] -= rate * (step_of + decay * w[e]);
    }
  });
}

}  // namespace mxo::tools
