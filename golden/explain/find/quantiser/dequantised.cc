// Which scale every block of a dequantised tensor was multiplied by.
#include <limits>
#include <tuple>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/confirm/score.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr Index kLeastBlocks = 4;  ///< that differ
constexpr Index kMostColumns = 4;  ///< whose sources are said one by one
constexpr Index kMostRows = 16;    ///< the same of rows
constexpr Index kTold = 3;         ///< of more rows
constexpr Index kMostMoves = Index{1} << 20;

/// A scale, or how far away one lies.
struct Cell {
  Index row;
  Index column;
};
using Scale = std::function<double(Cell)>;

/// A cell in another row or column.
Cell in_line(Cell p, bool of_rows, Index line) {
  return of_rows ? Cell{line, p.column} : Cell{p.row, line};
}

/// The scales given, and those that the output shows; NaN where a block shows nothing.
class Shown {
 public:
  static std::optional<Shown> of(const Call& call, const Output& x);

  Index all_rows = 0;
  Index all_columns = 0;
  Index rows_of_expert = 0;
  std::vector<Index> rows;     ///< with a block that differs
  std::vector<Index> columns;  ///< with one
  Index differing = 0;

  Index at(Cell p) const { return p.row * all_columns + p.column; }
  double given(Cell p) const { return scale_value(*scales_, at(p)); }
  /// Bits of news that a scale is this one, where the output shows it: by its share of those given,
  /// or, of a number that is given once, by how near it has to be.
  double bits(Cell p, double scale) const {
    if (std::isnan(nth(seen_, at(p)))) return 0.0;
    const double given = shares_.at(bit_cast<std::uint64_t>(scale));
    if (given == 1.0 && size_of(scales_->dtype()) != 1) return -std::log2(within_);
    return std::log2(static_cast<double>(scales_->elements()) / given);
  }
  bool is_candidate(Cell p, double scale) const {
    const double seen = nth(seen_, at(p));
    return std::isnan(seen) || std::abs(seen - scale) <= within_ * std::abs(scale);
  }
  /// Whether scale(cell) may be that of every block in these rows and columns.
  bool holds(const std::vector<Index>& in_rows, const std::vector<Index>& in_columns,
             const Scale& scale) const {
    for (const Index r : in_rows)
      for (const Index c : in_columns)
        if (!is_candidate({r, c}, scale({r, c}))) return false;
    return true;
  }
  /// The same of those that differ.
  bool holds(const Scale& scale) const { return holds(rows, columns, scale); }
  /// What differs in words, empty if it is everything; of what is read elsewhere, where not all of
  /// it need differ, if it is half.
  std::string where(bool elsewhere) const {
    const Index part = elsewhere ? 2 : 1;
    std::string text;
    const auto is_part = [part](const std::vector<Index>& some, Index all) {
      return std::ssize(some) * part <= all && std::ssize(some) < all;
    };
    if (is_part(columns, all_columns)) text += ", in " + ranges_in_words("scale column", columns);
    if (is_part(rows, all_rows))
      text += (text.empty() ? ", in " : " of ") + ranges_in_words("scale row", rows);
    return text;
  }

 private:
  const Tensor* scales_ = nullptr;
  std::vector<double> seen_;
  std::map<std::uint64_t, double> shares_;  ///< of values how many are given
  double within_ = 0;
};

