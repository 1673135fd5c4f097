// A dequantised tensor: bytes that were read as other numbers, and the scale that every block
// shows.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "golden/explain/find/quantiser/bytes.h"
#include "golden/explain/find/quantiser/code_rule.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/name/places.h"
#include "golden/explain/product.h"
#include "golden/explain/recover/scales.h"

namespace mxo {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Codes and scales of a dequantised tensor, where these lie in rows as their shapes say.
struct ScaledCodes {
  const Output& x;
  const Tensor& codes;
  const Tensor& scales;
  Dtype format;
  Index rows;    ///< of one matrix
  Index across;  ///< scales of a row of blocks
  Index matrix;  ///< scales of one matrix

  static std::optional<ScaledCodes> of(const Call& call, const Output& x);
  std::uint8_t code(Index i) const { return codes.as<std::uint8_t>()[i]; }
  Index scale_index(Index i) const {
    const Index row = i / x.columns;
    return row / rows * matrix + row % rows / x.tile.rows * across + i % x.columns / x.tile.columns;
  }
  double scale(Index i) const { return scale_value(scales, scale_index(i)); }
};

std::optional<ScaledCodes> ScaledCodes::of(const Call& call, const Output& x) {
  if (call.op != "dequantize" || !call.has("codes") || !call.has("scales") ||
      call.has("group_ends") || call.set.flag("transpose", false) ||
      call.set.text("scale_layout", "row_major") != "row_major") {
    return std::nullopt;
  }
  const Tensor& codes = call.input("codes");
  const Tensor& scales = call.input("scales");
  const Dtype format = call.set.format("format", "e4m3");
  const Index n = x.rows * x.columns;
  if (!is_minifloat8(format) || codes.elements() != n || n == 0 || codes.rank() < 2 ||
      size_of(codes.dtype()) != 1)
    return std::nullopt;
  const Index rows = codes.extent(codes.rank() - 2);
  const Index across = ceil_div(x.columns, x.tile.columns);
  const ScaledCodes c{x, codes, scales, format, rows, across, ceil_div(rows, x.tile.rows) * across};
  if (c.matrix * (x.rows / rows) != scales.elements()) return std::nullopt;
  // Shapes may fit several blocks: the one that gives what is expected counts.
  constexpr double kLeast = 0x1p-133;  // of bf16
  const ElementReader read(x.expected->dtype());
  const ElementReader decode(format);
  for (Index i = 0; i < n; i += n / 512 + 1) {
    const double v = decode(c.code(i)).value * c.scale(i);
    const Element want = read(x.wanted(i));
    if (std::isnan(v) != want.nan) return std::nullopt;
    if (std::isfinite(v) && !want.infinite &&
        std::abs(v - want.value) > std::abs(v) * 0x1p-7 + kLeast)
      return std::nullopt;
  }
  return c;
}

// ---- Bytes read as other numbers.

constexpr std::size_t kMostBytes = 32;  ///< that may be read otherwise
constexpr std::size_t kTold = 4;        ///< that are told one by one

/// What the elements of each byte show: the number that all of them may have been.
class Table {
 public:
  /// Adds an element that shows the number `v`, known within a share of it.
  void add(std::size_t byte, bool differs, double v, double within) {
    Read& r = reads_[byte];
    v = shortest(v, within * std::abs(v));
    if (r.elements++ == 0) {
      as[byte] = v;
    } else if (std::isnan(v) != std::isnan(as[byte]) || std::signbit(v) != std::signbit(as[byte]) ||
               std::abs(v - as[byte]) > 2.0 * within * std::abs(v)) {
      r.one = std::isnan(v) && std::isnan(as[byte]) && r.one;
    }
    r.differing += differs;
  }
  /// The bytes that differ wherever they stand, and as one number each; empty if others do.
  std::vector<std::size_t> otherwise_read() const {
    std::vector<std::size_t> found;
    bool right = false;
    for (std::size_t byte = 0; byte < reads_.size(); ++byte) {
      const Read& r = reads_[byte];
      right = right || (r.differing == 0 && r.elements > 0);
      if (r.differing == 0) continue;
      if (r.differing != r.elements || !r.one || found.size() == kMostBytes) return {};
      found.push_back(byte);
    }
    return right ? found : std::vector<std::size_t>{};
  }

