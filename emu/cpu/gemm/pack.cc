// Codes and scales to the panels of each engine.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emu/cpu/gemm/fetch.h"
#include "emu/cpu/gemm/integer_unit.h"
#include "emu/cpu/gemm/panel.h"
#include "emu/cpu/gemm/portable.h"
#include "formats/mx_block.h"

namespace mxo::cpu {

struct PackScratch {
  Fetched<std::uint8_t> codes;
  Fetched<std::uint16_t> words;
  alignas(64) std::uint32_t lines[kMaxLanesB][kRun];     // one run, line by line
  alignas(64) std::uint32_t columns[kRun * kMaxLanesB];  // the same turned
};

void PackScratchDelete::operator()(PackScratch* scratch) const { delete scratch; }
PackScratchPtr make_pack_scratch() { return PackScratchPtr(new PackScratch); }

namespace {

/// Blocks whose scales differ by more than this keep units of their own: beyond, the rests of
/// the small ones cost more than a flush for each block.
constexpr int kMostSpread = 5;

/// A panel with more rests than one element in this many is computed in f64.
constexpr Index kDense = 12;

/// The scales of one line's run: block b's scale is 2^(exponent + shift[b]) times `value`.
struct RunScales {
  int exponent = 0;
  int least = 0;                            ///< exponent of the least scale's last place
  float factor[kRunBlocks] = {1, 1, 1, 1};  ///< joint: 2^shift, else 1
  int shift[kRunBlocks] = {};
  bool joint = true;
  float value = 1.0f;
  bool nan = false;
  bool infinite = false;
};

int last_place(float x) {
  const auto bits = bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  if (bits == 0) return 0;
  const int field = static_cast<int>(bits >> 23);
  const std::uint32_t significand = (bits & 0x7FFFFFu) | (field > 0 ? 0x800000u : 0u);
  return (field > 0 ? field : 1) - 150 + std::countr_zero(significand);
}

RunScales scales_of(Scaling scaling, const Factor& factor, Index row, Index start, int blocks) {
  RunScales s;
  if (scaling == Scaling::none || scaling == Scaling::rowwise) return s;
  const Index line = factor.scales_start +
                     (factor.row_tile == 1 ? row : row / kScaleTile) * factor.scales_row_step;
  if (scaling == Scaling::blockwise) {
    const Index tile = line + start / kScaleTile * factor.scales_step;
    s.value = static_cast<const float*>(factor.scales.data)[tile];
    s.nan = std::isnan(s.value);
    s.infinite = std::isinf(s.value);
    s.least = last_place(s.value);
    return s;
  }
  const Index at = line + start / kMxBlock * factor.scales_step;
  const auto* bytes = static_cast<const std::uint8_t*>(factor.scales.data);
  int byte[kRunBlocks];
  int most = 0;
  int least = 255;
  for (int b = 0; b < blocks; ++b) {
    byte[b] = bytes[at + b * factor.scales_step];
    most = std::max(most, byte[b]);
    least = std::min(least, byte[b]);
  }
  s.nan = most == 255;
  s.exponent = most - 127;
  s.least = least - 127;
  s.joint = most - least <= kMostSpread;
  for (int b = 0; b < blocks; ++b) {
    s.shift[b] = byte[b] - most;
    if (s.joint) s.factor[b] = power_f32(s.shift[b]);
  }
  return s;
}

/// The exponent of the last place of the binade of a magnitude code.
int quantum_of(Dtype dtype, int magnitude) {
  return visit_minifloat8(dtype, [&](auto tag) {
    constexpr FormatSpec spec = decltype(tag)::type::spec;
    return std::max(magnitude >> spec.mantissa_bits, 1) - spec.bias - spec.mantissa_bits;
  });
}

bool has_nan(const float* values, const std::uint8_t* codes) {
  return std::any_of(codes, codes + kRun, [&](std::uint8_t c) { return std::isnan(values[c]); });
}

class Int16Packer {
 public:
  Int16Packer(const Kernels& kernels, const Product& product, const Factor& factor,
              const Depth& depth, Panel& panel, PackScratch& scratch)
      : kernels_(kernels),
        product_(product),
        factor_(factor),
        depth_(depth),
        panel_(panel),
        scratch_(scratch),
        values_(code_values(factor.codes.dtype)) {}

  void pack() {
    panel_.rests.clear();
    panel_.dense = false;
    most_rests_ = static_cast<std::size_t>(panel_.width * depth_.count / kDense + 64);
    for (int lane = panel_.width; lane < panel_.step; ++lane) {
      std::memset(scratch_.lines[lane], 0, sizeof(scratch_.lines[lane]));
    }
    std::memset(panel_.scales, 0,
                static_cast<std::size_t>(depth_.runs() * kRunBlocks * panel_.scale_step) * 8);
    for (Index run = 0; run < depth_.runs(); ++run) {
      panel_.rest_begin[run] = static_cast<std::uint32_t>(panel_.rests.size());
      panel_.rest_mask[run][0] = panel_.rest_mask[run][1] = 0;
      panel_.split[run] = 0;
      pack_run(run);
    }
    panel_.rest_begin[depth_.runs()] = static_cast<std::uint32_t>(panel_.rests.size());
    finish_bounds();
  }

