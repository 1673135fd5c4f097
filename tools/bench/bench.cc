// Sizes, operands, clocks and the memory of the process.
#include "tools/bench/bench.h"

#include <malloc.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>

#include <fmt/core.h>

#include "formats/error.h"
#include "formats/minifloat.h"

namespace mxo::tools {
namespace {

constexpr Index kStep = 128;  // what scaled extents are multiples of
constexpr double kGigabyte = 1e9;

/// The number behind `key` of a file as /proc writes them, in bytes; 0 where there is none.
std::size_t kibibytes_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    std::size_t count = 0;
    if (word == key && file >> count) return count << 10;
  }
  return 0;
}

/// Whether a backend could hold as much.  A device is asked, the host promises too much.
bool has_room(Backend& backend, double need) {
  if (backend.reads_host_memory()) {
    const auto there = static_cast<double>(kibibytes_of("/proc/meminfo", "MemAvailable:"));
    return there == 0.0 || need <= there;
  }
  try {
    backend.release(backend.allocate(static_cast<std::size_t>(need)));
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// The bytes that memcpy moves beside a call, by every thread.
class Copy {
 public:
  explicit Copy(double total)
      : from_(static_cast<std::size_t>(total / 2), std::byte{1}), to_(from_.size(), std::byte{2}) {}
  void run(int threads) {
    const std::size_t n = from_.size();
    const auto team = static_cast<std::size_t>(threads);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::size_t i = 0; i < team; ++i) {
      const std::size_t first = n * i / team;
      std::memcpy(to_.data() + first, from_.data() + first, n * (i + 1) / team - first);
    }
  }

 private:
  std::vector<std::byte> from_;
  std::vector<std::byte> to_;
};

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Index Bench::extent(Index full) const {
  if (scale == 1.0) return full;
  const auto scaled = static_cast<Index>(std::ceil(static_cast<double>(full) * scale));
  return std::min(full, round_up(std::max<Index>(scaled, 1), kStep));
}

void Bench::tell(std::size_t done, std::size_t of, std::string_view what) const {
  if (progress) progress(static_cast<double>(done) / static_cast<double>(of), what);
}

void Bench::require_room(const std::function<double(const Bench&)>& need) const {
  const double wanted = need(*this);
  if (has_room(*backend, wanted)) return;
  std::string fits = "no --scale down to 1/1024 fits";
  Bench smaller = *this;
  for (int halvings = 1; halvings <= 10; ++halvings) {
    smaller.scale = scale * std::ldexp(1.0, -halvings);
    if (!has_room(*backend, need(smaller))) continue;
    fits = fmt::format("--scale {:g} fits", smaller.scale);
    break;
  }
  throw Error(Fault::unsupported,
              fmt::format("{}: needs {:.1f} GB of memory, more than there is; {}", table,
                          wanted / kGigabyte, fits));
}

BackendTensor normal(Backend& backend, std::initializer_list<Index> shape, unsigned seed,
                     float spread) {
  constexpr std::size_t kRun = 65521;
  std::minstd_rand random(seed);
  std::normal_distribution<float> bell(0.0f, spread);
  std::vector<std::uint16_t> run(kRun);
  for (std::uint16_t& word : run) word = encode<kBF16>(bell(random)).bits;
  BackendTensor tensor(backend, Dtype::bf16, shape);
  const auto all = static_cast<std::size_t>(tensor.operand().elements());
  auto* to = static_cast<std::byte*>(tensor.result().data);
  for (std::size_t at = 0; at < all; at += kRun) {
    const std::size_t count = std::min(kRun, all - at);
    backend.upload(to + 2 * at, reinterpret_cast<const std::byte*>(run.data()), 2 * count);
  }
  return tensor;
}

std::vector<Index> group_ends(Index rows, Index groups, Groups how) {
  constexpr Index kBlock = 32;
  std::vector<Index> ends;
  for (Index g = 0; g + 1 < groups; ++g) {
    const Index end = rows * (g + 1) / groups;
    const Index before = ends.empty() ? 0 : ends.back();
    ends.push_back(how == Groups::even ? end / kBlock * kBlock
                                       : std::max(before, end - (7 + 13 * g) % 29));
  }
  ends.push_back(rows);
  return ends;
}

MirroredTensor group_ends(Backend& backend, Index rows, Index groups, Groups how) {
  const std::vector<Index> list = group_ends(rows, groups, how);
  Tensor ends(Dtype::i32, {groups});
  for (std::size_t g = 0; g < list.size(); ++g) {
    ends.as<std::int32_t>()[g] = static_cast<std::int32_t>(list[g]);
  }
  return {backend, std::move(ends)};
}

std::vector<Timing> time_calls(const Bench& bench, const std::vector<TimedCall>& calls) {
  const bool host = bench.backend->reads_host_memory();
  const int threads = bench.threads > 0 ? bench.threads : omp_get_max_threads();
  std::vector<std::unique_ptr<Copy>> copies;
  for (const TimedCall& call : calls) {
    copies.push_back(host && call.bytes > 0.0 ? std::make_unique<Copy>(call.bytes) : nullptr);
  }
  std::vector<std::vector<double>> times(calls.size());
  std::vector<std::vector<double>> copied(calls.size());
  for (int round = 0; round <= bench.repeats; ++round) {  // the first warms up
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const double call = seconds([&] {
        calls[i].run();
        bench.backend->synchronize();
      });
      const double copy = copies[i] ? seconds([&] { copies[i]->run(threads); }) : 0.0;
      if (round == 0) continue;
      times[i].push_back(call);
      if (copies[i]) copied[i].push_back(copy);
    }
  }
  std::vector<Timing> timings;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    timings.push_back({sample_of(times[i]), copies[i] ? sample_of(copied[i]) : Sample{}});
  }
  return timings;
}

std::size_t process_bytes() { return kibibytes_of("/proc/self/status", "VmRSS:"); }
std::size_t process_peak() { return kibibytes_of("/proc/self/status", "VmHWM:"); }

bool forget_process_peak() {
  malloc_trim(0);
  std::ofstream peak("/proc/self/clear_refs");
  peak << 5;
  peak.flush();
  return peak.good();
}

}  // namespace mxo::tools
