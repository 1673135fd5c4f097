// Which of the given scales each line took: a map of lines and blocks, or of lines with one scale.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

constexpr std::size_t kMostOffsets = 256;
constexpr std::size_t kMostAlike = 2;  ///< distances that say the same as the nearest

/// Proposes that each scale of a factor is that of source(i).
void propose(const ProductSide& f, const std::string& phrase, std::function<Index(Index)> source,
             List& list) {
  add_read(list, f.scales_name + "=source", phrase,
           {read_elements(f.scales_name, std::move(source))});
}

/// Distances, and how many lines say so.
using Votes = std::map<Index, std::size_t>;
using Vote = std::pair<Index, std::size_t>;

/// Of distances that as many lines say the nearest, and of two of these the one before.
Vote most_voted(const Votes& votes) {
  return *std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second, -std::abs(a.first)) < std::pair(b.second, -std::abs(b.first));
  });
}

/// The same of all groups: whole rows or blocks before distances that are neither.
Vote most_voted(const Votes& votes, Index whole) {
  Votes of_whole = votes;
  Votes of_others = votes;
  std::erase_if(of_whole, [whole](const auto& vote) { return vote.first % whole != 0; });
  std::erase_if(of_others, [whole](const auto& vote) { return vote.first % whole == 0; });
  if (of_whole.empty() || of_others.empty()) return most_voted(votes);
  const Vote plain = most_voted(of_whole);
  const Vote other = most_voted(of_others);
  return plain.second * 5 >= other.second * 4 ? plain : other;
}

/// Distances between the scales of neighbouring lines, blocks and experts, in elements.
struct Strides {
  Index line;
  Index block;
  Index expert;  ///< 0: none
  bool lines_are_columns;
  bool one_scale;  ///< of a line
};

/// seen = slope * line + shift[group] + step * block, in elements of the tensor of scales.
struct Affine {
  Index slope;
  Index step;
  std::map<Index, Index> shift;
  std::size_t lines;              ///< that agree
  std::vector<Index> alike = {};  ///< other shifts of all groups, which all lines say that can

  bool all_shifts(Index by) const {
    return std::all_of(shift.begin(), shift.end(), [by](const auto& s) { return s.second == by; });
  }
};

/// Words about the shift of each group: groups that agree are said together, and those of which
/// there is nothing to say are not.
template <typename Words>
std::string by_groups(const Affine& map, const std::string& start, const Words& words) {
  std::map<Index, std::vector<Index>> groups;
  for (const auto& [g, by] : map.shift) groups[by].push_back(g);
  if (groups.size() == 1) return start + words(groups.begin()->first);
  std::string text;
  for (const auto& [by, list] : groups)
    if (!words(by).empty()) list_words(text, words(by) + " in " + ranges_in_words("group", list));
  return text.empty() ? text : start + text;
}

/// A source beyond the ends of the tensor, of a row or of an expert comes round, or the line keeps
/// its own.
enum class Beyond : std::uint8_t { wraps, wraps_in_row, wraps_in_expert, keeps };

/// What the map of a factor's lines means for each of its scales.
struct ScaleMap {
  Affine map;
  Strides own;
  Index n;                    ///< scales
  Index columns;              ///< of a row of the tensor
  std::vector<Index> begins;  ///< rows of scales of each group
  Beyond beyond;

  Index source(Index i) const {
    const Index g = own.expert != 0 ? i / own.expert
                                    : std::upper_bound(begins.begin(), begins.end(), i / columns) -
                                          begins.begin() - 1;
    const auto of_group = map.shift.find(g);
    const Index s = of_group == map.shift.end() ? map.shift.begin()->second : of_group->second;
    const Index begin = own.lines_are_columns ? nth(begins, g) : 0;
    const Index line = own.lines_are_columns ? begin * own.block + i % own.block : i / own.line;
    const Index block = own.lines_are_columns ? i / own.block - begin : i % own.line;
    const Index to = map.slope * line + s + map.step * block;
    const Index extent = own.expert != 0 && beyond != Beyond::wraps ? own.expert : n;
    const Index first = i / extent * extent;
    if (beyond == Beyond::keeps) {
      const bool inside = to >= first && to < first + extent;
      return to >= 0 && to < n && (inside || s % extent == 0) ? to : i;
    }
    if (beyond == Beyond::wraps_in_row && map.step == own.block)
      return i / columns * columns + modulo(i % columns + s, columns);
    return beyond == Beyond::wraps_in_expert ? first + modulo(to - first, extent) : modulo(to, n);
  }
};

