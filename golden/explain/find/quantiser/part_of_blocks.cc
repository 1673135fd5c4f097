// Codes of a part of the blocks that follow from no scale: not scaled, or of an amax of their own.
#include <limits>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser_call.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastCodes = 32;       ///< that no scale gives
constexpr Index kLeastInPart = 8;             ///< elements that have an amax of their own
constexpr Index kMostCodes = Index{1} << 24;  ///< that are looked at

/// Whether made(i) is the code that came of every element that `in` holds.
template <typename In, typename Make>
bool gives_all(const QuantiserCall& q, const In& in, const Make& made) {
  for (Index i = 0; i < q.codes.compared_rows * q.codes.columns; ++i) {
    if (in(i) && made(i) != q.codes.actual_bits(i)) return false;
  }
  return true;
}

/// Of rows or columns of a block those from `first` to `end`.
struct Range {
  Index first = std::numeric_limits<Index>::max();
  Index end = 0;
  void take(Index at) {
    first = std::min(first, at);
    end = std::max(end, at + 1);
  }
  bool holds(Index at) const { return at >= first && at < end; }
  bool is_all_of(Index extent) const { return first == 0 && end == extent; }
  /// The same, out to multiples of a step.
  Range widened(Index step, Index extent) const {
    return {first / step * step, std::min(round_up(end, step), extent)};
  }
};

/// Where codes are that the rule asked for does not make under the scales that came.
struct Astray {
  explicit Astray(const QuantiserCall& q)
      : b(q.blocks), places(places_of(b)), blocks(q.amax.size()) {
    std::vector<float> factors;
    for (Index i = 0; i < q.codes.compared_rows * q.codes.columns; ++i) {
      const Index s = b.scale_of(i);
      if (s < 0) continue;
      if (column_of(i) == 0) factors = q.own->factors(*q.scales.actual, s, q.amax_of(s));
      const float x = b.value(i);
      const auto gives = [&](float f) { return q.own->code(x, f) == q.codes.actual_bits(i); };
      if (!std::isfinite(x) || std::any_of(factors.begin(), factors.end(), gives)) continue;
      nth(blocks, s) = 1;
      ++elements;
      rows.take(row_of(i));
      columns.take(column_of(i));
    }
  }
  /// Of its block, which has a scale.
  Index row_of(Index i) const { return i / b.columns - nth(places, b.scale_of(i)).row; }
  Index column_of(Index i) const { return i % b.columns % b.block_columns; }

  const Blocks& b;
  const std::vector<BlockPlace> places;
  std::vector<std::uint8_t> blocks;
  std::size_t elements = 0;
  Range rows;
  Range columns;
};

/// The amax of each part of each block, of elements that are in.
class PartAmax {
 public:
  using Part = std::function<Index(Index i)>;  ///< the number of the part of its block

  PartAmax(const QuantiserCall& q, Index parts, const Holds& in, Part part)
      : blocks_(q.blocks), parts_(parts), part_(std::move(part)) {
    most_.resize(q.amax.size() * static_cast<std::size_t>(parts));
    for (Index i = 0; i < q.codes.compared_rows * q.codes.columns; ++i) {
      if (!in(i)) continue;
      float& most = nth(most_, at(i));
      most = std::max(most, std::fabs(blocks_.value(i)));
    }
  }
  float of(Index i) const { return nth(most_, at(i)); }

 private:
  Index at(Index i) const { return blocks_.scale_of(i) * parts_ + part_(i); }

  const Blocks& blocks_;
  Index parts_;
  Part part_;
  std::vector<float> most_;
};

}  // namespace

std::optional<Claim> claim_part_of_blocks(Output& codes, const QuantiserCall& q) {
  if (!q.own || codes.follows || codes.compared_rows * codes.columns > kMostCodes)
    return std::nullopt;
  const Astray astray(q);
  const Blocks& b = q.blocks;
  if (astray.elements < kLeastCodes) return std::nullopt;
  const auto claim = [&](const InPlace& sentence) {
    Claims claims = claim_place(codes, {"codes.part"}, sentence);
    return claims.empty() ? std::nullopt : std::optional(std::move(claims.front()));
  };
  const auto in_block = [&](Index i) {
    const Index s = b.scale_of(i);
    return s >= 0 && nth(astray.blocks, s) != 0;
  };
  if (gives_all(q, in_block, [&](Index i) { return q.own->code(b.value(i), 1.0f); })) {
    return claim([](const Place& place) {
      return place.words + ": codes are those of x itself, not scaled";
    });
  }
  const Index height = std::ranges::max(astray.places, {}, &BlockPlace::rows).rows;
  for (const bool by_rows : {true, false}) {
    const Index extent = by_rows ? height : b.block_columns;
    const Index across = by_rows ? b.block_columns : height;
    const bool whole = (by_rows ? astray.columns : astray.rows).is_all_of(across);
    const auto at = [&](Index i) { return by_rows ? astray.row_of(i) : astray.column_of(i); };
    // The largest part of a block that its codes tell: a half, a fourth, ..; or every such part.
    for (Index step = ceil_div(extent, 2); step < extent && step * across >= kLeastInPart;
         step = step == 1 ? 0 : ceil_div(step, 2)) {
      const Range part = (by_rows ? astray.rows : astray.columns).widened(step, extent);
      for (const bool every : {false, true}) {
        if (!every && (!whole || part.is_all_of(extent))) continue;
        const auto in = [&](Index i) { return b.scale_of(i) >= 0 && (every || part.holds(at(i))); };
        const PartAmax amax(q, ceil_div(extent, step), in,
                            [&](Index i) { return every ? at(i) / step : 0; });
        if (!gives_all(q, in,
                       [&](Index i) { return q.own->code(b.value(i), q.own->factor(amax.of(i))); }))
          continue;
        const char* lines = by_rows ? "row" : "column";
        return claim([&](const Place&) {
          return "codes of " +
                 (every ? step == 1 ? filled("each {}", lines) : "every " + counted(step, lines)
                        : filled("{}s {} to {}", lines, part.first, part.end - 1)) +
                 " of each block are made with the amax of these alone, and the scale is another";
        });
      }
    }
  }
  return std::nullopt;
}

}  // namespace mxo
