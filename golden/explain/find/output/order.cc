// The right values at other places: in a known order, some elements late, lines exchanged.
#include <set>

#include "formats/scale_layout.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/words/permutation.h"

namespace mxo {
namespace {

constexpr Index kLeast = 8;              ///< elements that differ: fewer fit some order by chance
constexpr Index kMostLate = 64;          ///< elements by which an output may be late
constexpr Index kLeastLate = 24;         ///< elements that differ in one that is
constexpr Index kMostColumns = 512;      ///< of which some may be exchanged
constexpr std::size_t kMostPairs = 4;    ///< of columns that are named one by one
constexpr std::size_t kLeastTokens = 4;  ///< whose slots are in orders of their own

// ---- Known orders.

/// Element k of every `run` elements holds what is expected at from(k) of them.
struct Order {
  std::string id;
  std::string phrase;
  Index run;
  std::function<Index(Index)> from;
};
using Orders = std::vector<Order>;

/// Orders of every n neighbours, n a power of two, in words of so many, and of halves of a row.
struct RunOrder {
  const char* id;
  const char* phrase;
  LineMap from;
};
constexpr RunOrder kOfRuns[] = {
    {"order.reversed_{}", "neighbours are reversed in runs of {}", reversed},
    {"order.exchanged_halves_{}", "the halves of every {} neighbours are exchanged",
     halves_exchanged},
    {"order.interleaved_{}", "the halves of every {} neighbours are interleaved", halves_in_turn},
    {"order.deinterleaved_{}", "even and odd ones of every {} neighbours are set apart",
     even_then_odd},
};
constexpr RunOrder kOfWholeRows[] = {
    {"order.halves", "the halves of each row are exchanged", halves_exchanged},
    {"order.interleaved", "the halves of each row are interleaved", halves_in_turn},
};

void add_orders_of_rows(Index columns, Orders& list) {
  const auto add = [&](const RunOrder& order, Index n) {
    list.push_back({filled(order.id, n), filled(order.phrase, n), n, map_of(order.from, n)});
  };
  for (const Index n : {2, 4, 8, 16, 32, 64, 128}) {
    if (columns % n != 0) continue;
    for (const RunOrder& order : kOfRuns) add(order, n);
  }
  if (columns % 2 == 0)
    for (const RunOrder& order : kOfWholeRows) add(order, columns);
  for (const Index by : {1, 2, 4, 8, 16, 32, 64, 128}) {
    if (by >= columns) continue;
    for (const bool right : {true, false})
      list.push_back(
          {"order.columns_shifted",
           filled("each row is shifted by {} to the {}", by, right ? "right" : "left"), columns,
           [columns, from = right ? columns - by : by](Index k) { return (k + from) % columns; }});
  }
}

/// Which element of a matrix of whole tiles lies at byte `k` of its 128x4 tiles.
Index element_at(Index k, Index columns) {
  const Index tiles = columns / kTileColumns;
  const Index tile = k / kTileBytes;
  const Index in = k % kTileBytes;
  const Index row = tile / tiles * kTileRows + in / 16 + in % 16 / kTileColumns * 32;
  return row * columns + tile % tiles * kTileColumns + in % kTileColumns;
}

/// Where byte k of the tiles takes the place of element k of the matrix.
Index byte_of(Index k, Index columns) {
  return blocked_offset(k / columns, k % columns, columns / kTileColumns);
}

void add_orders_of_matrices(const Output& output, Orders& list) {
  const Tensor& t = *output.expected;
  const Index columns = output.columns;
  const Index rows = t.rank() < 2 ? 1 : t.shape()[t.shape().size() - 2];
  const Index matrix = rows * columns;
  const auto are_tiles = [](Index height, Index width) {
    return height % kTileRows == 0 && width % kTileColumns == 0;
  };
  const auto transposed = [](Index height, Index width) {
    return [=](Index k) { return k % height * width + k / height; };
  };
  list.push_back({"order.transposed", "written column-major", matrix, transposed(rows, columns)});
  list.push_back({"order.untransposed", "read column-major", matrix, transposed(columns, rows)});
  if (are_tiles(rows, columns)) {
    list.push_back({"order.tiles", "written in 128x4 tiles", matrix,
                    [=](Index k) { return element_at(k, columns); }});
    list.push_back({"order.untiled", "written as if its 128x4 tiles were rows", matrix,
                    [=](Index k) { return byte_of(k, columns); }});
  }
  if (t.rank() == 3) {
    list.push_back({"order.outer_exchanged", "its first two axes are exchanged", t.elements(),
                    [=, from = transposed(t.extent(0), rows)](Index k) {
                      return from(k / columns) * columns + k % columns;
                    }});
  }
  if (t.rank() != 1 || columns <= 16) return;
  for (const Index width : {2, 4, 8, 16, 32, 64, 128, 256}) {  // of a matrix that is given flat
    if (columns % width != 0) continue;
    const Index height = columns / width;
    list.push_back({"order.transposed", filled("written column-major, {} a row", width), columns,
                    transposed(height, width)});
    if (!are_tiles(height, width)) continue;
    list.push_back({"order.untiled",
                    filled("written row by row, {} a row, rather than in 128x4 tiles", width),
                    columns, [=](Index k) { return byte_of(k, width); }});
  }
}

/// One value wherever something differs: a marker or a fill, which no order puts there.
bool is_one_value(const Output& o) {
  const Index end = compared(o);
  const Index first = o.next_difference(0, end);
  for (Index i = first; i < end; i = o.next_difference(i + 1, end))
    if (o.actual_bits(i) != o.actual_bits(first)) return false;
  return true;
}

// ---- Lines in an order that comes again every few.

Claims claim_line_order(Output& output, bool are_columns) {
  if (!is_unexplained(output, kLeast) || is_one_value(output)) return {};
  // Two values in one row may be in many orders.
  if (output.rows == 1 && !are_of_several_values(
                              output, [](Index) { return true; }, 3))
    return {};
  const Lines lines{output, are_columns};
  const Index n = lines.count();
  const auto fits = [&](Index period, Index i, Index j) {
    for (Index run = 0; run + period <= n; run += period) {  // an incomplete one may be any
      if (!lines.came_as(run + i, run + j)) return false;
    }
    return period <= n;
  };
  const std::vector<Index> failing = lines.failing();
  for (const Permutation& p : permutations_of(fits)) {
    // An order without a name has to come again, and one line for all of them.
    const Index period = p.period();
    Index moved = 0;
    for (Index i = 0; i < period; ++i) moved += nth(p.source, i) != i;
    const bool again = 2 * period <= n && std::ssize(failing) >= 2 * moved &&
                       failing.front() / period != failing.back() / period;
    if ((!p.has_name() || p.source.front() == p.source.back()) && !again) continue;
    // But for where runs begin all moved by one distance, and short lines are there by chance.
    if (p.is_rolled() && period < n && !again && lines.length() < kLeast) continue;
    const auto model = [&](Index i) {
      const Index line = p.from(lines.of(i));
      return output.expected_bits(line >= n ? i : lines.at(line, lines.place(i)));
    };
    const std::string noun = lines.noun() + "s";
    std::string words = noun + " are taken " + p.words();
    // Lines that come again may lie in an order, or have moved.
    for (const Index by : {-1, 1}) {
      const auto moved_so = [&](Index line) {
        return line + by < 0 || line + by >= n || lines.came_as(line, line + by);
      };
      if (!p.is_rolled() && std::ranges::all_of(range_of(n), moved_so))
        words += filled("; equivalently, each is the {} {}", lines.noun(), away(by));
    }
    if (auto claim = claim_model(output, model, "order." + noun, words, kLeast)) return {*claim};
  }
  return {};
}

Claims claim_line_function(Output& output, bool are_columns) {
  if (!is_unexplained(output, kLeast) || is_one_value(output)) return {};
  const Lines lines{output, are_columns};
  const Index first = lines.failing().front();
  for (const auto& [words, of] : kLineFunctions) {
    for (Index n = 2; n < lines.count(); ++n) {
      if (!lines.came_as(first, of(first, n))) continue;
      std::set<Index> sources;    // of lines that differ
      std::set<Index> distances;  // one alone: rows that moved
      Index line = 0;
      for (; line < lines.count() && lines.came_as(line, of(line, n)); ++line) {
        if (lines.came_as(line, line)) continue;
        sources.insert(of(line, n));
        distances.insert(line - of(line, n));
      }
      if (line < lines.count() || sources.size() < 2 || distances.size() < 2) continue;
      return claim_all(output, {lines.noun() + "s.function"},
                       filled("{} i of {} holds {} ", lines.noun(), output.name, lines.noun()) +
                           filled(words, n));
    }
  }
  return {};
}

// ---- Columns of some rows that hold what is expected in others of them.

/// The columns that differ, of the rows that do.
struct Columns {
  const Output& o;
  std::vector<Index> rows;
  std::vector<Index> columns;
  bool are_slots;  ///< a router calls its columns so
  std::string noun() const { return are_slots ? "slot" : "column"; }
  bool is_one() const { return columns.size() == 1; }
  bool hold(Index column, Index source) const {
    return std::ranges::all_of(rows, [&](Index r) {
      return o.actual_bits(r * o.columns + column) == o.expected_bits(r * o.columns + source);
    });
  }
  std::string of_rows() const {
    const bool most = static_cast<Index>(rows.size()) * 4 >= o.compared_rows * 3;
    return (most ? "" : " of " + ranges_in_words("row", rows)) + " of " + o.name;
  }
};

/// "columns 2 and 6 change places": every column that differs with one other; empty if not.
std::string pairs_in_words(const Columns& wrong) {
  std::vector<Index> rest = wrong.columns;
  std::string text;
  std::size_t pairs = 0;
  while (!rest.empty()) {
    const Index c = rest.front();
    const auto other = std::find_if(rest.begin() + 1, rest.end(),
                                    [&](Index d) { return wrong.hold(c, d) && wrong.hold(d, c); });
    if (other == rest.end()) return {};
    if (++pairs <= kMostPairs) list_words(text, filled("{}s {} and {}", wrong.noun(), c, *other));
    rest.erase(other);
    rest.erase(rest.begin());
  }
  if (pairs > kMostPairs) text += filled(" and {} more pairs", pairs - kMostPairs);
  // In one row numbers are alike by chance: two neighbours, or the slots of a token.
  const bool neighbours = pairs == 1 && wrong.columns.back() == wrong.columns.front() + 1;
  if (wrong.rows.size() == 1 && !wrong.are_slots && (!neighbours || wrong.o.compared_rows == 1))
    return {};
  return text + wrong.of_rows() + " change places";
}

/// "columns 2 to 5 hold those 1 after", "columns 1 to 3 hold column 0": every column that differs
/// one so far away, or one and the same.
std::string source_in_words(const Columns& wrong) {
  if (wrong.o.left < kLeast) return {};
  const auto all = [&](const auto& source) {
    return std::ranges::all_of(wrong.columns, [&](Index c) {
      return source(c) >= 0 && source(c) < wrong.o.columns && wrong.hold(c, source(c));
    });
  };
  const std::string words = ranges_in_words(wrong.noun(), wrong.columns) + wrong.of_rows() +
                            (wrong.is_one() ? " holds " : " hold ");
  for (const Index by : both_ways(wrong.is_one() ? 0 : wrong.o.columns - 1))
    if (all([by](Index c) { return c + by; })) return words + "those " + away(by);
  for (Index from = 0; from < wrong.o.columns; ++from)
    if (all([from](Index) { return from; })) return words + filled("{} {}", wrong.noun(), from);
  return {};
}

}  // namespace

Claims recover_order(Output& output) {
  Claims claims;
  Orders list;
  add_orders_of_matrices(output, list);
  add_orders_of_rows(output.columns, list);
  for (const Order& order : list) {
    if (output.left < kLeast) break;
    const auto source = [](const Order& o, Index i) { return i - i % o.run + o.from(i % o.run); };
    const auto model = [&](Index i) { return output.expected_bits(source(order, i)); };
    // Where another gives all, of values that come again, it may be that one.
    const auto gives_all = [&](const Order& other) {
      bool same = true;
      for (Index i = 0; i < compared(output); ++i) {
        const Index from = source(other, i);
        if (output.expected_bits(from) != output.actual_bits(i)) return false;
        same = same && from == source(order, i);
      }
      return !same;
    };
    if (std::ranges::any_of(list, gives_all)) continue;
    if (const auto claim = claim_model(output, model, order.id, order.phrase, kLeast))
      claims.push_back(*claim);
  }
  return claims;
}

Claims recover_row_order(Output& output) { return claim_line_order(output, false); }

Claims recover_column_order(Output& output) { return claim_line_order(output, true); }

Claims recover_line_function(Output& output) {
  Claims rows = claim_line_function(output, false);
  return rows.empty() ? claim_line_function(output, true) : rows;
}

Claims shifted_output(Output& output) {
  if (!is_unexplained(output, kLeastLate)) return {};
  const Index n = compared(output);
  // Whether every element came as what is expected `by` elements after it, the ends apart.
  const auto is_moved = [&](Index by) {
    Index told = 0;
    for (Index i = std::max<Index>(0, -by); i < std::min(n, n - by); ++i) {
      if (output.actual_bits(i) != output.expected_bits(i + by)) return false;
      told += output.differs(i);
    }
    return told >= kLeastLate;
  };
  std::vector<Index> found = both_ways(kMostLate);
  // Whole rows that lie elsewhere are rows that moved; values that come again tell no distance.
  std::erase_if(found, [&](Index by) { return by % output.columns == 0 || !is_moved(by); });
  if (found.size() != 1) return {};
  const Index far = std::abs(found.front());
  return claim_all(
      output, {"elements.shifted"},
      filled("all of {} is written {} {} ({}), across rows and tiles", output.name,
             counted(far, "element"), found.front() < 0 ? "late" : "early",
             counted(far * static_cast<Index>(size_of(output.expected->dtype())), "byte")));
}

Claims recover_exchanged(Output& output) {
  if (!is_unexplained(output, 2) || output.columns > kMostColumns || is_one_value(output))
    return {};
  const bool slots = output.name.ends_with("experts") || output.name.ends_with("weights");
  const Columns wrong{output, Lines{output}.failing(), Lines{output, true}.failing(), slots};
  const auto claim = [&](const ClaimId& id, const std::string& sentence) {
    return claim_place(output, id, [&](const Place&) { return sentence; });
  };
  if (const std::string text = pairs_in_words(wrong); !text.empty())
    return claim({"columns.exchanged", FindingKind::symptom}, text);
  if (const std::string text = source_in_words(wrong); !text.empty())
    return claim({"columns.shifted"}, text);
  // Tokens that hold their own slots in another order, each in its own.
  if (!slots || wrong.rows.size() < kLeastTokens || !is_reordered_in_rows(output)) return {};
  return claim_place(output, {"row.reordered", FindingKind::symptom}, [](const Place& place) {
    return "values change places within their rows in " + place.words;
  });
}

}  // namespace mxo
