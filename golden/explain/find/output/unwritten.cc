// Parts of an output that no one wrote: runs of one bit pattern.
#include <map>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/claims.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr std::uint64_t kAnyNan = ~std::uint64_t{0};  ///< all NaNs of a type are one fill
constexpr Index kLeastElements = 8;                   ///< of a fill
constexpr Index kLeastOutput = 16;                    ///< elements of an output
constexpr Index kLeastDown = 16;                      ///< rows, and a fourth of them

/// Zeros and NaN; any other fill may have been computed, too, and has to stand alone.
bool is_plain(std::uint64_t fill) { return fill == 0 || fill == kAnyNan; }

/// What a run of one bit pattern is called.
struct Fill {
  const char* id;
  std::string words;
};
Fill described(Dtype dtype, std::uint64_t fill) {
  if (fill == kAnyNan) return {"never_written.nan", "NaN: never written, or computed so"};
  if (fill == 0) return {"never_written.zero", "zeros: never written, cleared, or computed so"};
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string bits = "0x";
  for (int i = static_cast<int>(size_of(dtype)) * 2 - 1; i >= 0; --i) {
    bits += kHex[fill >> (4 * i) & 15];
  }
  const ElementReader read(dtype);
  if (read(fill).infinite)
    return {"constant.infinite",
            bits + ": overflow, a division by zero, or the fill of the buffer"};
  const Element next = read(fill + 1);
  if (next.nan || next.infinite)
    return {"constant.largest",
            bits + ": the largest number, saturated, or the fill of the buffer"};
  return {"constant.fill",
          bits + ": the fill of the buffer, never written, or one value for all of them"};
}

/// Elements of runs, by fill.
using Runs = std::map<std::uint64_t, std::vector<Index>>;

/// The run that goes on along one row or down one column, elements `step` apart.
class Run {
 public:
  /// Neighbours that must hold a fill before it is believed: short runs of one code are common.
  Run(const Output& output, Index step, Index least)
      : output_(&output), step_(step), least_(least) {}
  void take(Index i, std::uint64_t fill, Runs& found) {
    if (length_ == 0 || fill != fill_) {
      close(found);
      first_ = i;
      fill_ = fill;
      wanted_ = output_->expected_bits(i);
    }
    ++length_;
    wrong_ += output_->differs(i);
    varied_ = varied_ || output_->expected_bits(i) != wanted_;
  }
  void close(Runs& found) {
    if (length_ >= least_ && wrong_ * 2 > length_ && (varied_ || is_plain(fill_))) {
      for (Index n = 0; n < length_; ++n) {
        const Index i = first_ + n * step_;
        if (output_->differs(i)) found[fill_].push_back(i);
      }
    }
    length_ = wrong_ = 0;
    varied_ = false;
  }

 private:
  const Output* output_;
  Index step_;
  Index least_;
  Index first_ = 0;
  Index length_ = 0;
  Index wrong_ = 0;
  std::uint64_t fill_ = 0;
  std::uint64_t wanted_ = 0;  ///< where it begins
  bool varied_ = false;       ///< not all of it should be the same
};

}  // namespace

Claims recover_unwritten(Output& output) {
  if (output.left == 0 || output.expected->elements() < kLeastOutput) return {};
  const Dtype dtype = output.expected->dtype();
  const ElementReader read(dtype);
  const auto fill_of = [&](Index i) {
    const std::uint64_t bits = output.actual_bits(i);
    const Element e = read(bits);
    // Zeros of either sign; codes of eight bits are zero by their scale, too.
    const bool zero = e.value == 0.0 && is_wide_float(dtype);
    return e.nan ? kAnyNan : zero ? 0 : bits;
  };
  Runs found;
  const Index least = std::min<Index>(size_of(dtype) == 1 ? 16 : 8, output.columns);
  const Index least_down = std::max(kLeastDown, output.compared_rows / 4);
  std::vector<Run> down;
  if (output.compared_rows >= kLeastDown) {
    down.assign(static_cast<std::size_t>(output.columns), Run(output, output.columns, least_down));
  }
  for (Index r = 0; r < output.compared_rows; ++r) {
    const Index first = r * output.columns;
    const bool fails = output.differs_in(first, output.columns);
    if (!fails && down.empty()) continue;
    Run along(output, 1, least);
    for (Index i = first; i < first + output.columns; ++i) {
      const std::uint64_t fill = fill_of(i);
      if (fails) along.take(i, fill, found);
      if (!down.empty()) nth(down, i - first).take(i, fill, found);
    }
    along.close(found);
  }
  for (Run& column : down) column.close(found);
  std::map<std::uint64_t, std::size_t> everywhere;
  for (Index i = 0; i < output.compared_rows * output.columns; ++i) {
    if (output.differs(i) && found.contains(fill_of(i))) ++everywhere[fill_of(i)];
  }
  Claims claims;
  for (auto& [fill, elements] : found) {
    std::sort(elements.begin(), elements.end());
    elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
    // Among many scattered ones a few are neighbours by chance; many scales are the same.
    if (elements.size() * 2 < everywhere[fill] || elements.size() < kLeastElements) continue;
    if (!is_plain(fill) && size_of(dtype) == 1 && output.name.ends_with("scales")) continue;
    // What came for one value that is expected was computed so.
    const auto is_filled = [&all = elements](Index i) {
      return std::binary_search(all.begin(), all.end(), i);
    };
    if (fill != 0 && !are_of_several_values(output, is_filled, 2)) continue;
    const Fill said = described(dtype, fill);
    append(claims,
           claim_where(
               output, {said.id, FindingKind::symptom, true}, is_filled,
               [&, fill = fill](const Place& place) {
                 // Of a place that holds other values, too, elements are counted.
                 const bool all = std::all_of(place.rows.begin(), place.rows.end(), [&](Index r) {
                   return std::all_of(place.columns.begin(), place.columns.end(), [&](Index c) {
                     return fill_of(r * output.columns + c) == fill;
                   });
                 });
                 return all ? place.words + std::string(place.hold()) + said.words
                            : std::to_string(place.elements) + " elements in " + place.words +
                                  " hold " + said.words;
               }));
  }
  return claims;
}

}  // namespace mxo