 private:
  void pack_run(Index run) {
    const Index start = depth_.start + run * kRun;
    const int count = depth_.run_count(run);
    scratch_.codes.fetch(factor_, panel_.first, panel_.width, start, count);
    for (int lane = 0; lane < panel_.width; ++lane) pack_line(run, start, count, lane);
    auto* to = static_cast<std::int32_t*>(panel_.data) + run * kRunPairs * panel_.step;
    const int blocks = static_cast<int>(ceil_div(count, kBlock));
    const bool is_b = panel_.scale_step == kMaxLanesB;
    (is_b ? kernels_.place_b : kernels_.place_a)(panel_.step, blocks, scratch_.lines[0], to);
  }

  void pack_line(Index run, Index start, int count, int lane) {
    const std::uint8_t* codes = scratch_.codes.lane(lane);
    auto* pairs = reinterpret_cast<std::int32_t*>(scratch_.lines[lane]);
    LineBound& bound = panel_.bound[lane];
    const RunScales s = scales_of(product_.scaling, factor_, panel_.first + lane, start,
                                  static_cast<int>(ceil_div(count, kBlock)));
    EncodedRun e;
    kernels_.encode_int16(factor_.codes.dtype, codes, s.factor, s.joint, pairs, e);
    if (e.special || s.nan || s.infinite) {
      bound.special = true;
      bound.nan = bound.nan || s.nan || (e.special && has_nan(values_, codes));
      std::memset(pairs, 0, sizeof(scratch_.lines[lane]));
      return;
    }
    if (!s.joint) panel_.split[run] = 1;
    if (e.least == 255) return;  // all zero
    bound.quantum = std::min(bound.quantum, quantum_of(factor_.codes.dtype, e.least + 1) + s.least);
    double worth[kRunBlocks];
    for (int b = 0; b < kRunBlocks; ++b) {
      const int shift = s.joint ? s.exponent : s.exponent + s.shift[b];
      const double unit = power_f64(shift) * static_cast<double>(s.value);
      bound.norm2 += static_cast<double>(e.norm2[b]) * unit * unit;
      worth[b] = power_f64(shift + e.exponent[b]) * static_cast<double>(s.value);
      panel_.scales[(run * kRunBlocks + b) * panel_.scale_step + lane] = worth[b];
    }
    if ((e.rest[0] | e.rest[1]) != 0) keep_rests(run, lane, codes, s, e, worth);
  }

  void keep_rests(Index run, int lane, const std::uint8_t* codes, const RunScales& s,
                  const EncodedRun& e, const double* worth) {
    for (int word = 0; word < 2; ++word) {
      panel_.rest_mask[run][word] |= e.rest[word];
      for (std::uint64_t left = e.rest[word]; left != 0; left &= left - 1) {
        const int at = 64 * word + std::countr_zero(left);
        const int b = at / kBlock;
        const float x = values_[codes[at]] * s.factor[b] * power_f32(-e.exponent[b]);
        const float rest = x - static_cast<float>(static_cast<std::int32_t>(x));
        panel_.bound[lane].roundings += 3;
        panel_.rests.push_back({static_cast<double>(rest) * worth[b],
                                static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(at)});
      }
    }
    if (panel_.rests.size() > most_rests_) {
      panel_.dense = true;
      panel_.rests.clear();
    }
  }

  void finish_bounds() {
    Index splits = 0;
    for (Index run = 0; run < depth_.runs(); ++run) splits += panel_.split[run];
    double roundings = 3.0 * static_cast<double>(depth_.runs() + 3 * splits) + 4;
    if (panel_.dense) roundings += kRun;
    for (int lane = 0; lane < panel_.width; ++lane) panel_.bound[lane].roundings += roundings;
  }

