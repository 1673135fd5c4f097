// A thread's room for one run of a panel on its way from codes to integers.
#pragma once

#include "emu/cpu/gemm/pack/fetch.h"
#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

struct PackScratch {
  Fetched<std::uint8_t> codes;
  Fetched<std::uint16_t> words;
  alignas(64) std::uint32_t k_vectors[kMaxNr][kRun];      // one run, one K-vector after another
  alignas(64) std::uint32_t columns[kRun * kMaxNr];       // the same transposed
  alignas(64) std::int8_t slices[kSlices][kMaxNr][kRun];  // or as bytes
  alignas(64) std::int8_t spans[2][kTileLanes][kSpanRuns * kRun];  // the slices of half a panel
};

}  // namespace mxo::cpu
