// Scales, rests and bounds of the lines of an integer panel.
#include "emu/cpu/gemm/pack/integer_packer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emu/exact/integer_unit.h"
#include "emu/cpu/gemm/engines/two_slices/two_slices.h"
#include "emu/cpu/gemm/kernels/portable.h"
#include "formats/mx_block.h"

namespace mxo::cpu {
namespace {

/// A panel with more rests than one element in this many is computed in f64.
constexpr Index kDense = 12;

int last_place(float x) {
  const auto bits = bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  if (bits == 0) return 0;
  const int field = static_cast<int>(bits >> 23);
  const std::uint32_t significand = (bits & 0x7FFFFFu) | (field > 0 ? 0x800000u : 0u);
  return (field > 0 ? field : 1) - 150 + std::countr_zero(significand);
}

}  // namespace

void read_scales(Scaling scaling, const Factor& factor, Index row, Index start, int blocks,
                 BlockScales& s) {
  s = {0, 0, {}, true, 1.0f, false, false};
  if (scaling == Scaling::none || scaling == Scaling::rowwise) return;
  const Index line = factor.scales_start +
                     (factor.row_tile == 1 ? row : row / kScaleTile) * factor.scales_row_step;
  if (scaling == Scaling::blockwise) {
    const Index tile = line + start / kScaleTile * factor.scales_step;
    s.value = static_cast<const float*>(factor.scales.data)[tile];
    s.nan = std::isnan(s.value);
    s.infinite = std::isinf(s.value);
    s.least = last_place(s.value);
    return;
  }
  const Index at = line + start / kMxBlock * factor.scales_step;
  const auto* bytes = static_cast<const std::uint8_t*>(factor.scales.data) + at;
  __builtin_prefetch(bytes + BlockScales::kMost);
  std::uint8_t most = 0;
  std::uint8_t least = 255;
  if (factor.scales_step == 1 && blocks == BlockScales::kMost) {  // as vector code
    for (int b = 0; b < BlockScales::kMost; ++b) most = std::max(most, bytes[b]);
    for (int b = 0; b < BlockScales::kMost; ++b) least = std::min(least, bytes[b]);
    for (int b = 0; b < BlockScales::kMost; ++b) {
      s.shift[b] = static_cast<std::uint8_t>(most - bytes[b]);
    }
  } else {
    for (int b = 0; b < blocks; ++b) {
      const std::uint8_t x = bytes[b * factor.scales_step];
      most = std::max(most, x);
      least = std::min(least, x);
    }
    for (int b = 0; b < blocks; ++b) {
      s.shift[b] = static_cast<std::uint8_t>(most - bytes[b * factor.scales_step]);
    }
  }
  s.nan = most == 255;
  s.top = most - 127;
  s.least = least - 127;
  s.joint = most - least <= kMostSpread;
}

int quantum_of(Dtype dtype, int magnitude) {
  return visit_minifloat8(dtype, [&](auto tag) {
    constexpr FormatSpec spec = decltype(tag)::type::spec;
    return std::max(magnitude >> spec.mantissa_bits, 1) - spec.bias - spec.mantissa_bits;
  });
}

LinePacker::LinePacker(const Kernels& kernels, const Product& product, const Factor& factor,
                       const Depth& depth, Panel& panel, PackScratch& scratch)
    : kernels_(kernels),
      product_(product),
      factor_(factor),
      depth_(depth),
      panel_(panel),
      scratch_(scratch),
      values_(code_values(factor.codes.dtype)) {}

void LinePacker::begin() {
  panel_.rests.clear();
  panel_.dense = false;
  most_rests_ = static_cast<std::size_t>(panel_.width * depth_.count / kDense + 64);
}

/// The rests of a run by element: those of two panels are then matched in one pass.
void LinePacker::sort_rests(Index run) {
  if (panel_.dense) return;
  std::sort(panel_.rests.begin() + panel_.rest_begin[run], panel_.rests.end(),
            [](const Rest& a, const Rest& b) { return a.at < b.at; });
}

void LinePacker::begin_run(Index run) {
  if (run > 0) sort_rests(run - 1);
  panel_.rest_begin[run] = static_cast<std::uint32_t>(panel_.rests.size());
  panel_.split[run] = 0;
}

void LinePacker::end() {
  if (depth_.runs() > 0) sort_rests(depth_.runs() - 1);
  panel_.rest_begin[depth_.runs()] = static_cast<std::uint32_t>(panel_.rests.size());
  Index splits = 0;
  for (Index run = 0; run < depth_.runs(); ++run) splits += panel_.split[run];
  double roundings = 3.0 * static_cast<double>(depth_.runs() + 3 * splits) + 4;
  if (panel_.dense) roundings += kRun;
  for (int lane = 0; lane < panel_.width; ++lane) panel_.bound[lane].roundings += roundings;
}

void LinePacker::mark_special(int lane, bool nan) {
  panel_.bound[lane].special = true;
  panel_.bound[lane].nan = panel_.bound[lane].nan || nan;
}

bool LinePacker::has_nan(const std::uint8_t* codes) const {
  return std::any_of(codes, codes + kRun, [this](auto code) { return std::isnan(values_[code]); });
}

void LinePacker::pack_pairs(Index run, int count, int lane, std::int32_t* pairs) {
  const std::uint8_t* codes = scratch_.codes.lane(lane);
  LineBound& bound = panel_.bound[lane];
  BlockScales s;
  read_scales(product_.scaling, factor_, panel_.first + lane, depth_.start + run * kRun,
              static_cast<int>(ceil_div(count, kBlock)), s);
  float factor[kRunBlocks] = {1, 1, 1, 1};
  for (int b = 0; b < kRunBlocks && s.joint; ++b) factor[b] = power_f32(-s.shift[b]);
  EncodedRun e;
  kernels_.encode_int16(factor_.codes.dtype, codes, factor, s.joint, pairs, e);
  if (e.special || s.nan || s.infinite) {
    mark_special(lane, s.nan || (e.special && has_nan(codes)));
    std::memset(pairs, 0, kRunPairs * sizeof(std::int32_t));
    return;
  }
  if (!s.joint) panel_.split[run] = 1;
  if (e.least == 255) return;  // all zero
  bound.quantum = std::min(bound.quantum, quantum_of(factor_.codes.dtype, e.least + 1) + s.least);
  double worth[kRunBlocks];
  int exponent[kRunBlocks];
  for (int b = 0; b < kRunBlocks; ++b) {
    const int scale = s.joint ? s.top : s.top - s.shift[b];
    const double unit = power_f64(scale) * static_cast<double>(s.value);
    bound.norm2 += static_cast<double>(e.norm2[b]) * unit * unit;
    worth[b] = power_f64(scale + e.exponent[b]) * static_cast<double>(s.value);
    worth_at(run, b, lane) = worth[b];
    exponent[b] = e.exponent[b] + (s.joint ? s.shift[b] : 0);
  }
  if ((e.rest[0] | e.rest[1]) != 0) keep_rests(lane, e.rest, codes, exponent, worth);
}

void LinePacker::keep_rest(int lane, int at, std::uint8_t code, int exponent, double worth) {
  const float x = values_[code] * power_f32(-exponent);
  const float rest = x - static_cast<float>(static_cast<std::int32_t>(x));
  if (rest == 0.0f) return;
  panel_.bound[lane].roundings += 3;
  rests_[lane] += static_cast<double>(std::abs(rest));
  panel_.rests.push_back({static_cast<double>(rest) * worth, static_cast<std::uint32_t>(lane),
                          static_cast<std::uint32_t>(at)});
}

void LinePacker::check_rests() {
  if (panel_.rests.size() <= most_rests_) return;
  panel_.dense = true;
  panel_.rests.clear();
}

void LinePacker::keep_rests(int lane, const std::uint64_t* candidates, const std::uint8_t* codes,
                            const int (&exponent)[kRunBlocks], const double (&worth)[kRunBlocks]) {
  for (int word = 0; word < 2; ++word) {
    for (std::uint64_t left = candidates[word]; left != 0; left &= left - 1) {
      const int at = 64 * word + std::countr_zero(left);
      keep_rest(lane, at, codes[at], exponent[at / kBlock], worth[at / kBlock]);
    }
  }
  check_rests();
}

}  // namespace mxo::cpu
