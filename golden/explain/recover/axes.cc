// The axes of a tensor in another order, recovered bit by bit of the index of its elements.
#include <algorithm>
#include <bit>
#include <numeric>

#include "formats/scale_layout.h"
#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

constexpr Index kMostTrials = 1 << 20;  ///< elements that are looked at before it is given up
constexpr Index kMostElements = Index{1} << 20;  ///< of a tensor: scales, not codes
constexpr Index kLeast = 16;  ///< elements that differ: fewer fit some order by chance

/// Bit b of the index of an element is bit source[b] of the index it came from.
using Bits = std::vector<int>;

/// Units of as many elements, a power of two, in each of which the same order is looked for.
class Search {
 public:
  Search(const Output& output, Index unit) : o_(output) {
    for (Index at = 0; at + unit <= o_.owed * o_.columns; at += unit) {
      if (o_.differs_in(at, unit)) units_.push_back(at);
    }
    from_.assign(static_cast<std::size_t>(unit), 0);
    taken_.assign(static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(unit))), 0);
  }
  bool found() { return holds(0, 1) && fits(0); }
  const Bits& bits() const { return bits_; }

 private:
  /// Whether elements [first, end) of every unit come from where `from_` says.
  bool holds(Index first, Index end) {
    for (Index i = first; i < end; ++i) {
      for (const Index at : units_) {
        ++trials_;
        if (o_.came(at + i) != o_.wanted(at + from_[static_cast<std::size_t>(i)])) return false;
      }
    }
    return true;
  }
  bool fits(std::size_t bit) {
    if (bit == taken_.size()) return true;
    const Index half = Index{1} << bit;
    // Its own place first: what cannot be told apart moved no further than it must.
    for (std::size_t n = 0; n < taken_.size(); ++n) {
      const std::size_t b = n == 0 ? bit : n <= bit ? n - 1 : n;
      if (taken_[b] || trials_ > kMostTrials) continue;
      for (Index i = 0; i < half; ++i) {
        from_[static_cast<std::size_t>(half + i)] =
            from_[static_cast<std::size_t>(i)] | (Index{1} << b);
      }
      if (!holds(half, 2 * half)) continue;
      taken_[b] = 1;
      bits_.push_back(static_cast<int>(b));
      if (fits(bit + 1)) return true;
      bits_.pop_back();
      taken_[b] = 0;
    }
    return false;
  }

  const Output& o_;
  std::vector<Index> units_;
  std::vector<Index> from_;
  std::vector<std::uint8_t> taken_;
  Bits bits_;
  Index trials_ = 0;
};

/// "[4, 32, 4] with its axes in the order 1, 0, 2": runs of bits that stay together are axes.
std::string words_of(const Bits& bits) {
  struct Axis {
    int source;
    int length;
  };
  std::vector<Axis> axes;  // as they are written, innermost first
  for (const int b : bits) {
    if (!axes.empty() && axes.back().source + axes.back().length == b) {
      ++axes.back().length;
    } else {
      axes.push_back({b, 1});
    }
  }
  std::vector<Axis> given = axes;
  std::sort(given.begin(), given.end(),
            [](const Axis& a, const Axis& b) { return a.source > b.source; });
  std::string shape;
  for (const Axis& a : given)
    shape += (shape.empty() ? "[" : ", ") + std::to_string(Index{1} << a.length);
  std::string order;
  for (auto a = axes.rbegin(); a != axes.rend(); ++a) {
    const auto at = std::find_if(given.begin(), given.end(),
                                 [&](const Axis& g) { return g.source == a->source; });
    order += (order.empty() ? "" : ", ") + std::to_string(at - given.begin());
  }
  return shape + "] with its axes in the order " + order;
}

}  // namespace

std::vector<Claim> recover_axes(Output& output) {
  const Index n = output.owed * output.columns;
  if (output.left < kLeast || output.left != output.differing || n > kMostElements) return {};
  for (const Index unit : {n, kTileBytes}) {
    if (!std::has_single_bit(static_cast<std::uint64_t>(unit)) || n % unit != 0) continue;
    Search search(output, unit);
    if (!search.found()) continue;
    const Place place = place_of(output, [&](Index i) {
      return output.marks[static_cast<std::size_t>(i)] == Mark::differs;
    });
    Claim claim;
    claim.id = "order.axes";
    claim.sentence = (unit == n ? output.name + ": it is written" : "tiles of 512 are written");
    claim.sentence += " as " + words_of(search.bits());
    if (unit != n) claim.sentence += ", in " + place.words;
    claim.where = place.where;
    claim.elements = static_cast<double>(output.left);
    for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
    return {claim};
  }
  return {};
}

}  // namespace mxo
