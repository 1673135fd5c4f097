// Where the parts of a panel lie.
#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {
namespace {

constexpr std::size_t kAlign = 64;

std::size_t aligned(Index bytes) {
  return (static_cast<std::size_t>(bytes) + kAlign - 1) / kAlign * kAlign;
}

struct Sizes {
  std::size_t data = 0, scales = 0, rest_begin = 0, split = 0;
  std::size_t all() const { return data + scales + rest_begin + split; }
};

Sizes sizes_of(Engine engine, int step, int scale_step, const Depth& depth) {
  Sizes s;
  switch (engine) {
    case Engine::int16:
      s.data = aligned(depth.runs() * kRunPairs * step * 4);
      s.scales = aligned(depth.runs() * kRunBlocks * scale_step * 8);
      s.rest_begin = aligned((depth.runs() + 1) * 4);
      s.split = aligned(depth.runs());
      break;
    case Engine::bf16: s.data = aligned(depth.blocks() * kBlock * step * 2); break;
    case Engine::digits:
      s.data = aligned(depth.runs() * kRun * kDigits * step);
      s.rest_begin = aligned((kMaxLanesB + 1) * 4);
      break;
    case Engine::f64: s.data = aligned(round_up(depth.count, 16) * step * 8); break;
    case Engine::chain: s.data = aligned(round_up(depth.count, 16) * step * 4); break;
  }
  return s;
}

}  // namespace

std::size_t panel_bytes(Engine engine, int step, int scale_step, const Depth& depth) {
  return sizes_of(engine, step, scale_step, depth).all();
}

void place_panel(Panel& panel, Engine engine, const Depth& depth, std::byte* memory) {
  const Sizes s = sizes_of(engine, panel.step, panel.scale_step, depth);
  panel.data = memory;
  memory += s.data;
  panel.scales = reinterpret_cast<double*>(memory);
  memory += s.scales;
  panel.rest_begin = reinterpret_cast<std::uint32_t*>(memory);
  memory += s.rest_begin;
  panel.split = reinterpret_cast<std::uint8_t*>(memory);
}

}  // namespace mxo::cpu