std::optional<Shown> Shown::of(const Call& call, const Output& x) {
  const std::optional<ScaleMap> scale_of = scale_map_of(call, x);
  if (!scale_of) return std::nullopt;
  const Tensor& scales = call.input("scales");
  if (scales.rank() != call.input("codes").rank()) return std::nullopt;
  Shown s;
  s.scales_ = &scales;
  s.all_columns = scales.shape().back();
  s.all_rows = scales.elements() / s.all_columns;
  s.rows_of_expert = scales.extent(scales.rank() - 2);
  for (Index i = 0; i < scales.elements(); ++i)
    ++s.shares_[bit_cast<std::uint64_t>(scale_value(scales, i))];
  s.within_ = size_of(x.expected->dtype()) == 2 ? 0x1p-7 : 0x1p-20;
  const auto* codes = call.input("codes").as<std::uint8_t>();
  const ElementReader read_code(call.set.format("format", "e4m3"));
  s.seen_.assign(static_cast<std::size_t>(scales.elements()), kNaN);
  std::vector<double> loudest(s.seen_.size());
  std::vector<std::uint8_t> differs(s.seen_.size());
  for (Index i = 0; i < x.rows * x.columns; ++i) {
    const auto at = static_cast<std::size_t>((*scale_of)(i));
    differs[at] |= x.differs(i);
    const Element code = read_code(codes[i]);
    if (code.nan || code.infinite || std::abs(code.value) <= loudest[at]) continue;
    const Element got = x.came(i);
    loudest[at] = std::abs(code.value);
    s.seen_[at] = got.infinite || got.value == 0.0 ? kNaN : got.value / code.value;
  }
  std::vector<std::uint8_t> row(static_cast<std::size_t>(s.all_rows));
  std::vector<std::uint8_t> column(static_cast<std::size_t>(s.all_columns));
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (differs[i] == 0) continue;
    // A sign or a code that came is no scale.
    if (std::isnan(s.seen_[i]) || s.seen_[i] < 0.0) return std::nullopt;
    row[i / column.size()] = column[i % column.size()] = 1;
    ++s.differing;
  }
  s.rows = marked(row);
  s.columns = marked(column);
  return s;
}

/// What every scale may be.
struct Rule {
  const char* id;
  std::string words;
  Scale scale;
  bool elsewhere;  ///< one that is given for another block
};

/// Proposes a rule of everything that differs, if that is what it shows; what holds everywhere has
/// no place.
bool propose(const Shown& s, const Rule& rule, List& list) {
  if (!s.holds(rule.scale)) return false;
  const bool everywhere = s.holds(range_of(s.all_rows), range_of(s.all_columns), rule.scale);
  std::vector<std::pair<Index, double>> changes;
  for (const Index r : s.rows)
    for (const Index c : s.columns) changes.emplace_back(s.at({r, c}), rule.scale({r, c}));
  const auto alter = [changes = std::move(changes)](Call& call) {
    Tensor scales = call.input("scales");
    for (const auto& [at, value] : changes) set_bits(scales, at, scale_bits(scales.dtype(), value));
    call.replace("scales", std::move(scales));
  };
  add_altered(list, "scales=" + std::string(rule.id),
              rule.words + (everywhere ? "" : s.where(rule.elsewhere)), alter);
  return true;
}

/// The scale that is given at source(cell).
template <typename Source>
Rule read_at(const Shown& s, const char* id, std::string words, Source source) {
  return {id, std::move(words), [&s, source](Cell p) { return s.given(source(p)); }, true};
}

constexpr std::tuple<const char*, const char*, double (*)(double)> kValueRules[] = {
    {"left_out", "the scales are left out", [](double) { return 1.0; }},
    {"twice", "the scales are applied twice", [](double v) { return v * v; }},
    {"halved", "every scale is half of what it is (a byte too low by one)",
     [](double v) { return 0.5 * v; }},
    {"doubled", "every scale is twice what it is (a byte too high by one)",
     [](double v) { return 2.0 * v; }},
    {"inverse", "x is divided by the scales", [](double v) { return 1.0 / v; }},
};