  const Kernels& kernels_;
  const Product& product_;
  const Factor& factor_;
  const Depth& depth_;
  Panel& panel_;
  PackScratch& scratch_;
  const float* values_;
  std::size_t most_rests_ = 0;
};

// bf16 bits to floats; the largest magnitude tells of infinities and NaNs.
int widen_words(const std::uint16_t* words, float* values) {
  int most = 0;
  for (int c = 0; c < kRun; ++c) {
    most = std::max(most, static_cast<int>(words[c] & 0x7FFF));
    values[c] = bit_cast<float>(static_cast<std::uint32_t>(words[c]) << 16);
  }
  return most;
}

constexpr int kInfinity = 0x7F80;  // of bf16

void pack_f64(const Kernels& kernels, const Factor& factor, const Depth& depth, Panel& panel,
              bool halves, PackScratch& scratch) {
  const int half = halves ? panel.step / 2 : panel.step;
  double norm2[kMaxLanesB] = {};
  float least[kMaxLanesB];
  std::fill(least, least + kMaxLanesB, std::numeric_limits<float>::infinity());
  for (int lane = panel.width; lane < panel.step; ++lane) {
    std::memset(scratch.lines[lane], 0, sizeof(scratch.lines[lane]));
  }
  for (Index run = 0; run < depth.runs(); ++run) {
    const int count = depth.run_count(run);
    scratch.words.fetch(factor, panel.first, panel.width, depth.start + run * kRun, count);
    for (int lane = 0; lane < panel.width; ++lane) {
      auto* values = reinterpret_cast<float*>(scratch.lines[lane]);
      const int most = widen_words(scratch.words.lane(lane), values);
      if (most >= kInfinity) {
        panel.bound[lane].special = true;
        panel.bound[lane].nan = panel.bound[lane].nan || most > kInfinity;
        std::fill(values, values + kRun, 0.0f);
      }
    }
    kernels.interleave(panel.step, static_cast<int>(round_up(count, 16)), scratch.lines[0], kRun,
                       scratch.columns, panel.step);
    const auto* columns = reinterpret_cast<const float*>(scratch.columns);
    for (int first = 0; first < panel.step; first += half) {
      double* out =
          static_cast<double*>(panel.data) + first * round_up(depth.count, 16) + run * kRun * half;
      kernels.widen(half, count, columns + first, panel.step, out, half, norm2 + first,
                    least + first);
    }
  }
  for (int lane = 0; lane < panel.width; ++lane) {
    LineBound& bound = panel.bound[lane];
    bound.norm2 += norm2[lane];
    bound.roundings += static_cast<double>(kRun + depth.runs() + 4);
    if (least[lane] < std::numeric_limits<float>::infinity()) {
      const int field = static_cast<int>(bit_cast<std::uint32_t>(least[lane]) >> 23);
      bound.quantum = std::min(bound.quantum, std::max(field, 1) - 134);
    }
  }
}

void pack_chain(const Kernels& kernels, const Product& product, const Factor& factor,
                const Depth& depth, Panel& panel, PackScratch& scratch) {
  for (int lane = panel.width; lane < panel.step; ++lane) {
    std::memset(scratch.lines[lane], 0, sizeof(scratch.lines[lane]));
  }
  for (Index run = 0; run < depth.runs(); ++run) {
    const Index start = depth.start + run * kRun;
    const int count = depth.run_count(run);
    if (product.scaling == Scaling::none) {
      scratch.words.fetch(factor, panel.first, panel.width, start, count);
    } else {
      scratch.codes.fetch(factor, panel.first, panel.width, start, count);
    }
    for (int lane = 0; lane < panel.width; ++lane) {
      auto* values = reinterpret_cast<float*>(scratch.lines[lane]);
      if (product.scaling == Scaling::none) {
        widen_words(scratch.words.lane(lane), values);
        continue;
      }
      const float* decoded = code_values(factor.codes.dtype);
      const std::uint8_t* codes = scratch.codes.lane(lane);
      const ScaledLine line = factor.line(panel.first + lane);
      const bool scaled = product.scaling == Scaling::mx;
      for (int c = 0; c < count; c += kBlock) {
        const float scale = scaled ? line.scale(start + c) : 1.0f;
        for (int i = c; i < c + kBlock; ++i) values[i] = decoded[codes[i]] * scale;
      }
    }
    kernels.interleave(panel.step, static_cast<int>(round_up(count, 16)), scratch.lines[0], kRun,
                       static_cast<std::uint32_t*>(panel.data) + run * kRun * panel.step,
                       panel.step);
  }
}

}  // namespace

void pack_panel(const Kernels& kernels, Engine engine, const Product& product, const Factor& factor,
                const Depth& depth, Panel& panel, PackScratch& scratch) {
  switch (engine) {
    case Engine::int16: Int16Packer(kernels, product, factor, depth, panel, scratch).pack(); return;
    case Engine::f64:
      pack_f64(kernels, factor, depth, panel, panel.scale_step == kMaxLanesB, scratch);
      return;
    case Engine::chain: pack_chain(kernels, product, factor, depth, panel, scratch); return;
  }
}

void pack_run_f64(const Product& product, const Factor& factor, const Panel& panel, Index start,
                  int count, int half_lanes, double* out, PackScratch& scratch) {
  scratch.codes.fetch(factor, panel.first, panel.width, start, count);
  const float* values = code_values(factor.codes.dtype);
  const bool scaled = product.scaling != Scaling::rowwise;
  std::memset(out, 0, static_cast<std::size_t>(kRun * panel.step) * sizeof(double));
  for (int lane = 0; lane < panel.width; ++lane) {
    if (panel.bound[lane].special) continue;
    const std::uint8_t* codes = scratch.codes.lane(lane);
    const ScaledLine line = factor.line(panel.first + lane);
    double* to = out + lane / half_lanes * kRun * half_lanes + lane % half_lanes;
    for (int c = 0; c < count; c += kBlock) {
      const double scale = scaled ? static_cast<double>(line.scale(start + c)) : 1.0;
      for (int i = c; i < c + kBlock; ++i) {
        to[i * half_lanes] = static_cast<double>(values[codes[i]]) * scale;
      }
    }
  }
}

}  // namespace mxo::cpu
