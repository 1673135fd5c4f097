// How many bits of news it is that some elements of an output come as they do.
#include "golden/explain/recover/chance.h"

#include <algorithm>
#include <cmath>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kSampled = 1 << 15;
constexpr double kCertain = 20.0;  ///< bits beyond chance: one in a million

std::unordered_map<std::uint64_t, Index> counts_of(const Tensor& t) {
  std::unordered_map<std::uint64_t, Index> counts;
  const Index step = t.elements() / kSampled + 1;
  for (Index i = 0; i < t.elements(); i += step) ++counts[bits_at(t, i)];
  return counts;
}

}  // namespace

Chance::Chance(const Output& output) : output_(output) {
  const Index elements = output.expected->elements();
  const Index step = elements / kSampled + 1;
  const auto seen = static_cast<double>((elements + step - 1) / step);
  unseen_ = std::log2(seen + 1.0);
  for (const Tensor* t : {output.expected, output.actual}) {
    for (const auto& [value, count] : counts_of(*t)) {
      const double bits = unseen_ - std::log2(static_cast<double>(count));
      const auto [at, first] = bits_.emplace(value, bits);
      if (!first) at->second = std::min(at->second, bits);
    }
  }
}

double Chance::bits(Index at, Index elements) const {
  double sum = 0.0;
  for (Index i = at; i < at + elements; ++i) {
    const auto found = bits_.find(bits_at(*output_.actual, i));
    sum += found == bits_.end() ? unseen_ : found->second;
  }
  return sum;
}

bool Chance::tells(const std::vector<Index>& pieces, Index width, std::size_t failing,
                   std::size_t places) const {
  double news = 0.0;
  for (const Index at : pieces) news += bits(at, width);
  const auto k = static_cast<double>(pieces.size());
  // log2 of failing over k, from above.
  const double which = k * std::log2(std::exp(1.0) * static_cast<double>(failing) / k);
  return news > which + std::log2(static_cast<double>(places)) + kCertain;
}

}  // namespace mxo
