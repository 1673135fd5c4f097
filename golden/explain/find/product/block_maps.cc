// Which block's scale each block along the depth was multiplied by: simple maps first, then orders
// that come again every few, then block by block.
#include <algorithm>
#include <cstdlib>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/quantiser/seen.h"
#include "golden/explain/words/permutation.h"

namespace mxo {
namespace {

constexpr std::size_t kLeast = 3;   ///< measured scales that are not their own, for a map
constexpr std::size_t kListed = 4;  ///< blocks that a sentence names one by one
constexpr std::size_t kMostMaps = 4;

using Map = std::function<Index(Index)>;

struct NamedMap {
  std::string phrase;
  Map map;
};

/// The blocks of one line: what each was given, and what it may have been taken with.
struct Line {
  std::vector<double> given;
  std::vector<std::optional<Observation::Range>> taken;
  /// Whether block b may have been taken with the scale of block `from`.
  bool is_candidate(Index b, Index from) const {
    const auto own = static_cast<std::size_t>(b);
    const auto other = static_cast<std::size_t>(from);
    return std::max(own, other) >= given.size() || !taken[own] || taken[own]->holds(given[other]);
  }
};

std::vector<Line> lines_of(const Observation& seen) {
  std::vector<Line> lines;
  for (const Effective& e : seen.lines) {
    Line& line = lines.emplace_back();
    for (Index b = 0; b < static_cast<Index>(e.ratio.size()); ++b) {
      line.given.push_back(scale_value(*seen.factor().scales, seen.at(e, b)));
      line.taken.push_back(seen.range(e, b));
    }
  }
  return lines;
}

/// Whether a map gives the measured scales, of which some are not those of their own blocks.  A
/// line or two may be measured wrongly; what is confirmed is the output.
bool tells(const std::vector<Line>& lines, const Map& map) {
  std::size_t wrong = 0;
  std::size_t telling = 0;
  for (const Line& line : lines) {
    const auto blocks = static_cast<Index>(line.given.size());
    for (Index b = 0; b < blocks; ++b) {
      const Index to = map(b);
      if (!line.is_candidate(b, to >= 0 && to < blocks ? to : b)) {
        ++wrong;
      } else if (!line.is_candidate(b, b)) {
        ++telling;
      }
    }
  }
  return telling >= kLeast && wrong * 10 <= telling;
}

/// A map of blocks by a number n; '%' in its words is the name of a side, '#' the number.
struct MapRow {
  const char* words;
  Index (*map)(Index b, Index n);
};

/// By a number of blocks from 2 on, each twice the one before.
constexpr MapRow kMapsOfRuns[] = {
    {"every # K blocks of % take the scale of their first",
     [](Index b, Index n) { return b / n * n; }},
    {"every # K blocks of % take the scale of their last",
     [](Index b, Index n) { return b / n * n + n - 1; }},
    {"the scales of % start again every # K blocks", [](Index b, Index n) { return b % n; }},
    {"the scales of every # K blocks of % are reversed",
     [](Index b, Index n) { return b / n * n + n - 1 - b % n; }},
    {"the halves of the scales of every # K blocks of % are exchanged",
     [](Index b, Index n) { return b / n * n + (b % n + n / 2) % n; }},
    {"block b of % takes the scale of block b / #", [](Index b, Index n) { return b / n; }},
    {"block b of % takes the scale of block # b", [](Index b, Index n) { return b * n; }},
};

/// By the number of all blocks.
constexpr MapRow kMapsOfAll[] = {
    {"the scales of % are reversed along K", [](Index b, Index n) { return n - 1 - b; }},
    {"the scales of % are rolled by one block along K",
     [](Index b, Index n) { return (b + n - 1) % n; }},
    {"the scales of % are rolled back by one block along K",
     [](Index b, Index n) { return (b + 1) % n; }},
};

NamedMap named(const MapRow& row, const std::string& side, Index n) {
  std::string words;
  for (const char* c = row.words; *c != '\0'; ++c) {
    words += *c == '%' ? side : *c == '#' ? std::to_string(n) : std::string(1, *c);
  }
  return {words, [map = row.map, n](Index b) { return map(b, n); }};
}

std::vector<NamedMap> simple_maps(const std::string& side, Index blocks) {
  std::vector<NamedMap> list;
  for (Index c = blocks - 2; c >= 0; --c) {
    list.push_back({c == 0 ? "every K block of " + side + " takes the scale of block 0"
                           : "scales of " + side + " are stuck at block " + std::to_string(c) +
                                 " from block " + std::to_string(c + 1) + " on",
                    [c](Index b) { return std::min(b, c); }});
  }
  for (Index c = 1; c < blocks; ++c) {
    list.push_back({"blocks 0 to " + std::to_string(c - 1) + " of " + side +
                        " take the scale of block " + std::to_string(c),
                    [c](Index b) { return std::max(b, c); }});
  }
  for (const Index by : {-1, 1, -2, 2, -4, 4}) {
    list.push_back({"K blocks of " + side + " take the scale of the block " +
                        (std::abs(by) == 1 ? "" : std::to_string(std::abs(by)) + " ") +
                        (by < 0 ? "before" : "after"),
                    [by](Index b) { return b + by; }});
  }
  for (Index n = 2; n < blocks; n *= 2) {
    for (const MapRow& row : kMapsOfRuns) list.push_back(named(row, side, n));
  }
  for (const MapRow& row : kMapsOfAll) list.push_back(named(row, side, blocks));
  return list;
}

/// Maps that come again every few blocks.
std::vector<NamedMap> periodic_maps(const std::vector<Line>& lines, const std::string& side,
                                    Index blocks) {
  const auto fits = [&](Index period, Index i, Index j) {
    if (period > blocks) return false;
    for (Index b = i; b < blocks; b += period) {
      const bool all = std::all_of(lines.begin(), lines.end(), [&](const Line& line) {
        return line.is_candidate(b, b - i + j);
      });
      if (!all) return false;
    }
    return true;
  };
  std::vector<NamedMap> list;
  for (const Permutation& p : permutations_of(fits)) {
    if (2 * p.period() > blocks && !p.has_name()) continue;
    list.push_back({"the scales of the K blocks of " + side + " are taken " + p.words(),
                    [p](Index b) { return p.from(b); }});
  }
  return list;
}

/// Each block's own source, where one and only one block's scales are those that were measured.
std::optional<NamedMap> free_map(const std::vector<Line>& lines, const std::string& side,
                                 Index blocks) {
  std::vector<Index> source;
  std::string text;
  std::size_t moved = 0;
  for (Index b = 0; b < blocks; ++b) {
    std::vector<Index> fits;
    for (Index from = 0; from < blocks; ++from) {
      const bool all = std::all_of(lines.begin(), lines.end(),
                                   [&](const Line& line) { return line.is_candidate(b, from); });
      if (all) fits.push_back(from);
    }
    const bool stays = std::find(fits.begin(), fits.end(), b) != fits.end();
    if (!stays && fits.size() != 1) return std::nullopt;
    source.push_back(stays ? b : fits.front());
    if (stays || ++moved > kListed) continue;
    text += (text.empty() ? "K block " : ", K block ") + std::to_string(b) + " of " + side +
            " takes the scale of block " + std::to_string(source.back());
  }
  if (moved > kListed) text += " and " + std::to_string(moved - kListed) + " more take others'";
  return NamedMap{text, [source](Index b) {
                    const auto at = static_cast<std::size_t>(b);
                    return at < source.size() ? source[at] : b;
                  }};
}

/// The scales of a side with every block's replaced by its source's.
Reading read_blocks(const Sides& s, const Map& map) {
  std::vector<Index> from = range_of(s.factor().scales->elements());
  for (Index g = 0; g < s.p.groups(); ++g) {
    const Index blocks = ceil_div(s.p.depth(g), s.p.block);
    for (Index b = 0; b < blocks; ++b) {
      const Index to = map(b);
      if (to < 0 || to >= blocks) continue;
      for (Index line = s.first(g); line < s.last(g); ++line) {
        from[static_cast<std::size_t>(s.scale(g, line, b * s.p.block))] =
            s.scale(g, line, to * s.p.block);
      }
    }
  }
  return read_elements(s.factor().scales_name,
                       [from](Index i) { return from[static_cast<std::size_t>(i)]; });
}

}  // namespace

void add_block_map(const Observation& seen, std::vector<Hypothesis>& list) {
  const std::vector<Line> lines = lines_of(seen);
  std::size_t most = 0;
  for (const Line& line : lines) most = std::max(most, line.given.size());
  const auto blocks = static_cast<Index>(most);
  const std::string& side = seen.factor().name;
  std::vector<NamedMap> maps = simple_maps(side, blocks);
  for (NamedMap& m : periodic_maps(lines, side, blocks)) maps.push_back(std::move(m));
  if (auto own = free_map(lines, side, blocks)) maps.push_back(std::move(*own));
  std::erase_if(maps, [&](const NamedMap& m) { return !tells(lines, m.map); });
  maps.resize(std::min(maps.size(), kMostMaps));
  for (const NamedMap& m : maps) {
    list.push_back({seen.factor().scales_name + "=blocks",
                    m.phrase,
                    Stage::input,
                    [side = seen.side, map = m.map](Call& c) {
                      const std::optional<Product> p = product_of(c);
                      return p && read_whole(c, read_blocks({*p, side}, map));
                    },
                    {},
                    true});
  }
}

}  // namespace mxo
