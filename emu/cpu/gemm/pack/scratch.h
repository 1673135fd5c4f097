// A thread's room for one run of a panel on its way from codes to integers.
#pragma once

#include "emu/cpu/gemm/pack/fetch.h"
#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {

struct PackScratch {
  Fetched<std::uint8_t> codes;
  Fetched<std::uint16_t> words;
  alignas(64) std::uint32_t lines[kMaxLanesB][kRun];               // one run, line by line
  alignas(64) std::uint32_t columns[kRun * kMaxLanesB];            // the same turned
  alignas(64) std::int8_t planes[kDigits][kMaxLanesB][kRun];       // or as bytes
  alignas(64) std::int8_t spans[2][kTileLanes][kSpanRuns * kRun];  // the planes of half a panel
};

}  // namespace mxo::cpu
