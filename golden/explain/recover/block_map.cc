// Maps of blocks, simple ones first.
#include "golden/explain/recover/block_map.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "golden/explain/name/permutation.h"

namespace mxo {
namespace {

constexpr std::size_t kLeast = 3;   ///< measured scales that are not their own, for a map
constexpr std::size_t kListed = 4;  ///< blocks that a sentence names one by one

using Map = std::function<Index(Index)>;

struct Candidate {
  std::string phrase;
  Map map;
};

Index blocks_of(const Seen& seen) {
  std::size_t most = 0;
  for (const Effective& e : seen.lines) most = std::max(most, e.ratio.size());
  return static_cast<Index>(most);
}

/// Measured scales that a map gives, and those among them that the identity does not.
struct Fit {
  std::size_t wrong = 0;
  std::size_t telling = 0;
};

/// The blocks of one line: what each was given, and what it may have been taken with.
struct Line {
  std::vector<double> given;
  std::vector<std::optional<Seen::Range>> taken;
};

std::vector<Line> lines_of(const Seen& seen) {
  std::vector<Line> lines;
  for (const Effective& e : seen.lines) {
    Line line;
    for (Index b = 0; b < static_cast<Index>(e.ratio.size()); ++b) {
      line.given.push_back(scale_value(*seen.factor().scales, seen.at(e, b)));
      line.taken.push_back(seen.range(e, b));
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

Fit fit_of(const std::vector<Line>& lines, const Map& map) {
  Fit fit;
  for (const Line& line : lines) {
    const auto blocks = static_cast<Index>(line.given.size());
    for (Index b = 0; b < blocks; ++b) {
      const auto own = static_cast<std::size_t>(b);
      if (!line.taken[own]) continue;
      const Index to = map(b);
      const std::size_t from = to >= 0 && to < blocks ? static_cast<std::size_t>(to) : own;
      if (!line.taken[own]->holds(line.given[from])) {
        ++fit.wrong;
      } else if (!line.taken[own]->holds(line.given[own])) {
        ++fit.telling;
      }
    }
  }
  return fit;
}

std::vector<Candidate> simple_maps(const std::string& name, Index blocks) {
  std::vector<Candidate> list;
  for (Index c = blocks - 2; c >= 0; --c) {
    list.push_back({c == 0 ? "every K block of " + name + " takes the scale of block 0"
                           : "scales of " + name + " are stuck at block " + std::to_string(c) +
                                 " from block " + std::to_string(c + 1) + " on",
                    [c](Index b) { return std::min(b, c); }});
  }
  for (Index c = 1; c < blocks; ++c) {
    list.push_back({"blocks 0 to " + std::to_string(c - 1) + " of " + name +
                        " take the scale of block " + std::to_string(c),
                    [c](Index b) { return std::max(b, c); }});
  }
  for (const Index by : {-1, 1, -2, 2, -4, 4}) {
    list.push_back({"K blocks of " + name + " take the scale of the block " +
                        (by * by == 1 ? std::string() : std::to_string(std::abs(by)) + " ") +
                        (by < 0 ? "before" : "after"),
                    [by](Index b) { return b + by; }});
  }
  for (Index p = 2; p < blocks; p *= 2) {
    const std::string every = std::to_string(p);
    list.push_back({"every " + every + " K blocks of " + name + " take the scale of their first",
                    [p](Index b) { return b / p * p; }});
    list.push_back({"every " + every + " K blocks of " + name + " take the scale of their last",
                    [p](Index b) { return b / p * p + p - 1; }});
    list.push_back({"the scales of " + name + " start again every " + every + " K blocks",
                    [p](Index b) { return b % p; }});
    list.push_back({"the scales of every " + every + " K blocks of " + name + " are reversed",
                    [p](Index b) { return b / p * p + p - 1 - b % p; }});
    list.push_back(
        {"the halves of the scales of every " + every + " K blocks of " + name + " are exchanged",
         [p](Index b) { return b / p * p + (b % p + p / 2) % p; }});
    list.push_back({"block b of " + name + " takes the scale of block b / " + every,
                    [p](Index b) { return b / p; }});
    list.push_back({"block b of " + name + " takes the scale of block " + every + " b",
                    [p](Index b) { return b * p; }});
  }
  list.push_back({"the scales of " + name + " are reversed along K",
                  [blocks](Index b) { return blocks - 1 - b; }});
  list.push_back({"the scales of " + name + " are rolled by one block along K",
                  [blocks](Index b) { return (b + blocks - 1) % blocks; }});
  list.push_back({"the scales of " + name + " are rolled back by one block along K",
                  [blocks](Index b) { return (b + 1) % blocks; }});
  return list;
}

/// Maps that come again every few blocks.
std::vector<Candidate> periodic_maps(const std::vector<Line>& lines, const std::string& name,
                                     Index blocks) {
  const auto fits = [&](Index period, Index i, Index j) {
    if (period > blocks) return false;
    for (const Line& line : lines) {
      for (std::size_t b = static_cast<std::size_t>(i); b < line.given.size();
           b += static_cast<std::size_t>(period)) {
        const std::size_t from = b - static_cast<std::size_t>(i) + static_cast<std::size_t>(j);
        if (from >= line.given.size() || !line.taken[b]) continue;
        if (!line.taken[b]->holds(line.given[from])) return false;
      }
    }
    return true;
  };
  std::vector<Candidate> list;
  for (const Permutation& p : permutations_of(fits)) {
    if (2 * p.period() > blocks && !p.has_name()) continue;
    list.push_back({"the scales of the K blocks of " + name + " are taken " + p.words(),
                    [p](Index b) { return p.from(b); }});
  }
  return list;
}

/// Each block's own source, where one and only one block's scales are those that were measured.
std::optional<Candidate> free_map(const std::vector<Line>& lines, const std::string& name,
                                  Index blocks) {
  std::vector<Index> source(static_cast<std::size_t>(blocks));
  std::vector<Index> moved;
  for (Index b = 0; b < blocks; ++b) {
    source[static_cast<std::size_t>(b)] = b;
    std::vector<Index> fits;
    for (Index from = 0; from < blocks; ++from) {
      const auto own = static_cast<std::size_t>(b);
      const auto other = static_cast<std::size_t>(from);
      const bool all = std::all_of(lines.begin(), lines.end(), [&](const Line& line) {
        return std::max(own, other) >= line.given.size() || !line.taken[own] ||
               line.taken[own]->holds(line.given[other]);
      });
      if (all) fits.push_back(from);
    }
    if (std::find(fits.begin(), fits.end(), b) != fits.end()) continue;
    if (fits.size() != 1) return std::nullopt;
    source[static_cast<std::size_t>(b)] = fits.front();
    moved.push_back(b);
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(moved.size(), kListed); ++i) {
    text += (text.empty() ? "" : ", ") + std::string("K block ") + std::to_string(moved[i]) +
            " of " + name + " takes the scale of block " +
            std::to_string(source[static_cast<std::size_t>(moved[i])]);
  }
  if (moved.size() > kListed) {
    text += " and " + std::to_string(moved.size() - kListed) + " more take others'";
  }
  return Candidate{
      text, [source](Index b) {
        return b < static_cast<Index>(source.size()) ? source[static_cast<std::size_t>(b)] : b;
      }};
}

/// The tensor of scales with every block's replaced by its source's.
bool take_blocks(Call& call, Side side, const Map& map) {
  const std::optional<Product> p = product_of(call);
  if (!p) return false;
  const Seen seen{*p, side, {}};
  const Tensor& given = *seen.factor().scales;
  Tensor taken = given;
  const std::size_t size = size_of(given.dtype());
  for (Index g = 0; g < p->groups(); ++g) {
    const Index blocks = ceil_div(p->depth(g), p->block);
    const Index first = side == Side::a ? p->first_line(g) : 0;
    const Index last = side == Side::a ? p->last_line(g) : p->n;
    for (Index b = 0; b < blocks; ++b) {
      const Index from = map(b);
      if (from < 0 || from >= blocks) continue;
      for (Index line = first; line < last; ++line) {
        std::memcpy(taken.data() + static_cast<std::size_t>(seen.at(g, line, b)) * size,
                    given.data() + static_cast<std::size_t>(seen.at(g, line, from)) * size, size);
      }
    }
  }
  call.replace(seen.factor().scales_name, std::move(taken));
  return true;
}

}  // namespace

void add_block_map(const Seen& seen, std::vector<Hypothesis>& list) {
  const Index blocks = blocks_of(seen);
  std::vector<Candidate> maps = simple_maps(seen.factor().name, blocks);
  const std::vector<Line> lines = lines_of(seen);
  for (Candidate& c : periodic_maps(lines, seen.factor().name, blocks))
    maps.push_back(std::move(c));
  if (auto own = free_map(lines, seen.factor().name, blocks)) maps.push_back(std::move(*own));
  std::size_t added = 0;
  for (Candidate& c : maps) {
    const Fit fit = fit_of(lines, c.map);
    // A line or two may be measured wrongly; what is confirmed is the output.
    if (fit.telling < kLeast || fit.wrong * 10 > fit.telling) continue;
    list.push_back(
        {seen.factor().scales_name + "=blocks",
         c.phrase,
         Stage::input,
         [side = seen.side, map = c.map](Call& call) { return take_blocks(call, side, map); },
         {},
         true});
    if (++added == 4) return;
  }
}

}  // namespace mxo
