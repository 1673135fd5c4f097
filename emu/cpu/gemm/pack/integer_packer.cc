// Scales, residuals and bounds of the K-vectors of an integer panel.
#include "emu/cpu/gemm/pack/integer_packer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "emu/exact/integer_unit.h"
#include "formats/mx_block.h"

namespace mxo::cpu {
namespace {

/// A panel with more residuals than one element in this many is computed in f64.
constexpr Index kOverflowShare = 12;

int last_place(float x) {
  const auto bits = bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  if (bits == 0) return 0;
  const int field = static_cast<int>(bits >> 23);
  const std::uint32_t significand = (bits & 0x7FFFFFu) | (field > 0 ? 0x800000u : 0u);
  return (field > 0 ? field : 1) - 150 + std::countr_zero(significand);
}

}  // namespace

void read_scales(ScaleForm form, const Factor& factor, Index row, Index start, int blocks,
                 BlockScales& s) {
  s = {0, 0, {}, true, 1.0f, false, false};
  if (form == ScaleForm::none || form == ScaleForm::rowwise) return;
  const Index first = factor.scales_start +
                      (factor.row_tile == 1 ? row : row / kScaleTile) * factor.scales_row_step;
  if (form == ScaleForm::blockwise) {
    const Index tile = first + start / kScaleTile * factor.scales_step;
    s.value = static_cast<const float*>(factor.scales.data)[tile];
    s.nan = std::isnan(s.value);
    s.infinite = std::isinf(s.value);
    s.min_scale = last_place(s.value);
    return;
  }
  const Index at = first + start / kMxBlock * factor.scales_step;
  const auto* bytes = static_cast<const std::uint8_t*>(factor.scales.data) + at;
  __builtin_prefetch(bytes + BlockScales::kMax);
  std::uint8_t max_scale = 0;
  std::uint8_t min_scale = 255;
  if (factor.scales_step == 1 && blocks == BlockScales::kMax) {  // as vector code
    for (int b = 0; b < BlockScales::kMax; ++b) max_scale = std::max(max_scale, bytes[b]);
    for (int b = 0; b < BlockScales::kMax; ++b) min_scale = std::min(min_scale, bytes[b]);
    for (int b = 0; b < BlockScales::kMax; ++b) {
      s.shift[b] = static_cast<std::uint8_t>(max_scale - bytes[b]);
    }
  } else {
    for (int b = 0; b < blocks; ++b) {
      const std::uint8_t x = bytes[b * factor.scales_step];
      max_scale = std::max(max_scale, x);
      min_scale = std::min(min_scale, x);
    }
    for (int b = 0; b < blocks; ++b) {
      s.shift[b] = static_cast<std::uint8_t>(max_scale - bytes[b * factor.scales_step]);
    }
  }
  s.nan = max_scale == 255;
  s.top = max_scale - 127;
  s.min_scale = min_scale - 127;
  s.joint = max_scale - min_scale <= kMaxSpread;
}

PanelBytes integer_bytes(Index data, int scale_step, const KBlock& k_block) {
  return {whole_lines(data), whole_lines(k_block.runs() * kRunBlocks * scale_step * 8),
          whole_lines(k_block.runs() * 16), whole_lines((k_block.runs() + 1) * 4),
          whole_lines(k_block.runs())};
}

IntegerPacker::IntegerPacker(const Kernels& kernels, const Product& product, const Factor& factor,
                             const KBlock& k_block, MicroPanel& panel, PackScratch& scratch)
    : kernels_(kernels),
      product_(product),
      factor_(factor),
      k_block_(k_block),
      panel_(panel),
      scratch_(scratch),
      values_(code_values(factor.codes.dtype)),
      format_(code_format(factor.codes.dtype)) {}

void IntegerPacker::begin() {
  panel_.residuals.clear();
  panel_.residual_overflow = false;
  max_residuals_ = static_cast<std::size_t>(panel_.width * k_block_.count / kOverflowShare + 64);
}

/// Sorts the residuals of a run by element, so that those of two panels are matched in one pass.
void IntegerPacker::sort_residuals(Index run) {
  if (panel_.residual_overflow) return;
  std::sort(panel_.residuals.begin() + panel_.residual_begin[run], panel_.residuals.end(),
            [](const Residual& a, const Residual& b) { return a.at < b.at; });
}

void IntegerPacker::begin_run(Index run) {
  if (run > 0) sort_residuals(run - 1);
  panel_.residual_begin[run] = static_cast<std::uint32_t>(panel_.residuals.size());
  panel_.residual_places[2 * run] = panel_.residual_places[2 * run + 1] = 0;
  panel_.split[run] = 0;
  run_ = run;
}

void IntegerPacker::end() {
  if (k_block_.runs() > 0) sort_residuals(k_block_.runs() - 1);
  panel_.residual_begin[k_block_.runs()] = static_cast<std::uint32_t>(panel_.residuals.size());
  Index splits = 0;
  for (Index run = 0; run < k_block_.runs(); ++run) splits += panel_.split[run];
  double roundings = 3.0 * static_cast<double>(k_block_.runs() + 3 * splits) + 4;
  if (panel_.residual_overflow) roundings += kRun;
  for (int lane = 0; lane < panel_.width; ++lane) panel_.bound[lane].roundings += roundings;
}

void IntegerPacker::mark_special(int lane, bool nan) {
  panel_.bound[lane].special = true;
  panel_.bound[lane].nan = panel_.bound[lane].nan || nan;
}

bool IntegerPacker::has_nan(const std::uint8_t* codes) const {
  return std::any_of(codes, codes + kRun, [this](auto code) { return std::isnan(values_[code]); });
}

void IntegerPacker::pack_pairs(Index run, int count, int lane, std::int32_t* pairs) {
  const std::uint8_t* codes = scratch_.codes.lane(lane);
  KVectorBound& bound = panel_.bound[lane];
  BlockScales s;
  read_scales(product_.form, factor_, panel_.first + lane, k_block_.start + run * kRun,
              static_cast<int>(ceil_div(count, kBlock)), s);
  float factor[kRunBlocks] = {1, 1, 1, 1};
  for (int b = 0; b < kRunBlocks && s.joint; ++b) factor[b] = power_f32(-s.shift[b]);
  EncodedRun e;
  kernels_.encode_int16(format_, codes, factor, s.joint, pairs, e);
  if (e.special || s.nan || s.infinite) {
    mark_special(lane, s.nan || (e.special && has_nan(codes)));
    std::memset(pairs, 0, kRunPairs * sizeof(std::int32_t));
    return;
  }
  if (!s.joint) panel_.split[run] = 1;
  if (e.min_magnitude == 255) return;  // all zero
  bound.quantum = std::min(bound.quantum, quantum_of(format_, e.min_magnitude + 1) + s.min_scale);
  double weight[kRunBlocks];
  int exponent[kRunBlocks];
  for (int b = 0; b < kRunBlocks; ++b) {
    const int scale = s.joint ? s.top : s.top - s.shift[b];
    const double unit = power_f64(scale) * static_cast<double>(s.value);
    bound.norm2 += static_cast<double>(e.norm2[b]) * unit * unit;
    weight[b] = power_f64(scale + e.exponent[b]) * static_cast<double>(s.value);
    weight_at(run, b, lane) = weight[b];
    exponent[b] = e.exponent[b] + (s.joint ? s.shift[b] : 0);
  }
  if ((e.residual[0] | e.residual[1]) != 0)
    keep_residuals(lane, e.residual, codes, exponent, weight);
}

void IntegerPacker::keep_residual(int lane, int at, std::uint8_t code, int exponent,
                                  double weight) {
  const float x = values_[code] * power_f32(-exponent);
  const float residual = x - static_cast<float>(static_cast<std::int32_t>(x));
  if (residual == 0.0f) return;
  panel_.bound[lane].roundings += 3;
  residuals_[lane] += static_cast<double>(std::abs(residual));
  panel_.residual_places[2 * run_ + at / 64] |= std::uint64_t{1} << at % 64;
  panel_.residuals.push_back({static_cast<double>(residual) * weight,
                              static_cast<std::uint32_t>(lane),
                              static_cast<std::uint32_t>(run_ * kRun + at)});
}

void IntegerPacker::check_residuals() {
  if (panel_.residuals.size() <= max_residuals_) return;
  panel_.residual_overflow = true;
  panel_.residuals.clear();
}

void IntegerPacker::keep_residuals(int lane, const std::uint64_t* candidates,
                                   const std::uint8_t* codes, const int (&exponent)[kRunBlocks],
                                   const double (&weight)[kRunBlocks]) {
  for (int word = 0; word < 2; ++word) {
    for (std::uint64_t left = candidates[word]; left != 0; left &= left - 1) {
      const int at = 64 * word + std::countr_zero(left);
      keep_residual(lane, at, codes[at], exponent[at / kBlock], weight[at / kBlock]);
    }
  }
  check_residuals();
}

}  // namespace mxo::cpu
