// Several ways to compute one thing, timed in turns, so that a ratio comes from one run.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "bench/rival.h"

namespace mxo::bench {

/// Contestants by name; the first is ours, and is what Google Benchmark times.  Counters hold the
/// medians in GFLOP/s and, as of_NAME, their ratio to ours.
struct Race {
  double flops = 0;
  std::vector<std::pair<std::string, std::function<void()>>> contestants;

  void run(benchmark::State& state) {
    std::vector<std::vector<double>> times(contestants.size());
    for (auto _ : state) {
      for (std::size_t i = 0; i < contestants.size(); ++i) {
        times[i].push_back(seconds(contestants[i].second));
      }
      state.SetIterationTime(times[0].back());
    }
    const double ours = median(times[0]);
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const double time = median(times[i]);
      state.counters[contestants[i].first] = flops / time * 1e-9;
      if (i > 0) state.counters["of_" + contestants[i].first] = time / ours;
    }
  }
};

}  // namespace mxo::bench
