// Rows, parts of rows and runs of short rows that lie somewhere else in an output; rows written at
// another stride.
#include <bit>
#include <iterator>
#include <unordered_set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastBytes = 16;  ///< of a piece whose bytes are taken as its name
constexpr std::size_t kShort = 32;       ///< bytes of a piece that may be alike by other reasons
constexpr Index kLeastShare = 50;        ///< of the differing elements, one in so many
constexpr Index kSampledPieces = 4096;   ///< pieces of a row of which some were found, if any are
constexpr std::size_t kMostPlaces = 4;   ///< of one piece: tokens go to several experts
constexpr Index kSegments[] = {128, 64, 32, 16};  ///< columns, kLeastBytes at least
constexpr std::size_t kMostDistances = 4;         ///< more are an order, no runs that moved
constexpr Index kMostComparisons = 1 << 26;
constexpr Index kLeastOverlapping = 24;  ///< elements of rows written one over the other

/// True for bytes that say little: one element repeated.
bool is_plain(std::string_view bytes, std::size_t size) {
  return std::memcmp(bytes.data(), bytes.data() + size, bytes.size() - size) == 0;
}

/// Pieces of an output, side by side in its rows.
std::vector<Index> pieces_of(const Output& output, Index width) {
  std::vector<Index> found;
  for (Index r = 0; r < output.compared_rows; ++r)
    for (Index c = 0; c + width <= output.columns; c += width)
      found.push_back(r * output.columns + c);
  return found;
}

/// Where pieces of the expected output lie, of those that may have come in `failing`; of those that
/// occur often nobody can tell which it was.
class PieceIndex {
 public:
  PieceIndex(const Output& output, Index width, const std::vector<Index>& pieces,
             const std::vector<Index>& failing)
      : output_(output), width_(width) {
    constexpr std::hash<std::string_view> kHash;
    // By hash: what no one asks for is not kept.
    std::vector<bool> came(std::bit_ceil(16 * failing.size() + 1));
    for (const Index at : failing)
      came[kHash(bytes_of(*output.actual, at, width)) % came.size()] = true;
    for (const Index at : pieces) {
      const std::string_view bytes = bytes_of(*output.expected, at, width);
      const std::size_t hash = kHash(bytes);
      if (came[hash % came.size()] && !is_plain(bytes, size_of(output.expected->dtype())))
        places_.emplace_back(hash, at);
    }
    std::ranges::sort(places_);
  }
  /// The places of the piece that came at `at`.
  std::vector<Index> sources(Index at) const {
    const std::string_view bytes = bytes_of(*output_.actual, at, width_);
    std::vector<Index> found;
    const std::size_t hash = std::hash<std::string_view>{}(bytes);
    for (auto at_hash = std::ranges::lower_bound(places_, hash, {}, &Hashed::first);
         at_hash != places_.end() && at_hash->first == hash; ++at_hash) {
      const Index from = at_hash->second;
      if (bytes_of(*output_.expected, from, width_) != bytes) continue;
      if (found.size() == kMostPlaces) return {};
      found.push_back(from);
    }
    return found;
  }

 private:
  using Hashed = std::pair<std::size_t, Index>;  ///< the hash of the bytes, and where they lie
  const Output& output_;
  Index width_;
  std::vector<Hashed> places_;
};