/// "expert 1 takes the scales of expert 0 (w)", of experts that have rows; empty where they took
/// no other's.
std::string experts_in_words(const ScaleMap& scales, const Product& p, const std::string& side) {
  const Index expert = scales.own.expert;
  const auto whole = [expert](const auto& s) { return s.second % expert == 0; };
  if (expert == 0 || !std::ranges::all_of(scales.map.shift, whole)) return {};
  std::string text;
  std::set<Index> sources, distances;
  Index experts = 0;
  for (Index g = 0; g < p.groups(); ++g) {
    const bool alone = scales.map.shift.size() == 1;  // the others may have their own
    if (p.begin(g) == p.end(g) || (alone && !scales.map.shift.contains(g))) continue;
    const Index from = scales.source(g * expert) / expert;
    ++experts;
    sources.insert(from);
    distances.insert(modulo(from - g, p.groups()));
    if (from == g) continue;
    list_words(
        text, "expert " + std::to_string(g) + " takes the scales of expert " + std::to_string(from),
        " and ");
  }
  const bool next = distances == std::set<Index>{1};
  if (experts > 2 && (next || distances == std::set<Index>{p.groups() - 1}))
    return "every expert takes the scales of the " + std::string(next ? "next" : "one before") +
           " (" + side + ")";
  if (sources.size() > 1 || experts < 2) return text.empty() ? text : text + " (" + side + ")";
  return "every expert takes the scales of " + side + " of expert " +
         std::to_string(*sources.begin());
}

std::string words_of(const ScaleMap& scales, const Product& p, const ProductSide& f) {
  const Affine& map = scales.map;
  const Strides& own = scales.own;
  const Index shift = map.shift.begin()->second;
  if (map.step == 0 && map.all_shifts(shift))
    return filled("every K block of {} takes the scale of block {}", f.name, shift / own.block);
  if (map.step == 0) return "all of " + f.name + " takes one scale for every K block of a line";
  if (map.step != own.block)
    return filled("{} are read along the wrong axis (blocks {} apart rather than {})",
                  side_words(f), map.step, own.block);
  if (map.slope == 0) {
    return by_groups(map, "every line of " + f.name + " takes the scales of line ",
                     [&](Index s) { return std::to_string(s / own.line); });
  }
  if (map.slope != own.line)
    return side_words(f) + " are read " + std::to_string(map.slope) + " apart rather than " +
           std::to_string(own.line);
  const std::string of_experts = experts_in_words(scales, p, f.name);
  if (!of_experts.empty()) return of_experts;
  return by_groups(map, side_words(f) + " are ", [&](Index s) -> std::string {
    const bool by_blocks = own.lines_are_columns ? s % own.block == 0 : s % own.line != 0;
    const char* noun = by_blocks               ? (own.one_scale ? "expert" : "block")
                       : own.lines_are_columns ? "column"
                                               : "row";
    return s == 0 ? "" : "those of " + away(s / (by_blocks ? own.block : own.line), noun);
  });
}

/// A line that was measured: where its own scales begin, and where those that it took may, the
/// nearest first.
struct Line {
  Index own;
  Index group;
  std::vector<Index> offsets;
};

