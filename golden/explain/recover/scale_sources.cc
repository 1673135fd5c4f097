// Which of the given scales each line took: a map of lines and blocks.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/block_map.h"
#include "golden/explain/recover/scales.h"

namespace mxo {
namespace {

constexpr std::size_t kMostOffsets = 256;

/// Where the scales of a line lie in the tensor, if they lie `step` apart from an offset.
std::vector<Index> offsets_of(const Seen& seen, const Effective& e, Index step,
                              const std::vector<double>& given) {
  const auto blocks = static_cast<Index>(e.ratio.size());
  struct Known {
    Index at;
    Seen::Range range;
  };
  std::vector<Known> known;
  for (Index b = 0; b < blocks; ++b) {
    if (const auto range = seen.range(e, b)) known.push_back({step * b, *range});
  }
  std::vector<Index> found;
  if (known.size() < 2) return found;
  const auto n = static_cast<Index>(given.size());
  for (Index o = 0; o + known.back().at < n; ++o) {
    const bool fits = std::all_of(known.begin(), known.end(), [&](const Known& k) {
      return k.range.holds(given[static_cast<std::size_t>(o + k.at)]);
    });
    if (!fits) continue;
    found.push_back(o);
  }
  return found;
}

/// A line's own place among the scales: its number, and the group it belongs to.
struct Own {
  Index offset;  ///< of block 0
  Index group;
};

/// seen = slope * line + shift[group] + step * block, in elements of the tensor of scales.
struct Affine {
  Index slope;
  Index step;
  std::map<Index, Index> shift;
  Index lines;  ///< that agree
};

/// Words for a map, given the distance between the scales of neighbouring lines and blocks.
struct Strides {
  Index line;
  Index block;
  Index expert;  ///< 0: none
  bool lines_are_columns;
};

std::string words_of(const Affine& map, const Strides& own, const ProductSide& f) {
  const auto all_equal = [&](auto fn) {
    return std::all_of(map.shift.begin(), map.shift.end(), fn);
  };
  const Index shift = map.shift.begin()->second;
  if (map.step == 0) {
    if (all_equal([&](const auto& s) { return s.second == shift; })) {
      return "every K block of " + f.name + " takes the scale of block " +
             std::to_string(shift / own.block);
    }
    return "all of " + f.name + " takes one scale for every K block of a line";
  }
  if (map.step != own.block) {
    return side_words(f) + " are read along the wrong axis (blocks " + std::to_string(map.step) +
           " apart rather than " + std::to_string(own.block) + ")";
  }
  // Groups that agree are said together, and those of which there is nothing to say are not.
  const auto by_groups = [&](const std::string& start, auto of_shift) {
    std::map<Index, std::vector<Index>> groups;
    for (const auto& [g, by] : map.shift) groups[by].push_back(g);
    if (groups.size() == 1) return start + of_shift(shift);
    std::string text;
    for (const auto& [by, list] : groups) {
      if (of_shift(by).empty()) continue;
      text +=
          (text.empty() ? start : ", ") + of_shift(by) + " in " + ranges_in_words("group", list);
    }
    return text;
  };
  if (map.slope == 0) {
    return by_groups("every line of " + f.name + " takes the scales of line ",
                     [&](Index s) { return std::to_string(s / own.line); });
  }
  if (map.slope != own.line) {
    return side_words(f) + " are read " + std::to_string(map.slope) + " apart rather than " +
           std::to_string(own.line);
  }
  if (own.expert != 0) {
    std::string text;
    std::set<Index> sources;
    for (const auto& [g, s] : map.shift) {
      if (s % own.expert != 0) {
        text.clear();
        break;
      }
      sources.insert(g + s / own.expert);
      if (s == 0) continue;
      text += (text.empty() ? "" : " and ") + std::string("expert ") + std::to_string(g) +
              " takes the scales of expert " + std::to_string(g + s / own.expert);
    }
    if (!text.empty()) {
      if (sources.size() == 1 && map.shift.size() > 1) {
        return "every expert takes the scales of " + f.name + " of expert " +
               std::to_string(*sources.begin());
      }
      return text + " (" + f.name + ")";
    }
  }
  return by_groups(side_words(f) + " are ", [&](Index s) -> std::string {
    if (s == 0) return "";
    const bool by_blocks = own.lines_are_columns ? s % own.block == 0 : s % own.line != 0;
    const Index by = s / (by_blocks ? own.block : own.line);
    const std::string noun = by_blocks ? "block" : own.lines_are_columns ? "column" : "row";
    return "those of " + std::to_string(std::abs(by)) + " " + noun +
           (std::abs(by) == 1 ? " " : "s ") + (by < 0 ? "before" : "after");
  });
}

/// How far the scales of one group are from the lines' own, and how many lines say so: of equals
/// the nearest, and of two of these the one before.
std::pair<Index, Index> most_voted(const std::map<Index, Index>& votes) {
  return *std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, -std::abs(a.first)) < std::pair(b.second, -std::abs(b.first));
  });
}