/// Of pieces that came alike the first: they are one witness.
std::vector<Index> distinct(const Output& output, const std::vector<Index>& pieces, Index width) {
  std::unordered_set<std::string_view> seen;
  std::vector<Index> kept;
  for (const Index at : pieces)
    if (seen.insert(bytes_of(*output.actual, at, width)).second) kept.push_back(at);
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
  const Index elements = std::ssize(pieces) * width;
  const bool dense = elements == std::ssize(place.rows) * std::ssize(place.columns);
  Claim claim{
      std::move(id),
      (dense ? "" : std::to_string(elements) + " elements in ") + place.words + words(place),
      place.where, static_cast<double>(before - output.left)};
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
  const std::vector<Index> pieces = pieces_of(output, width);
  std::vector<Index> failing = pieces;
  std::erase_if(failing, [&](Index at) { return !output.differs_in(at, width); });
  const std::vector<Index> sample = evenly_spread(failing, kSampledPieces);
  if (width < output.columns && sample.size() < failing.size()) {
    const PieceIndex few(output, width, pieces, sample);
    if (std::ranges::all_of(sample, [&](Index at) { return few.sources(at).empty(); })) return {};
  }
  const PieceIndex index(output, width, pieces, failing);
  std::map<Index, Index> votes;  // of distances, by every place that a piece may come from
  std::vector<std::pair<Index, std::vector<Index>>> sources;
  for (const Index at : failing) {
    sources.emplace_back(at, index.sources(at));
    for (const Index from : sources.back().second) ++votes[from - at];
  }
  std::map<Index, std::vector<Index>> by_distance;
  std::map<Index, std::vector<Index>> by_source;
  std::unordered_map<Index, Index> chosen;  // where each comes from
  for (const auto& [at, places] : sources) {
    // At the distance that most pieces may share, the nearest of those that are as common.
    const auto rank = [&, at = at](Index from) {
      return std::pair(-votes[from - at], std::abs(from - at));
    };
    const auto best = std::ranges::min_element(places, {}, rank);
    if (best == places.end() || *best == at) continue;
    const Index from = *best;
    by_distance[from - at].push_back(at);
    by_source[from].push_back(at);
    chosen[at] = from;
  }
  const std::size_t all = chosen.size();
  // A few short pieces among many differences are alike by chance, or follow from another cause.
  const bool few = static_cast<Index>(all) * width * kLeastShare < output.differing;
  if (all == 0 || (width < output.columns && few)) return {};
  const Chance chance(output);
  const bool small = static_cast<std::size_t>(width) * size_of(output.expected->dtype()) <= kShort;
  // Short pieces of few values are alike for other reasons than chance.
  const auto is_chance = [&](std::size_t found) { return small && found * 2 < failing.size(); };
  // Rows of a product over one row are multiples of one another: that one came as another, or as
  // one of those beside that, is one number, and no witness.
  const Index end = compared(output);
  const auto is_one_number = [&](Index at) {
    const Index from = chosen.at(at);
    return std::ranges::any_of(
        std::array{at, from - output.columns, from + output.columns}, [&](Index of) {
          return of >= 0 && of + width <= end &&
                 is_multiple({*output.actual, at}, {*output.expected, of}, width);
        });
  };
  const auto told = [&](std::vector<Index> some) {
    std::erase_if(some, is_one_number);
    return !some.empty() &&
           chance.tells(distinct(output, some, width), width, failing.size(), pieces.size());
  };
  std::unordered_set<Index> taken;
  Claims claims;
  for (auto& [source, some] : by_source) {
    // What most of them share is how far they moved.
    std::erase_if(some, [&, source = source](Index at) {
      return by_distance.at(source - at).size() * 2 > all;
    });
    // As often as it is expected it was not repeated.
    const bool repeats = !some.empty() && some.size() > index.sources(some.front()).size();
    if (!repeats || some.size() < 2 || is_chance(some.size()) || !told(some)) continue;
    taken.insert(some.begin(), some.end());
    claims.push_back(claim_pieces(output, some, width, "rows.repeated",
                                  [&, source = source](const Place& place) {
                                    return (place.one() ? " repeats row " : " repeat row ") +
                                           std::to_string(source / output.columns);
                                  }));
  }
  std::vector<std::pair<Index, std::vector<Index>>> distances(by_distance.begin(),
                                                              by_distance.end());
  std::ranges::stable_sort(distances, std::greater{},
                           [](const auto& entry) { return entry.second.size(); });
  // Where no distance is that of most, those that rows share are of an order of all of them.
  const bool none = distances.front().second.size() * 2 < all;
  std::vector<Index> scattered;
  for (auto& [by, some] : distances) {
    std::erase_if(some, [&](Index at) { return taken.contains(at); });
    if (none || (distances.size() > kMostDistances && some.size() * 8 < all)) {
      std::ranges::copy_if(some, std::back_inserter(scattered),
                           [&](Index at) { return told({at}); });
    } else if (told(some)) {
      claims.push_back(claim_shifted(output, some, width, by));
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

/// The longest run from `first` on, up to the last row of its group that differs; of equals the
/// nearest.
RowRun longest_run(const Lines& rows, const std::vector<Index>& failing, Index first) {
  RowRun best;
  const auto next = std::ranges::upper_bound(rows.o.ends, first);
  const Index end = next == rows.o.ends.end() ? rows.count() : std::min(*next, rows.count());
  for (Index from = 0; from < rows.count(); ++from) {
    Index n = 0;
    while (first + n < end && from + n < rows.count() && rows.came_as(first + n, from + n)) ++n;
    if (n == 0) continue;
    n = *std::prev(std::ranges::lower_bound(failing, first + n)) + 1 - first;
    const bool nearer = std::abs(from - first) < std::abs(best.by);
    if (n > best.rows || (n == best.rows && nearer)) best = {n, from - first};
  }
  return best;
}

bool are_short(const Output& o) {
  return static_cast<std::size_t>(o.columns) * size_of(o.expected->dtype()) < kLeastBytes;
}

/// Rows that begin so many elements apart that each is written over the end of the one before: up
/// to the end of the last row every element is the last that was written there.
Claims claim_overlapping(Output& output) {
  const Index columns = output.columns;
  const Index rows = output.compared_rows;
  if (!is_unexplained(output, kLeastOverlapping)) return {};
  Index compared_so_far = 0;
  Index first = 0;  // of the first row, what came as expected
  while (first < columns && output.actual_bits(first) == output.expected_bits(first)) ++first;
  const Index most = std::min(first, columns - 1);
  for (Index stride = 1; stride <= most && compared_so_far < kMostComparisons; ++stride) {
    const Index end = (rows - 1) * stride + columns;
    Index told = 0;
    Index i = stride;
    for (; i < end; ++i) {
      const Index row = std::min(i / stride, rows - 1);
      if (output.actual_bits(i) != output.expected_bits(row * columns + i - row * stride)) break;
      told += output.differs(i);
    }
    compared_so_far += i - stride;
    // What was written behind them is right in part only by chance.
    const bool old = 2 * (output.left - told) >= compared(output) - end;
    if (i < end || told < kLeastOverlapping || !old) continue;
    return claim_all(output, {"rows.stride", FindingKind::cause, true},
                     filled("rows of {} are written {} apart rather than {}, each over the end of "
                            "the one before; what lies behind the last, from element {} on, is "
                            "none of them",
                            output.name, counted(stride, "element"), columns, end));
  }
  return {};
}

}  // namespace

Claims recover_moved(Output& output) {
  Claims claims;
  if (output.left == 0 || output.compared_rows < 2) return claims;
  if (!are_short(output)) claims = claims_of_pieces(output, output.columns);
  for (const Index width : kSegments)
    if (output.left > 0 && width < output.columns && output.columns % width == 0)
      append(claims, claims_of_pieces(output, width));
  return claims;
}

Claims recover_moved_runs(Output& output) {
  if (output.left == 0 || !are_short(output)) return {};
  const Lines rows{output};
  const std::vector<Index> failing = rows.failing();
  const auto wrong = static_cast<Index>(failing.size());
  if (wrong * rows.count() > kMostComparisons) return {};
  const Chance chance(output);
  std::map<Index, std::vector<Index>> by_distance;
  Index end = 0;  // of the last run
  for (const Index r : failing) {
    if (r < end) continue;
    const RowRun run = longest_run(rows, failing, r);
    const Index elements = run.rows * output.columns;
    if (elements < 2 ||
        is_plain(bytes_of(*output.actual, r * output.columns, elements),
                 size_of(output.expected->dtype())) ||
        !chance.tells({r * output.columns}, elements, failing.size(),
                      static_cast<std::size_t>(rows.count())))
      continue;
    end = r + run.rows;
    for (Index i = r; i < end; ++i) by_distance[run.by].push_back(i * output.columns);
  }
  if (by_distance.size() > kMostDistances) return {};
  Claims claims;
  for (const auto& [by, pieces] : by_distance)
    claims.push_back(claim_shifted(output, pieces, output.columns, by * output.columns));
  return claims;
}

Claims recover_stride(Output& output) {
  const Index columns = output.columns;
  const std::size_t size = size_of(output.expected->dtype());
  const auto expected = [&](Index r) { return bytes_of(*output.expected, r * columns, columns); };
  if (output.compared_rows < 3 || are_short(output)) return {};
  if (Claims claims = claim_overlapping(output); !claims.empty()) return claims;
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
  Index end = start;  // of the last row that is there
  for (Index r = 0; r < output.compared_rows; ++r) {
    const Index to = start + r * stride;
    if (to + columns > output.expected->elements()) break;
    if (bytes_of(*output.actual, to, columns) != expected(r)) return {};
    end = to + columns;
  }
  bool others = false;  // between them, and perhaps computed
  if (stride % columns == 0) {
    // Where rows lie between them, too, they are in another order, some rows apart by chance.
    std::unordered_set<std::string_view> rows;
    for (Index r = 0; r < output.compared_rows; ++r) rows.insert(expected(r));
    for (Index i = 0; i < compared(output); i += columns) {
      const std::string_view here = bytes_of(*output.actual, i, columns);
      const bool own = i >= start && i < end && (i - start) % stride < columns;
      if (own || is_plain(here, size)) continue;
      if (rows.contains(here)) return {};
      others = true;
    }
  }
  // What lies between the rows, and the rows that found no room, follow from the stride, but for
  // whole rows that may have been computed.
  const bool whole_rows = stride % columns == 0;
  return claim_all(output, {"rows.stride", others ? FindingKind::look : FindingKind::cause, true},
                   filled("rows of {} {} {} elements apart rather than {}{}", output.name,
                          whole_rows ? "lie" : "are written", stride, columns,
                          whole_rows ? ", and what lies between them is no row" : ""));
}

}  // namespace mxo
