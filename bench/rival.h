// Timing against memcpy: the same bytes, the same threads, in turns.
#pragma once

#include <benchmark/benchmark.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "formats/tensor.h"

namespace mxo::bench {

/// Moves `total` bytes, half of them read and half written, by memcpy in every thread.
class MemcpyRival {
 public:
  MemcpyRival(std::size_t total, int threads)
      : from_(total / 2, std::byte{1}), to_(total / 2, std::byte{2}), threads_(threads) {}
  void run() {
    const std::size_t n = from_.size();
    const auto team = static_cast<std::size_t>(threads_);
#pragma omp parallel for num_threads(threads_) schedule(static)
    for (std::size_t i = 0; i < team; ++i) {
      const std::size_t first = n * i / team;
      std::memcpy(to_.data() + first, from_.data() + first, n * (i + 1) / team - first);
    }
    benchmark::ClobberMemory();
  }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
  int threads_;
};

inline double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

template <typename Work>
double seconds(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The same in processor time of all threads: where others share the cores, it says more.
template <typename Work>
double processor_seconds(Work&& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// Times `work`, which moves `total` bytes, and the rival in turn; reports the bytes a second of
/// `work` and the median of (rival's time / work's time), which is its fraction of memcpy's rate;
/// and that fraction in processor time.
template <typename Work>
void against_memcpy(benchmark::State& state, std::size_t total, int threads, Work&& work) {
  MemcpyRival rival(total, threads);
  std::vector<double> fractions;
  std::vector<double> of_processor;
  std::vector<double> rates;
  rival.run();
  work();
  for (auto _ : state) {
    double copied = 0.0;
    double worked = 0.0;
    const double copying = processor_seconds([&] { copied = seconds([&] { rival.run(); }); });
    const double working = processor_seconds([&] { worked = seconds(work); });
    of_processor.push_back(copying / working);
    state.SetIterationTime(worked);
    fractions.push_back(copied / worked);
    rates.push_back(static_cast<double>(total) * 1e-9 / worked);
  }
  state.counters["GB/s"] = median(rates);
  state.counters["of_memcpy"] = median(fractions);
  state.counters["of_memcpy_processor"] = median(of_processor);
}

/// A bf16 tensor of activations: noise times a power of two per row.
inline Tensor activations(Index rows, Index columns) {
  Tensor x(Dtype::bf16, {rows, columns});
  std::minstd_rand random(7);
  for (Index i = 0; i < x.elements(); ++i) {
    float sum = -2.0f;
    for (int j = 0; j < 4; ++j) sum += static_cast<float>(random()) * 0x1p-31f;
    const auto word = bit_cast<std::uint32_t>(sum * (1.0f + static_cast<float>(i / columns % 7)));
    x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(word >> 16);
  }
  return x;
}

}  // namespace mxo::bench
