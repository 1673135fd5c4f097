// Codes and scales to the panels of each engine.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "emu/cpu/gemm/engines/packers.h"
#include "emu/cpu/gemm/kernels/portable.h"
#include "emu/exact/integer_unit.h"

namespace mxo::cpu {

void PackScratchDelete::operator()(PackScratch* scratch) const { delete scratch; }
PackScratchPtr make_pack_scratch() { return PackScratchPtr(new PackScratch); }

namespace {

// bf16 bits to floats; the largest magnitude tells of infinities and NaNs.
int widen_words(const std::uint16_t* words, float* values) {
  int max_magnitude = 0;
  for (int c = 0; c < kRun; ++c) {
    max_magnitude = std::max(max_magnitude, static_cast<int>(words[c] & 0x7FFF));
    values[c] = bit_cast<float>(static_cast<std::uint32_t>(words[c]) << 16);
  }
  return max_magnitude;
}

constexpr int kInfinity = 0x7F80;  // of bf16

void pack_f64(const Kernels& kernels, const Factor& factor, const KBlock& k_block,
              MicroPanel& panel, bool halves, PackScratch& scratch) {
  const int half = halves ? panel.step / 2 : panel.step;
  double norm2[kMaxNr] = {};
  float min_magnitude[kMaxNr];
  std::fill(min_magnitude, min_magnitude + kMaxNr, std::numeric_limits<float>::infinity());
  for (int lane = panel.width; lane < panel.step; ++lane) {
    std::memset(scratch.k_vectors[lane], 0, sizeof(scratch.k_vectors[lane]));
  }
  for (Index run = 0; run < k_block.runs(); ++run) {
    const int count = k_block.run_count(run);
    scratch.words.fetch(factor, panel.first, panel.width, k_block.start + run * kRun, count);
    for (int lane = 0; lane < panel.width; ++lane) {
      auto* values = reinterpret_cast<float*>(scratch.k_vectors[lane]);
      const int max_magnitude = widen_words(scratch.words.lane(lane), values);
      if (max_magnitude >= kInfinity) {
        panel.bound[lane].special = true;
        panel.bound[lane].nan = panel.bound[lane].nan || max_magnitude > kInfinity;
        std::fill(values, values + kRun, 0.0f);
      }
    }
    kernels.interleave(panel.step, static_cast<int>(round_up(count, 16)), scratch.k_vectors[0],
                       kRun, scratch.columns, panel.step);
    const auto* columns = reinterpret_cast<const float*>(scratch.columns);
    for (int first = 0; first < panel.step; first += half) {
      double* out = static_cast<double*>(panel.data) + first * round_up(k_block.count, 16) +
                    run * kRun * half;
      kernels.widen(half, count, columns + first, panel.step, out, half, norm2 + first,
                    min_magnitude + first);
    }
  }
  for (int lane = 0; lane < panel.width; ++lane) {
    KVectorBound& bound = panel.bound[lane];
    bound.norm2 += norm2[lane];
    bound.roundings += static_cast<double>(kRun + k_block.runs() + 4);
    if (min_magnitude[lane] < std::numeric_limits<float>::infinity()) {
      const int field = static_cast<int>(bit_cast<std::uint32_t>(min_magnitude[lane]) >> 23);
      bound.quantum = std::min(bound.quantum, std::max(field, 1) - 134);
    }
  }
}

void pack_chain(const Kernels& kernels, const Product& product, const Factor& factor,
                const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  for (int lane = panel.width; lane < panel.step; ++lane) {
    std::memset(scratch.k_vectors[lane], 0, sizeof(scratch.k_vectors[lane]));
  }
  for (Index run = 0; run < k_block.runs(); ++run) {
    const Index start = k_block.start + run * kRun;
    const int count = k_block.run_count(run);
    if (product.form == ScaleForm::none) {
      scratch.words.fetch(factor, panel.first, panel.width, start, count);
    } else {
      scratch.codes.fetch(factor, panel.first, panel.width, start, count);
    }
    for (int lane = 0; lane < panel.width; ++lane) {
      auto* values = reinterpret_cast<float*>(scratch.k_vectors[lane]);
      if (product.form == ScaleForm::none) {
        widen_words(scratch.words.lane(lane), values);
        continue;
      }
      const float* decoded = code_values(factor.codes.dtype);
      const std::uint8_t* codes = scratch.codes.lane(lane);
      const KVector line = factor.line(panel.first + lane);
      const bool scaled = product.form == ScaleForm::mx;
      for (int c = 0; c < count; c += kBlock) {
        const float scale = scaled ? line.scale(start + c) : 1.0f;
        for (int i = c; i < c + kBlock; ++i) values[i] = decoded[codes[i]] * scale;
      }
    }
    kernels.interleave(panel.step, static_cast<int>(round_up(count, 16)), scratch.k_vectors[0],
                       kRun, static_cast<std::uint32_t*>(panel.data) + run * kRun * panel.step,
                       panel.step);
  }
}

constexpr KVectorBound kEmptyKVector = {0, KVectorBound::kNone, 0, false, false};
constexpr double kUnbounded = std::numeric_limits<double>::infinity();

RowEnd end_of(const Product& product, const Factor& factor, const MicroPanel& panel, int lane) {
  const KVectorBound& bound = panel.bound[lane];
  RowEnd end{0.0, 0.0, bound.roundings, 1.0};
  if (product.form == ScaleForm::rowwise) {
    end.scale = static_cast<double>(factor.line(panel.first + lane).scale(0));
  }
  if (bound.special || !std::isfinite(end.scale)) return {kUnbounded, kUnbounded, 0.0, 1.0};
  if (bound.quantum == KVectorBound::kNone) return end;  // all zero
  end.norm = std::sqrt(bound.norm2) * (1.0 + 0x1p-10);
  const bool near = std::abs(bound.quantum) < 1000;
  end.reach = near ? end.norm * power_f64(-bound.quantum) : std::ldexp(end.norm, -bound.quantum);
  return end;
}

void set_ends(const Product& product, const Factor& factor, MicroPanel& panel) {
  panel.ends = {};
  for (int lane = 0; lane < panel.width; ++lane) {
    const RowEnd end = end_of(product, factor, panel, lane);
    panel.ends.reach[lane] = end.reach;
    panel.ends.norm[lane] = end.norm;
    panel.ends.roundings[lane] = end.roundings;
    panel.ends.scale[lane] = end.scale;
  }
}

}  // namespace

void pack_panel(const Kernels& kernels, Engine engine, const Product& product, const Factor& factor,
                const KBlock& k_block, MicroPanel& panel, PackScratch& scratch) {
  if (k_block.start == 0) std::fill(panel.bound, panel.bound + panel.width, kEmptyKVector);
  switch (engine) {
    case Engine::int16:
      (kernels.slices != nullptr ? pack_two_slices : pack_pairs)(kernels, product, factor, k_block,
                                                                 panel, scratch);
      break;
    case Engine::bf16: pack_bf16(product, factor, k_block, panel, scratch); break;
    case Engine::three_slices: pack_three_slices(factor, k_block, panel, scratch); break;
    case Engine::f64:
      pack_f64(kernels, factor, k_block, panel, panel.scale_step == kMaxNr, scratch);
      break;
    case Engine::chain: pack_chain(kernels, product, factor, k_block, panel, scratch); return;
  }
  if (k_block.start + k_block.count == product.depth) set_ends(product, factor, panel);
}

void pack_run_f64(const Product& product, const Factor& factor, const MicroPanel& panel,
                  Index start, int count, int half_lanes, double* out, PackScratch& scratch) {
  const bool words = product.form == ScaleForm::none;
  if (words) {
    scratch.words.fetch(factor, panel.first, panel.width, start, count);
  } else {
    scratch.codes.fetch(factor, panel.first, panel.width, start, count);
  }
  const float* values = words ? nullptr : code_values(factor.codes.dtype);
  const bool scaled = !words && product.form != ScaleForm::rowwise;
  std::memset(out, 0, static_cast<std::size_t>(kRun * panel.step) * sizeof(double));
  for (int lane = 0; lane < panel.width; ++lane) {
    if (panel.bound[lane].special) continue;
    double* to = out + lane / half_lanes * kRun * half_lanes + lane % half_lanes;
    if (words) {
      alignas(64) float line[kRun];
      widen_words(scratch.words.lane(lane), line);
      for (int i = 0; i < count; ++i) to[i * half_lanes] = static_cast<double>(line[i]);
      continue;
    }
    const std::uint8_t* codes = scratch.codes.lane(lane);
    const KVector line = factor.line(panel.first + lane);
    for (int c = 0; c < count; c += kBlock) {
      const double scale = scaled ? static_cast<double>(line.scale(start + c)) : 1.0;
      for (int i = c; i < c + kBlock; ++i) {
        to[i * half_lanes] = static_cast<double>(values[codes[i]]) * scale;
      }
    }
  }
}

}  // namespace mxo::cpu
