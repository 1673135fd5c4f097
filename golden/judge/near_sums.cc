// Sums of products in f32, eight vectors of four, and what they tell.
#include "golden/judge/near_sums.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "formats/host_device.h"
#include "golden/judge/sum_error.h"

namespace mxo {
namespace {

/// Four floats, as every processor of the two families has them.
using Four [[gnu::vector_size(16)]] = float;
using FourWords [[gnu::vector_size(16)]] = std::uint32_t;
constexpr int kFours = NearSums::kLines / 4;
constexpr Index kOfMagnitude = 16;  ///< one run in so many

Four four(const float* from) {
  Four v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

Four magnitude_of(Four v) { return bit_cast<Four>(bit_cast<FourWords>(v) & 0x7FFFFFFFu); }

}  // namespace

NearSums::NearSums(const double* values, Index stride, int lines, Index k)
    : k_(k), panel_(static_cast<std::size_t>(k * kLines)) {
  for (int line = 0; line < lines; ++line) {
    const double* from = values + line * stride;
    for (Index i = 0; i < k; ++i) {
      panel_[static_cast<std::size_t>(i * kLines + line)] = static_cast<float>(from[i]);
    }
  }
}

Index NearSums::roundings() const { return std::min(kRun, k_) + ceil_div(k_, kRun); }

NearSums::Sums NearSums::of(const double* a) const {
  Four totals[kFours] = {};
  Four magnitudes[kFours] = {};
  for (Index run = 0; run * kRun < k_; ++run) {
    const Index begin = run * kRun;
    const Index end = std::min(k_, begin + kRun);
    const float* b = panel_.data() + begin * kLines;
    Four sums[kFours] = {};
    for (Index i = begin; i < end; ++i, b += kLines) {
      const auto x = static_cast<float>(a[i]);
      const Four xs = {x, x, x, x};
      for (int f = 0; f < kFours; ++f) sums[f] += xs * four(b + 4 * f);
    }
    for (int f = 0; f < kFours; ++f) totals[f] += sums[f];
    if (run % kOfMagnitude != 0) continue;
    b = panel_.data() + begin * kLines;
    for (Index i = begin; i < end; ++i, b += kLines) {
      const auto x = static_cast<float>(a[i]);
      const Four xs = {x, x, x, x};
      for (int f = 0; f < kFours; ++f) {
        magnitudes[f] += magnitude_of(xs * four(b + 4 * f));
      }
    }
  }
  Sums result;
  std::memcpy(result.total, totals, sizeof totals);
  float magnitude[kLines];
  std::memcpy(magnitude, magnitudes, sizeof magnitudes);
  // Fewer than 2^20 roundings of a sum of one sign, and products that underflow.
  const double lost = static_cast<double>(k_) * 0x1p-149;
  for (int line = 0; line < kLines; ++line) {
    result.magnitude[line] =
        std::max(0.0, static_cast<double>(magnitude[line]) * (1 - 0x1p-4) - lost);
  }
  return result;
}

bool sums_in_floats(const JudgedProduct& product) {
  constexpr Index kLongest = Index{1} << 23;
  const auto floats = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(),
                       [](double v) { return static_cast<double>(static_cast<float>(v)) == v; });
  };
  return !product.scaled && product.a.k < kLongest && floats(product.a.value) &&
         floats(product.b.value);
}

std::vector<bool> within_any_order(const JudgedProduct& product, const OutputBlock& block,
                                   const std::function<double(Index)>& value) {
  constexpr double kU = 0x1p-24;
  const Index width = block.column_end - block.column_begin;
  std::vector<bool> within(static_cast<std::size_t>((block.row_end - block.row_begin) * width));
  for (Index begin = 0; begin < width; begin += NearSums::kLines) {
    const auto lines = static_cast<int>(std::min<Index>(NearSums::kLines, width - begin));
    std::optional<NearSums> near;
    Index group = -1;
    for (Index row = block.row_begin; row < block.row_end; ++row) {
      const Index first = row * product.b.lines + block.column_begin + begin;
      const auto output = product.at(first);
      if (!output) continue;
      if (output->group != group) {
        near.emplace(output->values_b(), product.b.k, lines, output->k);
        group = output->group;
      }
      // A total is off by gamma_r M and K 2^-150, for which K 2^-149 of the bound is room.
      const double room =
          (static_cast<double>(output->k) * kU - gamma_of(near->roundings(), kU)) * (1 - 0x1p-20);
      if (room <= 0) continue;
      const NearSums::Sums sums = near->of(output->values_a());
      const Index to = (row - block.row_begin) * width + begin;
      for (int i = 0; i < lines; ++i) {
        const double off = std::fabs(value(first + i) - static_cast<double>(sums.total[i]));
        within[static_cast<std::size_t>(to + i)] = off <= room * sums.magnitude[i];
      }
    }
  }
  return within;
}

}  // namespace mxo
