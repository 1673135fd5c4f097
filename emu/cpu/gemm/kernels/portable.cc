// Packing and rounding in plain C++: the definition of what the vector loops do.
#include "emu/cpu/gemm/kernels/portable.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "emu/exact/integer_unit.h"
#include "emu/exact/rounding.h"

namespace mxo::cpu {
namespace {

template <typename Code>
constexpr std::array<float, 256> values_of() {
  std::array<float, 256> values{};
  for (unsigned i = 0; i < 256; ++i) values[i] = decode(Code{static_cast<std::uint8_t>(i)});
  return values;
}
template <typename Code>
constexpr std::array<float, 256> kValues = values_of<Code>();

}  // namespace

const float* code_values(Dtype dtype) {
  return visit_minifloat8(dtype,
                          [](auto tag) { return kValues<typename decltype(tag)::type>.data(); });
}

void portable_encode_int16(Dtype dtype, const std::uint8_t* codes, const float* factor, bool joint,
                           std::int32_t* pairs, EncodedRun& run) noexcept {
  run = {};
  std::fill(pairs, pairs + kRunPairs, 0);
  const float* values = code_values(dtype);
  float x[kRun];
  float max_magnitude[kRunBlocks] = {};
  for (int c = 0; c < kRun; ++c) {
    const int b = c / kBlock;
    const float value = values[codes[c]];
    if (!std::isfinite(value)) run.special = true;
    if (value != 0.0f) {
      run.min_magnitude =
          std::min(run.min_magnitude, static_cast<std::uint8_t>((codes[c] & 0x7F) - 1));
    }
    x[c] = value * factor[b];
    max_magnitude[b] = std::max(max_magnitude[b], std::abs(x[c]));
    run.norm2[b] += x[c] * x[c];
  }
  if (run.special) return;
  if (joint) {
    run.norm2[0] += run.norm2[1] + run.norm2[2] + run.norm2[3];
    run.norm2[1] = run.norm2[2] = run.norm2[3] = 0.0f;
    max_magnitude[0] =
        std::max({max_magnitude[0], max_magnitude[1], max_magnitude[2], max_magnitude[3]});
  }
  for (int b = 0; b < kRunBlocks; ++b) {
    run.norm2[b] *= kRoundedUp;
    run.exponent[b] =
        joint && b > 0 ? run.exponent[0] : unit_exponent(run.norm2[b], max_magnitude[b]);
  }
  for (int c = 0; c < kRun; ++c) {
    const float scaled = x[c] * power_f32(-run.exponent[c / kBlock]);
    const auto integer = static_cast<std::int32_t>(scaled);
    const std::uint32_t low = static_cast<std::uint32_t>(integer) & 0xFFFFu;
    const auto word = static_cast<std::uint32_t>(pairs[c / 2]) | low << (16 * (c % 2));
    pairs[c / 2] = static_cast<std::int32_t>(word);
    if (static_cast<float>(integer) != scaled) run.residual[c / 64] |= std::uint64_t{1} << c % 64;
  }
}

void portable_interleave(int lanes, int count, const std::uint32_t* in, int in_step,
                         std::uint32_t* out, int out_step) noexcept {
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < lanes; ++lane) out[i * out_step + lane] = in[lane * in_step + i];
  }
}

void portable_widen(int lanes, int k_extent, const float* in, int in_step, double* out,
                    int out_step, double* norm2, float* min_magnitude) noexcept {
  for (int c = 0; c < k_extent; ++c) {
    for (int lane = 0; lane < lanes; ++lane) {
      const float x = in[c * in_step + lane];
      const double wide = x;
      norm2[lane] += wide * wide;
      if (x != 0.0f) min_magnitude[lane] = std::min(min_magnitude[lane], std::abs(x));
      out[c * out_step + lane] = wide;
    }
  }
}

std::uint32_t portable_round(const RowEnd& row, const ColumnEnds& columns, const double* sums,
                             int n, Dtype out_dtype, void* out) noexcept {
  std::uint32_t failed = 0;
  for (int i = 0; i < n; ++i) {
    const double scale = row.scale * columns.scale[i];
    const double value = sums[i] * scale + 0.0;  // an exact zero is +0
    double slack = 0.0;
    const bool exact = row.reach * columns.reach[i] <= 0x1p53;
    if (!exact || std::fma(sums[i], scale, -value) != 0.0) {
      const double norms = row.norm * columns.norm[i];
      const double summing =
          norms * (row.roundings + columns.roundings[i]) * (std::abs(scale) * 0x1.01p-53);
      slack = std::abs(value) * 0x1p-51 + summing;
    }
    std::uint32_t low = 0;
    bool fails = true;
    if (slack < std::numeric_limits<double>::infinity()) {
      low = rounded_bits(value - slack, out_dtype);
      fails = low != rounded_bits(value + slack, out_dtype);
    }
    if (fails) failed |= 1u << i;
    if (out_dtype == Dtype::f32) {
      static_cast<std::uint32_t*>(out)[i] = low;
    } else {
      static_cast<std::uint16_t*>(out)[i] = static_cast<std::uint16_t>(low);
    }
  }
  return failed;
}

void portable_round_exact(const double* sums, int n, Dtype out_dtype, void* out) noexcept {
  for (int i = 0; i < n; ++i) {
    const std::uint32_t bits = rounded_bits(sums[i] + 0.0, out_dtype);  // an exact zero is +0
    if (out_dtype == Dtype::f32) {
      static_cast<std::uint32_t*>(out)[i] = bits;
    } else {
      static_cast<std::uint16_t*>(out)[i] = static_cast<std::uint16_t>(bits);
    }
  }
}

}  // namespace mxo::cpu
