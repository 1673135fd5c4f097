// Bits of elements, bits of places.
#include "golden/explain/confirm/score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kSampled = 4096;    ///< elements, of what was explained, that are weighed
constexpr Index kValues = 1 << 15;  ///< of a tensor, whose shares are counted

std::unordered_map<std::uint64_t, Index> counts_of(const Tensor& t) {
  std::unordered_map<std::uint64_t, Index> counts;
  const Index step = t.elements() / kValues + 1;
  for (Index i = 0; i < t.elements(); i += step) ++counts[bits_at(t, i)];
  return counts;
}

/// Of elements that one scale made, the one that differs most.
std::vector<Index> one_a_scale(const Output& output, const std::vector<Index>& elements) {
  if (output.tile.rows * output.tile.columns == 1) return elements;
  const ElementReader read(output.expected->dtype());
  const auto apart = [&](Index i) {
    return ulp_distance(read(output.expected_bits(i)).order, read(output.actual_bits(i)).order);
  };
  std::map<std::pair<Index, Index>, Index> most;
  for (const Index i : elements) {
    const std::pair tile{i / output.columns / output.tile.rows,
                         i % output.columns / output.tile.columns};
    const auto [at, first] = most.emplace(tile, i);
    if (!first && apart(i) > apart(at->second)) at->second = i;
  }
  std::vector<Index> found;
  for (const auto& [tile, i] : most) found.push_back(i);
  return found;
}

/// Bits by which some elements could have been otherwise: as their values are rare, but no more
/// than there are values as near to what is expected.
double bits_of(const Output& output, const std::vector<Index>& explained) {
  const std::vector<Index> elements = one_a_scale(output, explained);
  if (elements.empty()) return 0.0;
  const Chance chance(output);
  const ElementReader read(output.expected->dtype());
  const auto n = static_cast<Index>(elements.size());
  const Index step = n / kSampled + 1;
  double sum = 0.0;
  Index seen = 0;
  for (Index at = 0; at < n; at += step, ++seen) {
    const Index i = elements[static_cast<std::size_t>(at)];
    const Element want = read(output.expected_bits(i));
    const Element got = read(output.actual_bits(i));
    double bits = chance.bits(i, 1);
    if (!want.nan && !got.nan) {
      const auto apart = static_cast<double>(ulp_distance(want.order, got.order));
      bits = std::min(bits, std::log2(2.0 * apart + 1.0));
    }
    sum += std::max(1.0, bits);
  }
  return sum / static_cast<double>(seen) * static_cast<double>(n);
}

/// log2 of the ways to choose so many runs of `lines`.
double bits_of_runs(const std::string& ranges, Index lines) {
  if (ranges.empty() || lines < 2) return 0.0;
  const auto runs = std::count(ranges.begin(), ranges.end(), ',') + 1;
  return 2.0 * static_cast<double>(runs) * std::log2(static_cast<double>(lines));
}

/// of(output, number) added up; of codes that follow from scales only where those add nothing.
template <typename Of>
double added_up(const std::vector<Output>& outputs, const Of& of) {
  double following = 0.0;
  double others = 0.0;
  for (std::size_t n = 0; n < outputs.size(); ++n)
    (outputs[n].follows ? following : others) += of(outputs[n], n);
  return others > 0.0 ? others : following;
}

}  // namespace

Chance::Chance(const Output& output) : output_(output) {
  const Index elements = output.expected->elements();
  const Index step = elements / kValues + 1;
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

double Weighing::gain(const std::vector<Output>& outputs) const {
  return added_up(outputs, [&](const Output& o, std::size_t n) {
    return bits_of(o, before_.explained_since(outputs, n));
  });
}

bool Weighing::names_call(const std::vector<Output>& outputs) const {
  if (left_of(outputs) > 0) return false;
  double following = 0.0;
  double others = 0.0;
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    const Output& o = outputs[n];
    (o.follows ? following : others) +=
        static_cast<double>(one_a_scale(o, before_.explained_since(outputs, n)).size());
  }
  if (others > 0.0 && following >= kFollowing && others >= kWitnesses / 2.0) return true;
  return (others > 0.0 ? others : following) >= kWitnesses;
}

double Weighing::place_told(const std::vector<Output>& outputs) const {
  double bits = 0.0;
  for (std::size_t n = 0; n < outputs.size(); ++n) {
    const Output& o = outputs[n];
    if (o.follows) continue;  // as the scales do
    const double tile = static_cast<double>(o.tile.rows * o.tile.columns);
    const double all = std::floor(static_cast<double>(o.compared_rows * o.columns) / tile);
    const double some =
        static_cast<double>(one_a_scale(o, before_.explained_since(outputs, n)).size());
    if (some < 1.0 || some >= all) continue;
    bits += (std::lgamma(all + 1.0) - std::lgamma(some + 1.0) - std::lgamma(all - some + 1.0)) /
            std::log(2.0);
  }
  return bits;
}

bool Weighing::names(const std::vector<Claim>& claims, const std::vector<Output>& outputs,
                     double family) const {
  double cost = 0.0;
  bool any = false;
  for (const Claim& c : claims) {
    // True as it stands.
    if (c.kind == FindingKind::symptom || c.kind == FindingKind::follows) continue;
    any = true;
    cost += family;
    for (std::size_t n = 0; n < outputs.size(); ++n) {
      const Output& o = outputs[n];
      const bool own = c.where.tensor.find(o.name) != std::string::npos;
      if (!own || c.elements >= static_cast<double>(before_.left(n))) continue;
      cost += bits_of_runs(c.where.rows, o.rows) + bits_of_runs(c.where.columns, o.columns);
    }
  }
  return !any || gain(outputs) - cost >= kCertain;
}

}  // namespace mxo
