// Lines that go out to memory beside a panel's own work.
#pragma once

#include "emu/cpu/codec_kernels.h"
#include "emu/cpu/lanes/lanes.h"

HWY_BEFORE_NAMESPACE();
namespace mxo::cpu::HWY_NAMESPACE {

/// That of row r, if there are lines.
HWY_API void send_line(const Beside& beside, Index r) {
  if (beside.lines == nullptr) return;
  std::uint8_t* to = beside.to + r / 2 * beside.to_step + r % 2 * 64;
  for (Index i = 0; i < 64; i += static_cast<Index>(hn::Lanes(kBytes))) {
    hn::Stream(hn::LoadU(kBytes, beside.lines + r * 64 + i), kBytes, to + i);
  }
}

}  // namespace mxo::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