std::vector<Rule> known_rules(const Shown& s) {
  std::vector<Rule> list;
  for (const auto& [id, words, value] : kValueRules)
    list.push_back({id, words, [&s, of = value](Cell p) { return of(s.given(p)); }, false});
  const auto add = [&](const char* id, std::string words, bool of_rows, LineMap map, Index n) {
    list.push_back(read_at(s, id, std::move(words), [=](Cell p) {
      return in_line(p, of_rows, map(of_rows ? p.row : p.column, n));
    }));
  };
  if (s.all_columns > 1)
    add("first_block", "every block takes the scale of the first of its row", false, first_line, 0);
  if (s.all_rows > 1) add("first_row", "every row takes the scales of row 0", true, first_line, 0);
  if (s.all_rows > s.rows_of_expert)
    add("expert_0", "every expert takes the scales of expert 0", true, within_run,
        s.rows_of_expert);
  for (Index every = 2; every <= 16 && every < s.all_columns; every *= 2)
    add("first_of_every", filled("every {} blocks take the scale of the first of them", every),
        false, begin_of_run, every);
  for (Index n = 2; n < s.all_rows; n *= 2) {
    // The remainder is a move, and has a name of its own.
    for (const auto& [words, of] : {kLineFunctions[0], kLineFunctions[2]})
      add("row_function", "row i takes the scales of row " + filled(words, n), true, of, n);
  }
  return list;
}

/// One place late or early in memory: across the ends of rows.
Rule in_memory(const Shown& s, Index by) {
  return read_at(s, "source",
                 filled("blocks take the scale that lies one {} theirs in memory",
                        by < 0 ? "before" : "after"),
                 [&s, by](Cell p) {
                   const Index end = s.all_rows * s.all_columns;
                   const Index at = std::clamp<Index>(s.at(p) + by, 0, end - 1);
                   return Cell{at / s.all_columns, at % s.all_columns};
                 });
}

/// Scales that lie at one distance, wrapping around.
std::optional<Rule> move_of(const Shown& s) {
  const Index rows = s.all_rows;
  const Index columns = s.all_columns;
  if (rows * columns > kMostMoves) return std::nullopt;
  const auto moved = [rows, columns](Cell by) {
    return [=](Cell p) {
      return Cell{modulo(p.row + by.row, rows), modulo(p.column + by.column, columns)};
    };
  };
  std::optional<Cell> best;
  const auto length = [](Cell p) { return std::abs(p.row) + std::abs(p.column); };
  for (Index dr = -(rows - 1) / 2; dr <= rows / 2; ++dr) {
    for (Index dc = -(columns - 1) / 2; dc <= columns / 2; ++dc) {
      const Cell by{dr, dc};
      if (length(by) == 0 || (best && length(*best) <= length(by))) continue;
      if (s.holds([&, from = moved(by)](Cell p) { return s.given(from(p)); })) best = by;
    }
  }
  if (!best) return std::nullopt;
  // Where all of them wrap around, they lie the other way.
  const auto straight = [](Index by, const std::vector<Index>& lines, Index all) {
    if (by > 0 && lines.front() + by >= all) return by - all;
    return by < 0 && lines.back() + by < 0 ? by + all : by;
  };
  const Cell by{straight(best->row, s.rows, rows), straight(best->column, s.columns, columns)};
  std::string words;
  if (by.row != 0) list_words(words, away(by.row, "row"));
  if (by.column != 0)
    list_words(words, columns == 2 ? "the other block" : away(by.column, "block"), " and ");
  return read_at(s, "source", "the scales are those of " + words, moved(*best));
}

// ---- Rows or columns, each another one.

using Sources = std::map<Index, Index>;

/// For each row or column with a block that differs another from which its scales may be taken, of
/// several alike the first.  None where scales as rare as these would be found by chance, of so
/// many to choose from.
std::optional<Sources> taken_from(const Shown& s, bool of_rows) {
  const std::vector<Index>& lines = of_rows ? s.rows : s.columns;
  const Index all = of_rows ? s.all_rows : s.all_columns;
  Sources sources;
  double news = -kCertain;
  for (const Index line : lines) {
    const auto fits = [&](Index from) {
      const Scale scale = [&](Cell p) { return s.given(in_line(p, of_rows, from)); };
      const std::vector<Index> own{line};
      return from != line && s.holds(of_rows ? own : s.rows, of_rows ? s.columns : own, scale);
    };
    Index from = 0;
    while (from < all && !fits(from)) ++from;
    if (from == all) return std::nullopt;
    sources[line] = from;
    news -= std::log2(static_cast<double>(all));
    for (const Index other : of_rows ? s.columns : s.rows) {
      const Cell cell = of_rows ? Cell{line, other} : Cell{other, line};
      news += s.bits(cell, s.given(in_line(cell, of_rows, from)));
    }
  }
  return news < 0.0 ? std::nullopt : std::optional(sources);
}