/// Lines whose scales lie `step` apart from somewhere, not from too many places.
std::vector<Line> lines_at(const Observation& seen, Index step, const std::vector<double>& given) {
  std::vector<Line> lines;
  for (const Effective& e : seen.lines) {
    std::vector<std::pair<Index, Observation::Range>> known;  // where, from the offset on
    if (seen.one_scale()) known.emplace_back(0, seen.range(e));
    for (Index b = 0; !seen.one_scale() && b < e.blocks(); ++b)
      if (const auto range = seen.range(e, b)) known.emplace_back(step * b, *range);
    if (known.size() < (seen.one_scale() ? 1 : 2)) continue;
    Line line{seen.at(e, 0), e.group, {}};
    for (Index o = 0; o + known.back().first < std::ssize(given); ++o) {
      const bool fits = std::ranges::all_of(
          known, [&](const auto& k) { return k.second.holds(nth(given, o + k.first)); });
      if (fits) line.offsets.push_back(o);
    }
    if (line.offsets.empty() || line.offsets.size() > kMostOffsets) continue;
    const Observation::Range& first = known.front().second;
    // Of scales that are alike the nearest.
    std::ranges::sort(line.offsets, {}, [&](Index o) {
      return std::pair(std::abs(2.0 * nth(given, o + known.front().first) - first.from - first.to),
                       std::abs(o - line.own));
    });
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Whether lines of experts may have been read so: all at one distance; at another stride from
/// where each expert begins; or all one way, or by whole experts.
bool is_in_order(const Affine& map, const Strides& own) {
  const Index first = map.shift.begin()->second;
  if (map.all_shifts(first)) return true;
  const Index begin = own.expert - map.slope * (own.expert / own.line);  // of each, after another
  const Index start = first - map.shift.begin()->first * begin;
  const auto as_first = [&](const auto& s) { return s.second - s.first * begin == start; };
  const auto whole = [&](const auto& s) { return s.second % own.expert == 0; };
  const auto before = [](const auto& s) { return s.second < 0; };
  const auto after = [](const auto& s) { return s.second > 0; };
  if (map.slope != own.line) return std::ranges::all_of(map.shift, as_first);
  return std::ranges::all_of(map.shift, whole) || std::ranges::none_of(map.shift, before) ||
         std::ranges::none_of(map.shift, after);
}

/// The map that most lines agree on, of those that are not the lines' own.
std::optional<Affine> map_of(const std::vector<Line>& lines, const Strides& own, Index step) {
  // The line's own slope first: of slopes that say the same it is kept.
  std::vector<Index> slopes{
      own.line,    0, 1, round_up(own.line, 4), round_up(own.line, 8), round_up(own.line, 16),
      own.line + 1};
  // One line alone says nothing of slopes: it must have one source, or its own slope.
  if (lines.size() == 1 || step == 0 || own.one_scale) slopes = {own.line};
  // Blocks of one line alone, at another distance, are any scales that are alike.
  if (step != own.block) std::erase(slopes, 0);
  std::optional<Affine> best;
  for (const Index slope : slopes) {
    std::map<Index, Votes> votes;
    Votes of_all;
    for (const Line& line : lines) {
      for (const Index o : line.offsets) {
        // The number of a line is its own offset over its own stride.
        const Index shift = o - slope * (line.own / own.line);
        ++votes[line.group][shift];
        ++of_all[shift];
      }
    }
    // One distance for all groups is said before one for each of them.
    const auto [common, most] = most_voted(of_all, std::max(own.line, own.block));
    const bool one = most * 10 >= lines.size() * 7;
    // Few blocks of a group of a gradient fit by chance, and one scale of a line: there one
    // distance is that of all.
    if ((own.lines_are_columns || own.one_scale) && !one) continue;
    Affine map{slope, step, {}, one ? most : 0};
    for (const auto& [g, shifts] : votes) {
      const auto [shift, count] = most_voted(shifts);
      // Of a group in which most lines say something else nothing is said.
      const bool told = slope != own.line || step != own.block ||
                        static_cast<Index>(count) * 2 >= std::ranges::count(lines, g, &Line::group);
      map.shift[g] = one ? common : told ? shift : 0;
      map.lines += one || !told ? 0 : count;
    }
    for (const auto& [shift, count] : of_all) {
      const auto there = [&, by = shift](const Line& line) {
        return line.own + by >= 0 && line.own + by <= lines.back().own;
      };
      const bool all = static_cast<Index>(count) >= std::ranges::count_if(lines, there);
      if (one && slope == own.line && all && count * 2 >= most && shift != common && shift != 0 &&
          shift % own.line == 0)
        map.alike.push_back(shift);
    }
    if (own.expert != 0 && !is_in_order(map, own)) continue;
    // From another block of a line on, all lines do not take those of one line.
    if (slope == 0 &&
        std::ranges::any_of(map.shift, [&](const auto& s) { return s.second % own.line != 0; }))
      continue;
    const bool identity = slope == own.line && step == own.block && map.all_shifts(0);
    if (!identity && (!best || map.lines > best->lines)) best = map;
  }
  return best;
}

constexpr Index kMostLines = 4096;
constexpr double kMostWork = 2e9;  ///< of measuring them
constexpr std::size_t kTold = 3;   ///< lines that are told one by one

/// The line whose scales each line took: of several blocks where it is one and only one, of one
/// scale a line the nearest; of those that were measured.
std::map<Index, Index> other_lines(const Observation& seen, const std::vector<double>& given) {
  const Index width = seen.width();
  std::map<Index, Index> sources;
  for (const Line& line : lines_at(seen, 1, given)) {
    const bool tells = seen.one_scale() || line.offsets.size() == 1;
    if (tells && line.offsets.front() % width == 0)
      sources[line.own / width] = line.offsets.front() / width;
  }
  return sources;
}

}  // namespace

void add_scale_sources(const Observation& seen, List& list) {
  const Tensor& tensor = *seen.factor().scales;
  const Product& p = seen.s.p;
  const std::vector<double> given = scale_values(tensor);
  const bool one = seen.one_scale();
  const Index columns = p.wgrad ? tensor.shape().back() : seen.width();
  const bool experts = !p.wgrad && seen.s.side == Side::b;
  const Index rows = tensor.elements() / columns / (experts ? p.groups() : 1);
  const Strides own{p.wgrad ? 1 : columns, p.wgrad ? columns : 1, experts ? rows * columns : 0,
                    p.wgrad, one};
  for (const Index step : {own.block, Index{0}, p.wgrad ? Index{1} : rows, own.block + 1}) {
    if (one && step != own.block) break;
    const std::vector<Line> lines = lines_at(seen, step, given);
    if (lines.empty() || lines.size() * 3 < seen.lines.size()) continue;
    std::optional<Affine> map = map_of(lines, own, step);
    if (!map) continue;
    // One scale for all blocks of a line is one of its own blocks, or no source at all.
    const Index taken = map->shift.begin()->second;
    if (step == 0 && (taken < 0 || taken >= own.block * seen.lines.front().blocks())) continue;
    if (map->lines < std::min<std::size_t>(2, lines.size()) || map->lines * 2 < lines.size())
      continue;
    // The least of all scales are those of any row of zeros: no one line's.
    const auto least = [&](const auto& s) { return nth(given, s.second) <= 0x1p-127; };
    if (map->slope == 0 && std::ranges::any_of(map->shift, least)) continue;
    ScaleMap scales{*map, own, tensor.elements(), columns, {}, Beyond::wraps};
    for (Index g = 0; g < p.groups(); ++g)
      scales.begins.push_back(p.wgrad ? seen.s.scale(g, 0, 0) / columns : p.begin(g));
    for (const Beyond beyond :
         {Beyond::wraps, Beyond::wraps_in_row, Beyond::wraps_in_expert, Beyond::keeps}) {
      if (beyond == Beyond::wraps_in_row && !own.lines_are_columns) continue;
      if (beyond == Beyond::wraps_in_expert && own.expert == 0) continue;
      scales.beyond = beyond;
      propose(
          seen.factor(), words_of(scales, p, seen.factor()),
          [scales](Index i) { return scales.source(i); }, list);
      std::ranges::sort(map->alike, {}, [](Index by) { return std::abs(by); });
      map->alike.resize(std::min(map->alike.size(), kMostAlike));
      for (const Index shift : map->alike) {
        ScaleMap other = scales;
        for (auto& [g, by] : other.map.shift) by = shift;
        propose(
            seen.factor(), words_of(other, p, seen.factor()),
            [other](Index i) { return other.source(i); }, list);
      }
    }
    return;
  }
}

void add_row_sources(const Observation& few, const Output& output, List& list) {
  const Product& p = few.s.p;
  const std::vector<double> given = scale_values(*few.factor().scales);
  const Index width = few.width();
  const auto blocks = static_cast<double>(few.lines.front().blocks());
  const Index lines = few.s.side == Side::a ? p.a_lines : p.groups() * p.n;
  const double terms = few.s.side == Side::a ? static_cast<double>(p.n) : 256.0;
  const bool bytes = size_of(few.factor().scales->dtype()) == 1;
  if (p.wgrad || lines > kMostLines || (bytes && width == 1) ||
      lines * width != static_cast<Index>(given.size()) ||
      static_cast<double>(lines) * blocks * blocks * terms > kMostWork)
    return;
  const auto moved = [](const auto& line) { return line.first != line.second; };
  const std::map<Index, Index> told = other_lines(few, given);
  if (told.size() * 10 < few.lines.size() * 8 ||
      std::count_if(told.begin(), told.end(), moved) * 2 < std::ssize(told))
    return;
  // Of scales that a line may have taken, the one as far away as other lines' is in an order.
  const std::vector<Line> measured = lines_at(few, 1, given);
  Votes votes;
  for (const Line& line : measured)
    for (const Index o : line.offsets) ++votes[o - line.own];
  std::set<Index> distances;
  for (const Line& line : measured) {
    const Index at =
        *std::ranges::max_element(line.offsets, {}, [&](Index o) { return votes[o - line.own]; });
    distances.insert(at - line.own);
  }
  if (distances.size() * 2 < told.size()) return;
  Observation all{few.s, measure(p, output, few.s.side, lines)};
  std::erase_if(all.lines, [](const Effective& e) { return !e.fits(); });
  std::map<Index, Index> sources = other_lines(all, given);
  std::erase_if(sources, std::not_fn(moved));
  std::string words;
  std::size_t n = 0;
  for (const auto& [line, source] : sources)
    if (n++ < kTold) list_words(words, filled("{} that of {}", line, source));
  if (n > kTold) words += filled(" and {} more", n - kTold);
  propose(
      few.factor(),
      side_words(few.factor()) + " are those of other rows, in no order that was found: row " +
          words,
      [sources, width](Index i) {
        const auto at = sources.find(i / width);
        return at == sources.end() ? i : at->second * width + i % width;
      },
      list);
  list.back().last = true;
}

}  // namespace mxo
