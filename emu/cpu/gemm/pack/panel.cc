// Where the parts of a panel lie.
#include "emu/cpu/gemm/pack/panel.h"

namespace mxo::cpu {
namespace {

constexpr std::size_t kAlign = 64;

std::size_t aligned(Index bytes) {
  return (static_cast<std::size_t>(bytes) + kAlign - 1) / kAlign * kAlign;
}

struct Sizes {
  std::size_t data = 0, scales = 0, residual_begin = 0, split = 0;
  std::size_t all() const { return data + scales + residual_begin + split; }
};

Sizes sizes_of(Engine engine, int step, int scale_step, const KBlock& k_block) {
  Sizes s;
  switch (engine) {
    case Engine::int16:
      s.data = aligned(k_block.runs() * kRunPairs * step * 4);
      s.scales = aligned(k_block.runs() * kRunBlocks * scale_step * 8);
      s.residual_begin = aligned((k_block.runs() + 1) * 4);
      s.split = aligned(k_block.runs());
      break;
    case Engine::bf16: s.data = aligned(k_block.blocks() * kBlock * step * 2); break;
    case Engine::three_slices:
      s.data = aligned(k_block.runs() * kRun * kSlices * step);
      s.residual_begin = aligned((kMaxNr + 1) * 4);
      break;
    case Engine::f64: s.data = aligned(round_up(k_block.count, 16) * step * 8); break;
    case Engine::chain: s.data = aligned(round_up(k_block.count, 16) * step * 4); break;
  }
  return s;
}

}  // namespace

std::size_t panel_bytes(Engine engine, int step, int scale_step, const KBlock& k_block) {
  return sizes_of(engine, step, scale_step, k_block).all();
}

void place_panel(MicroPanel& panel, Engine engine, const KBlock& k_block, std::byte* memory) {
  const Sizes s = sizes_of(engine, panel.step, panel.scale_step, k_block);
  panel.data = memory;
  memory += s.data;
  panel.scales = reinterpret_cast<double*>(memory);
  memory += s.scales;
  panel.residual_begin = reinterpret_cast<std::uint32_t*>(memory);
  memory += s.residual_begin;
  panel.split = reinterpret_cast<std::uint8_t*>(memory);
}

}  // namespace mxo::cpu