  CodeTable as{};

 private:
  struct Read {
    Index elements = 0;
    Index differing = 0;
    bool one = true;
  };
  std::array<Read, 256> reads_;
};

/// "scale byte 124 is read as NaN rather than 0.125", and of several.
std::string in_words(const std::vector<std::size_t>& bytes, const Table& table, bool scale,
                     const ElementReader& own) {
  const std::string noun = scale ? "scale byte" : "code";
  if (bytes.size() > 1)
    return noun + "s are read otherwise: " + list_of_bytes(bytes, kTold, scale, table.as, own);
  const std::string name = scale ? std::to_string(bytes[0]) : hex(bytes[0]);
  return noun + " " + name + " is read" + read_as(bytes[0], table.as, own);
}

/// What is said of codes; empty of flushed subnormals, which have names of their own.
std::string codes_in_words(const std::vector<std::size_t>& bytes, const Table& table,
                           Dtype format) {
  const ElementReader decode(format);
  const double least = Grid(format).least_normal();
  bool normal = true;  // subnormal codes are taken for 1.m of the lowest exponent
  bool flushed = true;
  for (const std::size_t byte : bytes) {
    const double own = std::abs(decode(byte).value);
    const double read = least / 2.0 * (1.0 + own / least);
    const double as = table.as[byte];
    normal = normal && own < least && std::abs(std::abs(as) - read) <= read * 0x1p-7;
    flushed = flushed && own < least && as == 0.0;
  }
  if (flushed) return {};
  return normal ? "subnormal codes are read by the formula of normal ones, 1.m of the lowest "
                  "exponent"
                : in_words(bytes, table, false, decode);
}

}  // namespace

std::vector<Claim> recover_by_value(const Call& call, Output& x) {
  if (x.left != x.differing || x.left == 0) return {};
  const std::optional<ScaledCodes> c = ScaledCodes::of(call, x);
  if (!c) return {};
  const double within = size_of(x.expected->dtype()) == 2 ? 0x1p-7 : 0x1p-21;
  const ElementReader decode(c->format);
  const ElementReader read(x.expected->dtype());
  const bool bytes = size_of(c->scales.dtype()) == 1;
  Table codes;
  Table scales;
  for (Index i = 0; i < x.rows * x.columns; ++i) {
    const bool differs = x.marks[static_cast<std::size_t>(i)] == Mark::differs;
    const Element came = read(x.came(i));
    const double came_value = came.nan ? kNaN : came.value;
    const double scale = c->scale(i);
    if (!std::isnan(scale)) codes.add(c->code(i), differs, came_value / scale, within);
    // Of zeros a number read in place of a scale shows nothing.
    const Element code = decode(c->code(i));
    if (!bytes || code.nan || (code.value == 0.0 && !came.nan)) continue;
    scales.add(bits_at(c->scales, c->scale_index(i)), differs, came_value / code.value, within);
  }
  Claim claim{"scale.decoded", {}, {}};
  claim.yields = true;
  if (const auto found = scales.otherwise_read(); !found.empty()) {
    claim.sentence = in_words(found, scales, true, ElementReader(Dtype::e8m0));
  } else if (const auto others = codes.otherwise_read(); !others.empty()) {
    claim.id = "codes.decoded";
    claim.sentence = codes_in_words(others, codes, c->format);
  }
  if (claim.sentence.empty()) return {};
  claim.where.tensor = x.name;
  claim.elements = static_cast<double>(x.left);
  for (std::size_t i = 0; i < x.marks.size(); ++i) x.settle(static_cast<Index>(i));
  return {claim};
}

