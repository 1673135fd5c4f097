// Which block's scale each block was multiplied by: simple maps first, then orders that come again
// every few, then block by block.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/permutation.h"

namespace mxo {
namespace {

constexpr std::size_t kLeast = 3;   ///< measured scales that are not their own, for a map
constexpr std::size_t kListed = 4;  ///< blocks that a sentence names one by one
constexpr std::size_t kMostMaps = 4;

struct NamedMap {
  std::string phrase;
  std::function<Index(Index)> map;
};
using Maps = std::vector<NamedMap>;

/// Whether block b of every line may have been taken with the scale of block `from`.
bool all_may(const Observation& seen, Index b, Index from) {
  return std::ranges::all_of(seen.lines, [&](const Effective& e) { return seen.may(e, b, from); });
}

/// Whether a map gives the measured scales, of which some are not those of their own blocks.  A
/// line or two may be measured wrongly; what is confirmed is the output.
bool tells(const Observation& seen, const NamedMap& map) {
  std::size_t wrong = 0;
  std::size_t telling = 0;
  for (const Effective& e : seen.lines) {
    for (Index b = 0; b < e.blocks(); ++b) {
      const Index to = map.map(b);
      const bool fits = seen.may(e, b, to >= 0 && to < e.blocks() ? to : b);
      wrong += !fits;
      telling += fits && !seen.may(e, b, b);
    }
  }
  return telling >= kLeast && wrong * 10 <= telling;
}

/// A map of blocks by a number n; its words have a gap for the name of a side and for the number.
struct MapRow {
  const char* words;
  bool number_first;
  LineMap map;
};

/// By a number of blocks from 2 on, each twice the one before.
constexpr MapRow kMapsOfRuns[] = {
    {"every {} K blocks of {} take the scale of their first", true, begin_of_run},
    {"every {} K blocks of {} take the scale of their last", true,
     [](Index b, Index n) { return b / n * n + n - 1; }},
    {"the scales of {} start again every {} K blocks", false, within_run},
    {"the scales of every {} K blocks of {} are reversed", true,
     [](Index b, Index n) { return b / n * n + n - 1 - b % n; }},
    {"the halves of the scales of every {} K blocks of {} are exchanged", true,
     [](Index b, Index n) { return b / n * n + (b % n + n / 2) % n; }},
    {"block b of {} takes the scale of block b / {}", false, number_of_run},
    {"block b of {} takes the scale of block {} b", false, [](Index b, Index n) { return b * n; }},
};

/// By the number of all blocks.
constexpr MapRow kMapsOfAll[] = {
    {"the scales of {} are reversed along K", false, reversed},
    {"the scales of {} are rolled by one block along K", false, line_before},
    {"the scales of {} are rolled back by one block along K", false, line_after},
};

Maps simple_maps(const std::string& side, Index blocks) {
  Maps list;
  for (Index c = blocks - 2; c >= 0; --c)
    list.push_back(
        {c == 0 ? filled("every K block of {} takes the scale of block 0", side)
                : filled("scales of {} are stuck at block {} from block {} on", side, c, c + 1),
         [c](Index b) { return std::min(b, c); }});
  for (Index c = 1; c < blocks; ++c)
    list.push_back({filled("blocks 0 to {} of {} take the scale of block {}", c - 1, side, c),
                    [c](Index b) { return std::max(b, c); }});
  for (const Index by : {-1, 1, -2, 2, -4, 4}) {
    const std::string far = std::abs(by) == 1 ? by < 0 ? "before" : "after" : away(by);
    list.push_back({filled("K blocks of {} take the scale of the block {}", side, far),
                    [by](Index b) { return b + by; }});
  }
  const auto add = [&](const MapRow& row, Index n) {
    list.push_back({row.number_first ? filled(row.words, n, side) : filled(row.words, side, n),
                    map_of(row.map, n)});
  };
  for (Index n = 2; n < blocks; n *= 2)
    for (const MapRow& row : kMapsOfRuns) add(row, n);
  for (const MapRow& row : kMapsOfAll) add(row, blocks);
  return list;
}

/// Maps that come again every few blocks.
void add_periodic_maps(const Observation& seen, Index blocks, Maps& list) {
  const auto fits = [&](Index period, Index i, Index j) {
    for (Index b = i; b < blocks; b += period)
      if (!all_may(seen, b, b - i + j)) return false;
    return period <= blocks;
  };
  for (const Permutation& p : permutations_of(fits))
    if (2 * p.period() <= blocks || p.has_name())
      list.push_back(
          {filled("the scales of the K blocks of {} are taken ", seen.factor().name) + p.words(),
           [p](Index b) { return p.from(b); }});
}

/// Each block's own source, where one and only one block's scales are those that were measured.
void add_free_map(const Observation& seen, Index blocks, Maps& list) {
  const std::string& side = seen.factor().name;
  std::vector<Index> source;
  std::string text;
  std::size_t moved = 0;
  for (Index b = 0; b < blocks; ++b) {
    std::vector<Index> fits = range_of(blocks);
    std::erase_if(fits, [&](Index from) { return !all_may(seen, b, from); });
    const bool stays = std::find(fits.begin(), fits.end(), b) != fits.end();
    if (!stays && fits.size() != 1) return;
    source.push_back(stays ? b : fits.front());
    if (!stays && ++moved <= kListed)
      list_words(text, filled("K block {} of {} takes the scale of block {}", b, side, fits[0]));
  }
  if (moved > kListed) text += filled(" and {} more take others'", moved - kListed);
  list.push_back({text, [source](Index b) {
                    return b < static_cast<Index>(source.size()) ? nth(source, b) : b;
                  }});
}

/// The scales of a side with every block's replaced by its source's.
Reading read_blocks(const ProductSides& s, const std::function<Index(Index)>& map) {
  std::vector<Index> from = range_of(s.factor().scales->elements());
  for (Index g = 0; g < s.p.groups(); ++g) {
    const Index blocks = ceil_div(s.p.depth(g), s.p.block);
    for (Index b = 0; b < blocks; ++b) {
      const Index to = map(b);
      if (to < 0 || to >= blocks) continue;
      for (Index line = s.first(g); line < s.last(g); ++line)
        nth(from, s.scale(g, line, b * s.p.block)) = s.scale(g, line, to * s.p.block);
    }
  }
  return read_elements(s.factor().scales_name, [from](Index i) { return nth(from, i); });
}

}  // namespace

void add_block_map(const Observation& seen, List& list) {
  const Index blocks = std::ranges::max_element(seen.lines, {}, &Effective::blocks)->blocks();
  Maps maps = simple_maps(seen.factor().name, blocks);
  add_periodic_maps(seen, blocks, maps);
  add_free_map(seen, blocks, maps);
  std::erase_if(maps, [&](const NamedMap& m) { return !tells(seen, m); });
  maps.resize(std::min(maps.size(), kMostMaps));
  for (const NamedMap& m : maps) {
    add_altered_locally(list, seen.factor().scales_name + "=blocks", m.phrase,
                        [side = seen.s.side, map = m.map](Call& c) {
                          const std::optional<Product> p = product_of(c);
                          return p && read_whole(c, read_blocks({*p, side}, map));
                        });
  }
}

}  // namespace mxo
