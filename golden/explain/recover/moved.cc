// Rows and tiles of an output that lie somewhere else in it.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "golden/explain/score.h"
#include "golden/explain/recover/pieces.h"
#include "golden/explain/recover/recover.h"

namespace mxo {
namespace {

constexpr std::size_t kLeastBytes = 16;           ///< of a piece whose bytes are taken as its name
constexpr std::size_t kShort = 32;                ///< bytes of a piece
constexpr Index kLeastShare = 50;                 ///< of the differing elements, one in so many
constexpr std::size_t kMostPlaces = 4;            ///< of one piece: tokens go to several experts
constexpr Index kSegments[] = {128, 64, 32, 16};  ///< columns, kLeastBytes at least

std::string_view piece(const Tensor& t, Index at, Index elements) {
  const std::size_t size = size_of(t.dtype());
  return {reinterpret_cast<const char*>(t.data()) + static_cast<std::size_t>(at) * size,
          static_cast<std::size_t>(elements) * size};
}

/// True for bytes that say little: one element repeated.
bool plain(std::string_view bytes, std::size_t size) {
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

/// Of one piece; one more than can be told apart.
struct Places {
  std::array<Index, kMostPlaces + 1> at;
  std::size_t count = 0;
};

/// Where pieces of the expected output lie; of those that occur often nobody can tell which it was.
/// Pieces that are like none of those asked for are left out.
class Index_of_pieces {
 public:
  Index_of_pieces(const Output& output, Index width, const std::vector<Index>& asked)
      : width_(width) {
    const std::size_t size = size_of(output.expected->dtype());
    const std::size_t marks = std::bit_ceil(asked.size() * 16 + 1);
    std::vector<bool> marked(marks);
    for (const Index at : asked) marked[mark_of(piece(*output.actual, at, width)) % marks] = true;
    known_.resize(marks);
    for (Index r = 0; r < output.owed; ++r) {
      for (Index c = 0; c + width <= output.columns; c += width) {
        const Index at = r * output.columns + c;
        const std::string_view bytes = piece(*output.expected, at, width);
        const std::size_t mark = mark_of(bytes) % marks;
        if (!marked[mark] || plain(bytes, size)) continue;
        known_[mark] = true;
        Places& places = where_[bytes];
        if (places.count < places.at.size()) places.at[places.count++] = at;
      }
    }
  }
  /// The nearest place of the piece that came at `at`, or -1.
  Index source(const Output& output, Index at) const {
    const std::string_view bytes = piece(*output.actual, at, width_);
    if (!known_[mark_of(bytes) % known_.size()]) return -1;
    const auto found = where_.find(bytes);
    if (found == where_.end() || found->second.count > kMostPlaces) return -1;
    const Places& places = found->second;
    return *std::min_element(
        places.at.begin(), places.at.begin() + static_cast<std::ptrdiff_t>(places.count),
        [at](Index a, Index b) { return std::abs(a - at) < std::abs(b - at); });
  }

 private:
  Index width_;
  std::vector<bool> known_;  ///< marks of pieces in `where_`
  std::unordered_map<std::string_view, Places> where_;
};

/// Claims of the pieces of `width` that were found, grouped by distance, then by source.
std::vector<Claim> claims_of(Output& output, Index width) {
  std::vector<Index> failing;
  for (Index r = 0; r < output.owed; ++r) {
    for (Index c = 0; c + width <= output.columns; c += width) {
      const Index at = r * output.columns + c;
      if (output.differs_in(at, width)) failing.push_back(at);
    }
  }
  const Index_of_pieces index(output, width, failing);
  std::map<Index, std::vector<Index>> by_distance;
  std::map<Index, std::vector<Index>> by_source;
  std::vector<Index> all;
  for (const Index at : failing) {
    const Index from = index.source(output, at);
    if (from < 0 || from == at) continue;
    by_distance[from - at].push_back(at);
    by_source[from].push_back(at);
    all.push_back(at);
  }
  std::vector<Claim> claims;
  // A few short pieces among many differences are alike by chance, or follow from another cause.
  const bool few = static_cast<Index>(all.size()) * width * kLeastShare < output.differing;
  if (all.empty() || (width < output.columns && few)) return claims;
  const Chance chance(output);
  const auto places = static_cast<std::size_t>(output.owed * (output.columns / width));
  const auto told = [&](const std::vector<Index>& pieces) {
    return chance.tells(pieces, width, failing.size(), places);
  };
  std::vector<Index> claimed;
  std::vector<std::uint8_t> taken(output.marks.size());
  const auto fresh = [&](const std::vector<Index>& pieces) {
    std::vector<Index> kept;
    for (const Index at : pieces) {
      if (!taken[static_cast<std::size_t>(at)]) kept.push_back(at);
    }
    for (const Index at : kept) taken[static_cast<std::size_t>(at)] = 1;
    return kept;
  };
  for (const auto& [source, pieces] : by_source) {
    if (pieces.size() < 2) continue;
    // Short pieces of few values are alike for other reasons than chance.
    const bool small =
        static_cast<std::size_t>(width) * size_of(output.expected->dtype()) <= kShort;
    if (small && pieces.size() * 2 < failing.size()) continue;
    if (!told(pieces)) continue;
    const std::vector<Index> kept = fresh(pieces);
    claimed.insert(claimed.end(), kept.begin(), kept.end());
    claims.push_back(claim_of_pieces(output, kept, width, "rows.repeated",
                                     [&, source = source](const Place& place) {
                                       return (place.one() ? " repeats row " : " repeat row ") +
                                              std::to_string(source / output.columns);
                                     }));
  }
  std::vector<Index> scattered;
  std::vector<std::pair<Index, std::vector<Index>>> distances(by_distance.begin(),
                                                              by_distance.end());
  std::stable_sort(distances.begin(), distances.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  for (const auto& [by, pieces] : distances) {
    const std::vector<Index> kept = fresh(pieces);
    if (kept.empty()) continue;
    if (distances.size() > 4 && kept.size() * 8 < all.size()) {
      std::copy_if(kept.begin(), kept.end(), std::back_inserter(scattered),
                   [&](Index at) { return told({at}); });
      continue;
    }
    if (!told(kept)) continue;
    claimed.insert(claimed.end(), kept.begin(), kept.end());
    claims.push_back(claim_of_pieces(
        output, kept, width, "rows.shifted",
        [&, by = by](const Place& place) { return distance_in_words(output, by, place); }));
  }
  if (!scattered.empty()) {
    claimed.insert(claimed.end(), scattered.begin(), scattered.end());
    claims.push_back(
        claim_of_pieces(output, scattered, width, "rows.permuted", [](const Place& place) {
          return std::string(place.hold()) + "other rows of the output, in another order";
        }));
  }
  for (const Index at : claimed) {
    for (Index i = 0; i < width; ++i) output.settle(at + i);
  }
  return claims;
}

/// Whether what lies between the rows that were placed are rows of the output, too: rows in another
/// order come some rows apart by chance.
bool holds_rows(const Output& output, const std::vector<std::uint8_t>& placed) {
  std::unordered_set<std::string_view> rows;
  for (Index r = 0; r < output.owed; ++r) {
    rows.insert(piece(*output.expected, r * output.columns, output.columns));
  }
  for (Index r = 0; r < output.owed; ++r) {
    const Index at = r * output.columns;
    const std::string_view here = piece(*output.actual, at, output.columns);
    if (placed[static_cast<std::size_t>(at)] || plain(here, size_of(output.expected->dtype())))
      continue;
    if (rows.count(here) > 0) return true;
  }
  return false;
}

}  // namespace

std::vector<Claim> recover_stride(Output& output) {
  const std::size_t size = size_of(output.expected->dtype());
  const std::size_t row = static_cast<std::size_t>(output.columns) * size;
  if (output.owed < 3 || row < kLeastBytes) return {};
  const std::string_view whole = piece(*output.actual, 0, output.expected->elements());
  std::vector<Index> at;
  for (Index r = 1; r <= 2; ++r) {
    const std::string_view wanted = piece(*output.expected, r * output.columns, output.columns);
    if (plain(wanted, size)) return {};
    const auto found =
        static_cast<const char*>(memmem(whole.data(), whole.size(), wanted.data(), wanted.size()));
    if (found == nullptr) return {};
    at.push_back((found - whole.data()) / static_cast<Index>(size));
  }
  const Index stride = at[1] - at[0];
  const Index start = at[0] - stride;
  if (stride <= output.columns || start < 0) return {};
  std::vector<std::uint8_t> placed(output.marks.size());
  for (Index r = 0; r < output.owed; ++r) {
    const Index to = start + r * stride;
    if (to + output.columns > output.expected->elements()) break;
    if (piece(*output.actual, to, output.columns) !=
        piece(*output.expected, r * output.columns, output.columns)) {
      return {};
    }
    std::fill_n(placed.begin() + to, output.columns, std::uint8_t{1});
  }
  if (stride % output.columns == 0 && holds_rows(output, placed)) return {};
  Claim claim;
  claim.id = "rows.stride";
  claim.yields = true;
  claim.sentence = "rows of " + output.name + " are written " + std::to_string(stride) +
                   " elements apart rather than " + std::to_string(output.columns);
  claim.where.tensor = output.name;
  // What lies between the rows, and the rows that found no room, follow from the stride.
  claim.elements = static_cast<double>(output.left);
  for (std::size_t i = 0; i < output.marks.size(); ++i) output.settle(static_cast<Index>(i));
  return {claim};
}

std::vector<Claim> recover_moved(Output& output) {
  std::vector<Claim> claims;
  const std::size_t size = size_of(output.expected->dtype());
  if (output.left == 0 || output.owed < 2) return claims;
  if (static_cast<std::size_t>(output.columns) * size >= kLeastBytes) {
    claims = claims_of(output, output.columns);
  }
  for (const Index width : kSegments) {
    if (output.left == 0 || width >= output.columns || output.columns % width != 0) continue;
    for (Claim& c : claims_of(output, width)) claims.push_back(std::move(c));
  }
  return claims;
}

}  // namespace mxo
