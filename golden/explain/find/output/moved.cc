// Rows, parts of rows and runs of short rows that lie somewhere else in an output; rows written at
// another stride.
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastBytes = 16;  ///< of a piece whose bytes are taken as its name
constexpr std::size_t kShort = 32;       ///< bytes of a piece that may be alike by other reasons
constexpr Index kLeastShare = 50;        ///< of the differing elements, one in so many
constexpr std::size_t kMostPlaces = 4;   ///< of one piece: tokens go to several experts
constexpr Index kSegments[] = {128, 64, 32, 16};  ///< columns, kLeastBytes at least
constexpr std::size_t kMostDistances = 4;  ///< of short rows: more are an order, no runs that moved
constexpr Index kMostComparisons = 1 << 26;

/// True for bytes that say little: one element repeated.
bool is_plain(std::string_view bytes, std::size_t size) {
  return std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

/// A few bits of both ends of a piece.
std::size_t mark_of(std::string_view bytes) {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::memcpy(&first, bytes.data(), sizeof first);
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
  const std::uint64_t mixed = (first ^ (last << 23 | last >> 41)) * 0x9E3779B97F4A7C15;
  return static_cast<std::size_t>(mixed >> 32);
}

/// Where pieces of the expected output lie; of those that occur often nobody can tell which it was.
/// Pieces that are like none of those asked for are left out.
class PieceIndex {
 public:
  PieceIndex(const Output& output, Index width, const std::vector<Index>& asked)
      : output_(output), width_(width) {
    const std::size_t size = size_of(output.expected->dtype());
    const std::size_t marks = std::bit_ceil(asked.size() * 16 + 1);
    std::vector<bool> marked(marks);
    for (const Index at : asked)
      marked[mark_of(bytes_of(*output.actual, at, width)) % marks] = true;
    known_.resize(marks);
    for (Index r = 0; r < output.compared_rows; ++r) {
      for (Index c = 0; c + width <= output.columns; c += width) {
        const Index at = r * output.columns + c;
        const std::string_view bytes = bytes_of(*output.expected, at, width);
        const std::size_t mark = mark_of(bytes) % marks;
        if (!marked[mark] || is_plain(bytes, size)) continue;
        known_[mark] = true;
        Places& places = where_[bytes];
        if (places.count < places.at.size()) places.at[places.count++] = at;
      }
    }
  }
  /// The nearest place of the piece that came at `at`, or -1.
  Index source(Index at) const {
    const std::string_view bytes = bytes_of(*output_.actual, at, width_);
    if (!known_[mark_of(bytes) % known_.size()]) return -1;
    const auto found = where_.find(bytes);
    if (found == where_.end() || found->second.count > kMostPlaces) return -1;
    const Places& places = found->second;
    return *std::min_element(
        places.at.begin(), places.at.begin() + static_cast<std::ptrdiff_t>(places.count),
        [at](Index a, Index b) { return std::abs(a - at) < std::abs(b - at); });
  }

 private:
  struct Places {
    std::array<Index, kMostPlaces + 1> at;  ///< one more than can be told apart
    std::size_t count = 0;
  };
  const Output& output_;
  Index width_;
  std::vector<bool> known_;  ///< marks of pieces in `where_`
  std::unordered_map<std::string_view, Places> where_;
};

/// Of pieces that came alike the first: they are one witness.
std::vector<Index> distinct(const Output& output, const std::vector<Index>& pieces, Index width) {
  std::unordered_set<std::string_view> seen;
  std::vector<Index> kept;
  for (const Index at : pieces) {
    if (seen.insert(bytes_of(*output.actual, at, width)).second) kept.push_back(at);
  }
  return kept;
}

/// The cause of `width` elements from each of `pieces` on, which it marks as explained:
/// words(place) follow.
Claim claim_pieces(Output& output, const std::vector<Index>& pieces, Index width, std::string id,
                   const std::function<std::string(const Place&)>& words) {
  std::vector<std::uint8_t> row(static_cast<std::size_t>(output.rows));
  std::vector<std::uint8_t> column(static_cast<std::size_t>(output.columns));
  const Index before = output.left;
  for (const Index at : pieces) {
    nth(row, at / output.columns) = 1;
    for (Index i = at; i < at + width; ++i) {
      nth(column, i % output.columns) = 1;
      output.mark_explained(i);
    }
  }
  const Place place = place_of(output, marked(row), marked(column));
  Claim claim{std::move(id), place.words + words(place), place.where,
              static_cast<double>(before - output.left)};
  claim.yields = true;
  return claim;
}

/// Pieces that hold what is expected `by` elements further on: " hold the rows 4 before them".
Claim claim_shifted(Output& output, const std::vector<Index>& pieces, Index width, Index by) {
  return claim_pieces(output, pieces, width, "rows.shifted", [&](const Place& place) {
    const std::string hold(place.hold());
    if (by % output.columns != 0) return hold + "what is expected " + away(by, "element");
    const Index rows = by / output.columns;
    if (place.one()) return hold + "the row " + away(rows) + " it";
    return std::abs(rows) == 1 ? " each" + hold + "the row " + away(rows)
                               : hold + "the rows " + away(rows) + " them";
  });
}

/// Claims of the pieces of `width` that were found, grouped by source, then by distance.
Claims claims_of_pieces(Output& output, Index width) {
  std::vector<Index> failing;
  for (Index r = 0; r < output.compared_rows; ++r) {
    for (Index c = 0; c + width <= output.columns; c += width) {
      const Index at = r * output.columns + c;
      if (output.differs_in(at, width)) failing.push_back(at);
    }
  }
  const PieceIndex index(output, width, failing);
  std::map<Index, std::vector<Index>> by_distance;
  std::map<Index, std::vector<Index>> by_source;
  std::size_t all = 0;
  for (const Index at : failing) {
    const Index from = index.source(at);
    if (from < 0 || from == at) continue;
    by_distance[from - at].push_back(at);
    by_source[from].push_back(at);
    ++all;
  }
  // A few short pieces among many differences are alike by chance, or follow from another cause.
  const bool few = static_cast<Index>(all) * width * kLeastShare < output.differing;
  if (all == 0 || (width < output.columns && few)) return {};
  const Chance chance(output);
  const auto places = static_cast<std::size_t>(output.compared_rows * (output.columns / width));
  const auto told = [&](const std::vector<Index>& pieces) {
    return chance.tells(distinct(output, pieces, width), width, failing.size(), places);
  };
  std::unordered_set<Index> taken;
  Claims claims;
  const bool small = static_cast<std::size_t>(width) * size_of(output.expected->dtype()) <= kShort;
  // Short pieces of few values are alike for other reasons than chance.
  const auto is_chance = [&](std::size_t found) { return small && found * 2 < failing.size(); };
  for (const auto& [source, pieces] : by_source) {
    if (pieces.size() < 2 || is_chance(pieces.size()) || !told(pieces)) continue;
    taken.insert(pieces.begin(), pieces.end());
    claims.push_back(claim_pieces(output, pieces, width, "rows.repeated",
                                  [&, source = source](const Place& place) {
                                    return (place.one() ? " repeats row " : " repeat row ") +
                                           std::to_string(source / output.columns);
                                  }));
  }
  std::vector<std::pair<Index, std::vector<Index>>> distances(by_distance.begin(),
                                                              by_distance.end());
  std::stable_sort(distances.begin(), distances.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::vector<Index> scattered;
  for (auto& [by, pieces] : distances) {
    std::erase_if(pieces, [&](Index at) { return taken.contains(at); });
    if (distances.size() > 4 && pieces.size() * 8 < all) {
      std::erase_if(pieces, [&](Index at) { return !told({at}); });
      scattered.insert(scattered.end(), pieces.begin(), pieces.end());
    } else if (!pieces.empty() && told(pieces)) {
      claims.push_back(claim_shifted(output, pieces, width, by));
    }
  }
  if (!scattered.empty() && !is_chance(all)) {
    claims.push_back(
        claim_pieces(output, scattered, width, "rows.permuted", [](const Place& place) {
          return std::string(place.hold()) + "other rows of the output, in another order";
        }));
  }
  return claims;
}

/// Rows that came as those `by` rows after them are expected.
struct RowRun {
  Index rows = 0;
  Index by = 0;
};

/// The longest run from `first` on, up to the last row that differs; of equals the nearest.
RowRun longest_run(const Output& o, const std::vector<std::uint8_t>& failing, Index first) {
  RowRun best;
  for (Index from = 0; from < o.compared_rows; ++from) {
    Index last = 0;
    for (Index n = 0; std::max(first, from) + n < o.compared_rows; ++n) {
      if (bytes_of(*o.actual, (first + n) * o.columns, o.columns) !=
          bytes_of(*o.expected, (from + n) * o.columns, o.columns))
        break;
      if (nth(failing, first + n) != 0) last = n + 1;
    }
    const bool nearer = std::abs(from - first) < std::abs(best.by);
    if (last > best.rows || (last == best.rows && nearer)) best = {last, from - first};
  }
  return best;
}

}  // namespace

Claims recover_moved(Output& output) {
  Claims claims;
  const std::size_t row =
      static_cast<std::size_t>(output.columns) * size_of(output.expected->dtype());
  if (output.left == 0 || output.compared_rows < 2) return claims;
  if (row >= kLeastBytes) claims = claims_of_pieces(output, output.columns);
  for (const Index width : kSegments) {
    if (output.left == 0 || width >= output.columns || output.columns % width != 0) continue;
    append(claims, claims_of_pieces(output, width));
  }
  return claims;
}

Claims recover_moved_runs(Output& output) {
  const std::size_t row =
      static_cast<std::size_t>(output.columns) * size_of(output.expected->dtype());
  if (output.left == 0 || row >= kLeastBytes) return {};
  std::vector<std::uint8_t> failing(static_cast<std::size_t>(output.compared_rows));
  for (Index r = 0; r < output.compared_rows; ++r) {
    nth(failing, r) = output.differs_in(r * output.columns, output.columns);
  }
  const Index wrong = std::count(failing.begin(), failing.end(), 1);
  if (wrong * output.compared_rows > kMostComparisons) return {};
  const Chance chance(output);
  std::map<Index, std::vector<Index>> by_distance;
  for (Index r = 0; r < output.compared_rows; ++r) {
    if (nth(failing, r) == 0) continue;
    const RowRun run = longest_run(output, failing, r);
    if (run.rows == 0 || !chance.tells({r * output.columns}, run.rows * output.columns,
                                       static_cast<std::size_t>(wrong),
                                       static_cast<std::size_t>(output.compared_rows)))
      continue;
    for (Index i = 0; i < run.rows; ++i) by_distance[run.by].push_back((r + i) * output.columns);
    r += run.rows - 1;
  }
  if (by_distance.size() > kMostDistances) return {};
  Claims claims;
  for (const auto& [by, pieces] : by_distance) {
    claims.push_back(claim_shifted(output, pieces, output.columns, by * output.columns));
  }
  return claims;
}

Claims recover_stride(Output& output) {
  const Index columns = output.columns;
  const std::size_t size = size_of(output.expected->dtype());
  const auto expected = [&](Index r) { return bytes_of(*output.expected, r * columns, columns); };
  if (output.compared_rows < 3 || static_cast<std::size_t>(columns) * size < kLeastBytes) return {};
  const std::string_view whole = bytes_of(*output.actual, 0, output.expected->elements());
  Index at[3] = {};
  for (const Index r : {1, 2}) {
    if (is_plain(expected(r), size)) return {};
    const auto found = static_cast<const char*>(
        memmem(whole.data(), whole.size(), expected(r).data(), expected(r).size()));
    if (found == nullptr) return {};
    at[r] = (found - whole.data()) / static_cast<Index>(size);
  }
  const Index stride = at[2] - at[1];
  const Index start = at[1] - stride;
  if (stride <= columns || start < 0) return {};
  std::vector<std::uint8_t> placed(output.marks.size());
  for (Index r = 0; r < output.compared_rows; ++r) {
    const Index to = start + r * stride;
    if (to + columns > output.expected->elements()) break;
    if (bytes_of(*output.actual, to, columns) != expected(r)) return {};
    std::fill_n(placed.begin() + to, columns, std::uint8_t{1});
  }
  if (stride % columns == 0) {
    // Where rows lie between them, too, they are in another order, some rows apart by chance.
    std::unordered_set<std::string_view> rows;
    for (Index r = 0; r < output.compared_rows; ++r) rows.insert(expected(r));
    for (Index r = 0; r < output.compared_rows; ++r) {
      const std::string_view here = bytes_of(*output.actual, r * columns, columns);
      const bool own = nth(placed, r * columns) != 0;
      if (!own && !is_plain(here, size) && rows.contains(here)) return {};
    }
  }
  // What lies between the rows, and the rows that found no room, follow from the stride.
  return claim_all(output, {"rows.stride", FindingKind::cause, true},
                   "rows of " + output.name + " are written " + std::to_string(stride) +
                       " elements apart rather than " + std::to_string(columns));
}

}  // namespace mxo