void propose_lines(const Shown& s, bool of_rows, const Sources& sources, const std::string& words,
                   List& list) {
  const auto scale = [&](Cell p) {
    const auto from = sources.find(of_rows ? p.row : p.column);
    return from == sources.end() ? kNaN : s.given(in_line(p, of_rows, from->second));
  };
  propose(s, {"source", words, scale, !of_rows}, list);
}

}  // namespace

std::optional<ScaleMap> scale_map_of(const Call& call, const Output& x) {
  if (call.op != "dequantize" || !call.has("codes") || !call.has("scales") ||
      call.has("group_ends") || call.set.flag("transpose", false) ||
      call.set.text("scale_layout", "row_major") != "row_major") {
    return std::nullopt;
  }
  const Tensor& codes = call.input("codes");
  const Tensor& scales = call.input("scales");
  const Dtype format = call.set.format("format", "e4m3");
  const Index n = x.rows * x.columns;
  if (!is_minifloat8(format) || size_of(codes.dtype()) != 1 || codes.elements() != n)
    return std::nullopt;
  ScaleHints hints;
  hints.block = BlockExtents{x.tile.rows, x.tile.columns};
  const auto map = ScaleMap::of(codes.shape(), scales.shape(), scales.dtype(), hints);
  // Shapes may fit several blocks: the one that gives what is expected counts.
  constexpr double kLeast = 0x1p-133;  // of bf16
  const ElementReader decode(format);
  for (Index i = 0; map && i < n; i += n / 512 + 1) {
    const double v = decode(bits_at(codes, i)).value * scale_value(scales, (*map)(i));
    const Element want = x.wanted(i);
    if (std::isnan(v) != want.nan) return std::nullopt;
    if (std::isfinite(v) && !want.infinite &&
        std::abs(v - want.value) > std::abs(v) * 0x1p-7 + kLeast)
      return std::nullopt;
  }
  return map;
}

void add_measured_blocks(const Call& call, const Output& output, List& list) {
  const std::optional<Shown> s = Shown::of(call, output);
  if (!s || s->differing < kLeastBlocks) return;
  for (const Rule& rule : known_rules(*s))
    if (propose(*s, rule, list)) return;
  if (const auto move = move_of(*s); move && propose(*s, *move, list)) return;
  if (propose(*s, in_memory(*s, -1), list) || propose(*s, in_memory(*s, 1), list)) return;
  const auto rows = static_cast<Index>(s->rows.size());
  if (rows >= 2 && rows <= kMostRows) {
    if (const auto from = taken_from(*s, true)) {
      std::string words;
      for (const auto& [row, source] : *from) list_words(words, std::to_string(source));
      propose_lines(*s, true, *from, "scales are those of rows " + words, list);
      return;
    }
  }
  if (static_cast<Index>(s->columns.size()) > kMostColumns || rows < 2 * kLeastBlocks) return;
  if (const auto from = taken_from(*s, false)) {
    std::string words;
    for (const auto& [column, source] : *from)
      list_words(words, filled("block {} takes the scale of block {}", column, source));
    propose_lines(*s, false, *from, words, list);
  }
}

void add_rows_in_no_order(const Call& call, const Output& output, List& list) {
  const std::optional<Shown> s = Shown::of(call, output);
  if (!s || std::ssize(s->rows) <= kMostRows || s->all_columns < kLeastBlocks) return;
  const std::optional<Sources> from = taken_from(*s, true);
  if (!from) return;
  std::string words;
  Index told = 0;
  for (const auto& [row, source] : *from)
    if (told++ < kTold) list_words(words, filled("{} that of {}", row, source));
  propose_lines(*s, true, *from,
                filled("scales are those of other rows, in no order that was found: row {} and {} "
                       "more",
                       words, told - kTold),
                list);
}

}  // namespace mxo
