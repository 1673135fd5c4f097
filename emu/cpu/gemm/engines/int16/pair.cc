// Integer products flushed to f64 as often as units change, and the rests one by one.
#include "emu/cpu/gemm/engines/int16/pair.h"

#include <algorithm>
#include <cstring>

namespace mxo::cpu {

void PanelPair::add_integers(const RunRange& runs, int part, double* sums) const {
  if (kernels_.planes != nullptr) return add_planes(runs, part, sums);
  for (Index run = runs.first; run < runs.past; ++run) add_pairs(run, sums);
}

void PanelPair::add_pairs(Index run, double* sums) const {
  alignas(64) std::int32_t dots[kMaxLanesA * kMaxLanesB];
  const int blocks = static_cast<int>(ceil_div(depth_.run_count(run), kBlock));
  const int step = split(run) ? 1 : blocks;
  for (int block = 0; block < blocks; block += step) {
    const Index at = run * kRunBlocks + block;
    kernels_.dot_int16(a_.step, block, step, data_a(run), data_b(run), dots);
    kernels_.add_scaled(a_.step, dots, scales_a(at), scales_b(at), sums);
  }
}

void PanelPair::add_planes(const RunRange& runs, int half, double* sums) const {
  const auto add = [&](Index block, const ChunkRange& range) {
    const auto* a = reinterpret_cast<const std::int8_t*>(data_a(block / kRunBlocks));
    const auto* b = reinterpret_cast<const std::int8_t*>(data_b(block / kRunBlocks));
    alignas(64) PlaneSums planes;
    kernels_.planes->sum(half, range, a, b, planes);
    add_joined(planes, half, scales_a(block), scales_b(block), sums);
  };
  const Index first = runs.first * kRunBlocks;
  const Index past = std::min(runs.past * kRun, depth_.count);
  bool any_split = false;
  for (Index run = runs.first; run < runs.past; ++run) any_split = any_split || split(run);
  if (!any_split) {
    const auto chunks = static_cast<int>(ceil_div(past - runs.first * kRun, kChunk));
    return add(first, {0, chunks, ChunkRange::both});
  }
  for (Index block = first; block * kBlock < past; ++block) {
    const auto of_run = static_cast<int>(block % kRunBlocks);
    add(block, {of_run / 2, 1, of_run % 2 == 0 ? ChunkRange::lower : ChunkRange::upper});
  }
}

void PanelPair::add_rests_of_a(const RunRange& runs, double* sums) const {
  for (Index run = runs.first; run < runs.past; ++run) {
    const std::uint32_t* of_a = a_.rest_begin + first_of_a_ + run;
    const std::span<const Rest> rests(a_.rests.data() + of_a[0], of_a[1] - of_a[0]);
    add_rests_to_integers(run, rests, sums);
    // Both are sorted by element.
    std::uint32_t match = b_.rest_begin[run];
    const std::uint32_t past = b_.rest_begin[run + 1];
    for (const Rest& rest : rests) {
      while (match < past && b_.rests[match].at < rest.at) ++match;
      double* row = sums + static_cast<int>(rest.lane) * kernels_.lanes_b;
      for (std::uint32_t j = match; j < past && b_.rests[j].at == rest.at; ++j) {
        row[b_.rests[j].lane] += rest.value * b_.rests[j].value;
      }
    }
  }
}

void PanelPair::add_rests_to_integers(Index run, std::span<const Rest> rests, double* sums) const {
  if (rests.empty()) return;
  if (kernels_.planes != nullptr) {
    return planes_add_rests_of_a(rests.data(), static_cast<int>(rests.size()),
                                 reinterpret_cast<const std::int8_t*>(data_b(run)),
                                 scales_b(run * kRunBlocks), sums);
  }
  for (const Rest& rest : rests) {
    kernels_.add_rest_of_a(rest.value, data_b(run), static_cast<int>(rest.at),
                           scales_b(run * kRunBlocks + rest.at / kBlock),
                           sums + static_cast<int>(rest.lane) * kernels_.lanes_b);
  }
}

void PanelPair::add_rest_of_b(Index run, const Rest& rest, double* column) const {
  kernels_.add_rest_of_b(a_.step, rest.value, data_a(run), static_cast<int>(rest.at),
                         scales_a(run * kRunBlocks + rest.at / kBlock), column);
}

void PanelPair::add_columns(Index run, std::span<const Rest> rests, double* sums) const {
  for (const Rest& rest : rests) {
    alignas(64) double column[kMaxLanesA] = {};
    add_rest_of_b(run, rest, column);
    for (int m = 0; m < a_.width; ++m) {
      sums[m * kernels_.lanes_b + static_cast<int>(rest.lane)] += column[m];
    }
  }
}

bool PanelPair::add_rests_of_b(const RunRange& runs, double* sums, double* turned,
                               bool used) const {
  constexpr std::size_t kFew = 8;  // columns written across cost less than a turned block
  const bool few = !used && b_.rests.size() <= kFew;
  for (Index run = runs.first; run < runs.past; ++run) {
    const std::uint32_t* begin = b_.rest_begin + run;
    const std::span<const Rest> rests(b_.rests.data() + begin[0], begin[1] - begin[0]);
    if (rests.empty()) continue;
    if (few) {
      add_columns(run, rests, sums);
      continue;
    }
    if (!used) std::memset(turned, 0, sizeof(double) * kMaxLanesA * kMaxLanesB);
    used = true;
    if (kernels_.planes != nullptr) {
      planes_add_rests_of_b(rests.data(), static_cast<int>(rests.size()),
                            reinterpret_cast<const std::int8_t*>(data_a(run)),
                            scales_a(run * kRunBlocks), turned);
      continue;
    }
    for (const Rest& rest : rests) add_rest_of_b(run, rest, turned + rest.lane * kMaxLanesA);
  }
  return used;
}

}  // namespace mxo::cpu