namespace {

// ---- The scale of every block.

constexpr Index kLeastBlocks = 4;  ///< that differ
constexpr Index kMostColumns = 4;  ///< whose sources are said one by one
constexpr Index kMostRows = 16;    ///< the same of rows
constexpr Index kMostMoves = Index{1} << 20;

struct Place2 {
  Index row;
  Index column;
};
using Source = std::function<Place2(Place2)>;

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

  Index at(Place2 p) const { return p.row * all_columns + p.column; }
  double given(Place2 p) const { return scale_value(*scales_, at(p)); }
  bool may_be(Place2 p, double scale) const {
    const double seen = seen_[static_cast<std::size_t>(at(p))];
    return std::isnan(seen) || std::abs(seen - scale) <= within_ * std::abs(scale);
  }
  /// Whether scale(place) may be that of every block in these rows and columns.
  template <typename Scale>
  bool holds(const std::vector<Index>& in_rows, const std::vector<Index>& in_columns,
             const Scale& scale) const {
    for (const Index r : in_rows) {
      for (const Index c : in_columns) {
        if (!may_be({r, c}, scale(Place2{r, c}))) return false;
      }
    }
    return true;
  }
  /// The same of those that differ.
  template <typename Scale>
  bool holds(const Scale& scale) const {
    return holds(rows, columns, scale);
  }
  /// What differs in words, empty if it is everything; of what is read elsewhere, where not all of
  /// it need differ, if it is half.
  std::string where(bool elsewhere) const {
    const Index part = elsewhere ? 2 : 1;
    std::string text;
    if (static_cast<Index>(columns.size()) * part < all_columns)
      text += ", in " + ranges_in_words("scale column", columns);
    if (static_cast<Index>(rows.size()) * part < all_rows)
      text += (text.empty() ? ", in " : " of ") + ranges_in_words("scale row", rows);
    return text;
  }

 private:
  const Tensor* scales_ = nullptr;
  std::vector<double> seen_;
  double within_ = 0;
};