/// The same of all groups: whole rows or blocks before distances that are neither.
std::pair<Index, Index> most_voted(const std::map<Index, Index>& votes, Index whole) {
  Index common = votes.begin()->first;
  Index most = votes.begin()->second;
  for (const auto& [shift, count] : votes) {
    const bool now = shift % whole == 0;
    const bool plain = common % whole == 0;
    const bool nearer = std::abs(shift) < std::abs(common);
    const bool more = count > most || (count == most && nearer);
    if (now == plain ? more : now ? count * 5 >= most * 4 : count * 4 > most * 5) {
      most = count;
      common = shift;
    }
  }
  return {common, most};
}

Tensor reread(const Tensor& given, const std::function<Index(Index)>& source) {
  Tensor seen = given;
  const std::size_t size = size_of(given.dtype());
  const Index n = given.elements();
  for (Index i = 0; i < n; ++i) {
    std::memcpy(seen.data() + static_cast<std::size_t>(i) * size,
                given.data() + static_cast<std::size_t>(source(i)) * size, size);
  }
  return seen;
}

}  // namespace

void add_scale_sources(const Seen& seen, std::vector<Hypothesis>& list) {
  const Tensor& tensor = *seen.factor().scales;
  const Product& p = seen.product;
  std::vector<double> given(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < given.size(); ++i)
    given[i] = scale_value(tensor, static_cast<Index>(i));
  const auto n = tensor.elements();
  const Index columns = tensor.extent(tensor.rank() - 1);
  const Index rows = tensor.extent(tensor.rank() - 2);
  Strides own{p.wgrad ? 1 : columns, p.wgrad ? columns : 1, 0, p.wgrad};
  if (!p.wgrad && tensor.rank() == 3) own.expert = rows * columns;
  for (const Index step : {own.block, Index{0}, p.wgrad ? Index{1} : rows, own.block + 1}) {
    // Candidates: pairs of lines fix the slope; the others vote.
    struct Line {
      Own own;
      std::vector<Index> offsets;
    };
    std::vector<Line> lines;
    for (const Effective& e : seen.lines) {
      std::vector<Index> offsets = offsets_of(seen, e, step, given);
      if (offsets.empty() || offsets.size() > kMostOffsets) continue;
      lines.push_back({{seen.at(e, 0), e.group}, std::move(offsets)});
    }
    if (lines.size() * 3 < seen.lines.size()) continue;
    // One line alone says nothing of slopes: it must have one source, or its own slope.
    // The line's own first: of slopes that say the same it is kept.
    std::vector<Index> slopes{
        own.line,    0, 1, round_up(own.line, 4), round_up(own.line, 8), round_up(own.line, 16),
        own.line + 1};
    std::optional<Affine> best;
    if (lines.size() == 1 || step == 0) slopes = {own.line};
    for (const Index slope : slopes) {
      // The number of a line is its own offset over its own stride.
      std::map<Index, std::map<Index, Index>> votes;
      std::map<Index, Index> of_all;
      for (const Line& line : lines) {
        const Index number = line.own.offset / own.line;
        for (const Index o : line.offsets) {
          ++votes[line.own.group][o - slope * number];
          ++of_all[o - slope * number];
        }
      }
      // One distance for all groups is said before one for each of them.
      const auto [common, most] = most_voted(of_all, std::max(own.line, own.block));
      const bool one = most * 10 >= static_cast<Index>(lines.size()) * 7;
      // Few blocks of a group of a gradient fit by chance: there one distance is that of all.
      if (p.wgrad && !one) continue;
      Affine map{slope, step, {}, one ? most : 0};
      for (const auto& [g, shifts] : votes) {
        const auto [shift, count] = most_voted(shifts);
        map.shift[g] = one ? common : shift;
        map.lines += one ? 0 : count;
      }
      const bool identity = slope == own.line && step == own.block &&
                            std::all_of(map.shift.begin(), map.shift.end(),
                                        [](const auto& s) { return s.second == 0; });
      if (!identity && (!best || map.lines > best->lines)) best = map;
    }
    if (!best) continue;
    // One scale for all blocks of a line is one of its own blocks, or no source at all.
    const Index taken = best->shift.begin()->second;
    if (step == 0 &&
        (taken < 0 || taken >= own.block * static_cast<Index>(seen.lines.front().ratio.size()))) {
      continue;
    }
    if (best->lines < std::min<Index>(2, static_cast<Index>(lines.size())) ||
        best->lines * 2 < static_cast<Index>(lines.size())) {
      continue;
    }
    const std::string name = seen.factor().scales_name;
    // Rows of scales of each group of a gradient, or of x; experts have theirs.
    std::vector<Index> begins;
    for (Index g = 0; g < p.groups(); ++g) {
      begins.push_back(p.wgrad ? seen.at(g, 0, 0) / columns : p.begin(g));
    }
    const auto group_of = [begins, own, columns](Index i) -> Index {
      if (own.expert != 0) return i / own.expert;
      return std::upper_bound(begins.begin(), begins.end(), i / columns) - begins.begin() - 1;
    };
    // A source beyond the ends of the tensor, or of an expert, comes round, or the line keeps its
    // own.
    enum class Beyond : std::uint8_t { wraps, wraps_in_row, wraps_in_expert, keeps };
    for (const Beyond beyond :
         {Beyond::wraps, Beyond::wraps_in_row, Beyond::wraps_in_expert, Beyond::keeps}) {
      if (beyond == Beyond::wraps_in_row && !own.lines_are_columns) continue;
      if (beyond == Beyond::wraps_in_expert && own.expert == 0) continue;
      const auto source = [map = *best, own, n, columns, begins, group_of, beyond](Index i) {
        const Index g = group_of(i);
        const auto shift = map.shift.find(g);
        const Index s = shift == map.shift.end() ? map.shift.begin()->second : shift->second;
        const Index begin = own.lines_are_columns ? begins[static_cast<std::size_t>(g)] : 0;
        const Index line = own.lines_are_columns ? begin * own.block + i % own.block : i / own.line;
        const Index block = own.lines_are_columns ? i / own.block - begin : i % own.line;
        const Index to = map.slope * line + s + map.step * block;
        const Index extent = own.expert != 0 && beyond != Beyond::wraps ? own.expert : n;
        const Index first = i / extent * extent;
        const bool inside = to >= first && to < first + extent;
        if (beyond == Beyond::keeps)
          return to >= 0 && to < n && (inside || s % extent == 0) ? to : i;
        if (beyond == Beyond::wraps_in_row && map.step == own.block) {
          return i / columns * columns + ((i % columns + s) % columns + columns) % columns;
        }
        if (beyond == Beyond::wraps_in_expert)
          return first + ((to - first) % extent + extent) % extent;
        return (to % n + n) % n;
      };
      list.push_back({name + "=source", words_of(*best, own, seen.factor()), Stage::input,
                      [name, n, source](Call& call) {
                        const Tensor& from = call.input(name);
                        if (from.elements() != n) return false;
                        call.replace(name, reread(from, source));
                        return true;
                      }});
    }
    return;
  }
}

}  // namespace mxo