std::optional<Shown> Shown::of(const Call& call, const Output& x) {
  const std::optional<ScaledCodes> c = ScaledCodes::of(call, x);
  if (!c) return std::nullopt;
  Shown s;
  s.scales_ = &c->scales;
  s.all_columns = c->across;
  s.all_rows = c->scales.elements() / c->across;
  s.rows_of_expert = c->matrix / c->across;
  s.within_ = size_of(x.expected->dtype()) == 2 ? 0x1p-7 : 0x1p-20;
  const ElementReader read_code(c->format);
  const ElementReader read(x.expected->dtype());
  s.seen_.assign(static_cast<std::size_t>(c->scales.elements()), kNaN);
  std::vector<double> loudest(s.seen_.size());
  std::vector<std::uint8_t> differs(s.seen_.size());
  for (Index i = 0; i < x.rows * x.columns; ++i) {
    const auto at = static_cast<std::size_t>(c->scale_index(i));
    differs[at] |= x.marks[static_cast<std::size_t>(i)] == Mark::differs;
    const Element code = read_code(c->code(i));
    if (code.nan || code.infinite || std::abs(code.value) <= loudest[at]) continue;
    const Element came = read(x.came(i));
    loudest[at] = std::abs(code.value);
    s.seen_[at] = came.infinite || came.value == 0.0 ? kNaN : came.value / code.value;
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

/// Everything that differs takes `scale(place)`; what holds everywhere has no place.
Hypothesis hypothesis_of(const Shown& s, const std::string& id, const std::string& phrase,
                         const std::function<double(Place2)>& scale, bool elsewhere) {
  const bool everywhere = s.holds(range_of(s.all_rows), range_of(s.all_columns), scale);
  Hypothesis h{"scales=" + id, phrase + (everywhere ? "" : s.where(elsewhere)), Stage::input};
  std::vector<std::pair<Index, double>> changes;
  for (const Index r : s.rows) {
    for (const Index c : s.columns) changes.emplace_back(s.at({r, c}), scale({r, c}));
  }
  h.alter = [changes = std::move(changes)](Call& call) {
    Tensor scales = call.input("scales");
    for (const auto& [at, value] : changes) {
      if (size_of(scales.dtype()) != 1) {
        scales.as<float>()[at] = static_cast<float>(value);
      } else if (value >= 0x1p-127 && value <= 0x1p127) {
        scales.as<std::uint8_t>()[at] = static_cast<std::uint8_t>(std::ilogb(value) + 127);
      } else {
        return false;
      }
    }
    call.replace("scales", std::move(scales));
    return true;
  };
  return h;
}

/// What may have been made of every scale.
struct ValueRule {
  const char* id;
  const char* words;
  double (*value)(double);
};
constexpr ValueRule kValueRules[] = {
    {"left_out", "the scales are left out", [](double) { return 1.0; }},
    {"twice", "the scales are applied twice", [](double v) { return v * v; }},
    {"halved", "every scale is half of what it is (a byte too low by one)",
     [](double v) { return 0.5 * v; }},
    {"doubled", "every scale is twice what it is (a byte too high by one)",
     [](double v) { return 2.0 * v; }},
    {"inverse", "x is divided by the scales", [](double v) { return 1.0 / v; }},
};

/// Where every scale may have been read.
struct SourceRule {
  const char* id;
  std::string words;
  Source source;
};

std::vector<SourceRule> sources_of(const Shown& s) {
  std::vector<SourceRule> list;
  if (s.all_columns > 1) {
    list.push_back(
        {"first_block", "every block takes the scale of the first of its row", [](Place2 p) {
           return Place2{p.row, 0};
         }});
  }
  if (s.all_rows > 1) {
    list.push_back({"first_row", "every row takes the scales of row 0", [](Place2 p) {
                      return Place2{0, p.column};
                    }});
  }
  if (s.all_rows > s.rows_of_expert) {
    list.push_back({"expert_0", "every expert takes the scales of expert 0", [&s](Place2 p) {
                      return Place2{p.row % s.rows_of_expert, p.column};
                    }});
  }
  for (Index every = 2; every <= 16 && every < s.all_columns; every *= 2) {
    list.push_back(
        {"first_of_every",
         "every " + std::to_string(every) + " blocks take the scale of the first of them",
         [every](Place2 p) {
           return Place2{p.row, p.column / every * every};
         }});
  }
  return list;
}

/// One place late or early in memory: across the ends of rows.
SourceRule in_memory(const Shown& s, Index by) {
  const std::string side = by < 0 ? "before" : "after";
  return {"source", "blocks take the scale that lies one " + side + " theirs in memory",
          [&s, by](Place2 p) {
            const Index at = std::clamp<Index>(s.at(p) + by, 0, s.all_rows * s.all_columns - 1);
            return Place2{at / s.all_columns, at % s.all_columns};
          }};
}

/// Scales that lie at one distance, coming round at the ends.
std::optional<SourceRule> move_of(const Shown& s) {
  const Index rows = s.all_rows;
  const Index columns = s.all_columns;
  if (rows * columns > kMostMoves) return std::nullopt;
  const auto moved = [rows, columns](Place2 p, Place2 by) {
    return Place2{(p.row + by.row + rows) % rows, (p.column + by.column + columns) % columns};
  };
  std::optional<Place2> best;
  const auto length = [](Place2 p) { return std::abs(p.row) + std::abs(p.column); };
  for (Index dr = -(rows - 1) / 2; dr <= rows / 2; ++dr) {
    for (Index dc = -(columns - 1) / 2; dc <= columns / 2; ++dc) {
      const Place2 by{dr, dc};
      if ((dr == 0 && dc == 0) || (best && length(*best) <= length(by))) continue;
      if (s.holds([&](Place2 p) { return s.given(moved(p, by)); })) best = by;
    }
  }
  if (!best) return std::nullopt;
  const auto step_in_words = [](Index by, const char* noun) {
    const Index n = std::abs(by);
    return std::to_string(n) + " " + noun + (n == 1 ? "" : "s") + (by < 0 ? " before" : " after");
  };
  std::string words;
  if (best->row != 0) words += step_in_words(best->row, "row");
  if (best->column != 0)
    words += (words.empty() ? "" : " and ") + step_in_words(best->column, "block");
  return SourceRule{"source", "the scales are those of " + words,
                    [moved, by = *best](Place2 p) { return moved(p, by); }};
}

/// For each of `lines` another of `all` from which it may be taken; of several alike the first.
std::optional<std::vector<Index>> taken_from(
    const std::vector<Index>& lines, Index all,
    const std::function<bool(Index line, Index from)>& fits) {
  std::vector<Index> sources;
  for (const Index line : lines) {
    Index from = 0;
    while (from < all && (from == line || !fits(line, from))) ++from;
    if (from == all) return std::nullopt;
    sources.push_back(from);
  }
  return sources;
}

Index source_of(const std::vector<Index>& lines, const std::vector<Index>& sources, Index line) {
  const auto at = std::lower_bound(lines.begin(), lines.end(), line) - lines.begin();
  return sources[static_cast<std::size_t>(at)];
}

}  // namespace

void add_measured_blocks(const Call& call, const Output& output, std::vector<Hypothesis>& list) {
  const std::optional<Shown> s = Shown::of(call, output);
  if (!s || s->differing < kLeastBlocks) return;
  const auto add = [&](const std::string& id, const std::string& words, const auto& scale,
                       bool elsewhere) {
    if (!s->holds(scale)) return false;
    list.push_back(hypothesis_of(*s, id, words, scale, elsewhere));
    return true;
  };
  for (const ValueRule& rule : kValueRules) {
    const auto scale = [&](Place2 p) { return rule.value(s->given(p)); };
    if (add(rule.id, rule.words, scale, false)) return;
  }
  const auto add_source = [&](const SourceRule& rule) {
    return add(
        rule.id, rule.words, [&](Place2 p) { return s->given(rule.source(p)); }, true);
  };
  for (const SourceRule& rule : sources_of(*s)) {
    if (add_source(rule)) return;
  }
  if (const auto move = move_of(*s)) {
    add_source(*move);
    return;
  }
  if (add_source(in_memory(*s, -1)) || add_source(in_memory(*s, 1))) return;
  // Some rows, each another one.
  const auto rows = static_cast<Index>(s->rows.size());
  const auto row_fits = [&](Index r, Index from) {
    return s->holds({r}, s->columns, [&](Place2 p) { return s->given({from, p.column}); });
  };
  if (rows >= 2 && rows <= kMostRows) {
    if (const auto from = taken_from(s->rows, s->all_rows, row_fits)) {
      std::string words;
      for (const Index r : *from) words += (words.empty() ? "" : ", ") + std::to_string(r);
      add(
          "source", "scales are those of rows " + words,
          [&](Place2 p) {
            return s->given({source_of(s->rows, *from, p.row), p.column});
          },
          false);
      return;
    }
  }
  // The same of columns.
  const auto column_fits = [&](Index c, Index from) {
    return s->holds(s->rows, {c}, [&](Place2 p) { return s->given({p.row, from}); });
  };
  if (static_cast<Index>(s->columns.size()) <= kMostColumns && rows >= 2 * kLeastBlocks) {
    if (const auto from = taken_from(s->columns, s->all_columns, column_fits)) {
      std::string words;
      for (std::size_t i = 0; i < from->size(); ++i) {
        words += (words.empty() ? "block " : ", block ") + std::to_string(s->columns[i]) +
                 " takes the scale of block " + std::to_string((*from)[i]);
      }
      add(
          "source", words,
          [&](Place2 p) {
            return s->given({p.row, source_of(s->columns, *from, p.column)});
          },
          true);
    }
  }
}

}  // namespace mxo
