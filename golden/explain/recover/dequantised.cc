// Which scale every block of a dequantised tensor was multiplied by.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>

#include "golden/explain/name/places.h"
#include "golden/explain/find/product/finders.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

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

  const std::vector<Index>& rows() const { return rows_; }
  const std::vector<Index>& columns() const { return columns_; }
  Index all_rows() const { return scale_rows_; }
  Index all_columns() const { return scale_columns_; }
  Index rows_of_expert() const { return expert_rows_; }
  Index differing() const { return differing_; }
  double given(Place2 p) const { return scale_value(*scales_, p.row * scale_columns_ + p.column); }
  bool may_be(Place2 p, double scale) const {
    const double seen = seen_[static_cast<std::size_t>(p.row * scale_columns_ + p.column)];
    return std::isnan(seen) || std::abs(seen - scale) <= within_ * std::abs(scale);
  }
  /// Whether fn(place) may be the scale of every block in the rows and columns that differ.
  template <typename Fn>
  bool holds(Fn fn) const {
    for (const Index r : rows_) {
      for (const Index c : columns_) {
        if (!may_be({r, c}, fn(Place2{r, c}))) return false;
      }
    }
    return true;
  }
  /// The same of all blocks.
  template <typename Fn>
  bool holds_everywhere(Fn fn) const {
    for (Index r = 0; r < scale_rows_; ++r) {
      for (Index c = 0; c < scale_columns_; ++c) {
        if (!may_be({r, c}, fn(Place2{r, c}))) return false;
      }
    }
    return true;
  }
  bool holds(const Source& source) const {
    return holds([&](Place2 p) { return given(source(p)); });
  }
  /// What differs in words, empty if it is everything; of what is read elsewhere, where not all of
  /// it need differ, if it is half.
  std::string where(bool elsewhere) const {
    const Index part = elsewhere ? 2 : 1;
    std::string text;
    if (static_cast<Index>(columns_.size()) * part < scale_columns_)
      text += ", in " + ranges_in_words("scale column", columns_);
    if (static_cast<Index>(rows_.size()) * part < scale_rows_)
      text += (text.empty() ? ", in " : " of ") + ranges_in_words("scale row", rows_);
    return text;
  }

 private:
  const Tensor* scales_ = nullptr;
  Index scale_rows_ = 0;
  Index scale_columns_ = 0;
  Index expert_rows_ = 0;
  std::vector<double> seen_;
  std::vector<Index> rows_;     ///< with a block that differs
  std::vector<Index> columns_;  ///< with one
  Index differing_ = 0;
  double within_ = 0;
};

std::optional<Shown> Shown::of(const Call& call, const Output& x) {
  if (call.op != "dequantize" || !call.has("codes") || !call.has("scales") ||
      call.set.text("scale_layout", "row_major") != "row_major" || call.has("group_ends") ||
      call.set.flag("transpose", false)) {
    return std::nullopt;
  }
  const Tensor& codes = call.input("codes");
  const Tensor& scales = call.input("scales");
  const Dtype format = call.set.format("format", "e4m3");
  if (codes.rank() < 2 || scales.rank() != codes.rank() || size_of(codes.dtype()) != 1 ||
      codes.elements() != x.rows * x.columns || codes.elements() == 0) {
    return std::nullopt;
  }
  Shown s;
  s.scales_ = &scales;
  s.scale_columns_ = scales.shape().back();
  s.scale_rows_ = s.scale_columns_ == 0 ? 0 : scales.elements() / s.scale_columns_;
  s.expert_rows_ = scales.extent(scales.rank() - 2);
  if (s.scale_rows_ == 0 || s.scale_columns_ == 0) return std::nullopt;
  const Index height = ceil_div(x.rows, s.scale_rows_);
  const Index width = ceil_div(x.columns, s.scale_columns_);
  if (ceil_div(x.rows, height) != s.scale_rows_ || ceil_div(x.columns, width) != s.scale_columns_)
    return std::nullopt;
  // Blocks of several experts are rows of one matrix where each expert has whole ones.
  if (codes.rank() > 2 && codes.extent(codes.rank() - 2) % height != 0) return std::nullopt;
  s.within_ = size_of(x.expected->dtype()) == 2 ? 0x1p-7 : 0x1p-20;
  const ElementReader read_code(format);
  const ElementReader read(x.expected->dtype());
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  s.seen_.assign(static_cast<std::size_t>(scales.elements()), kUnknown);
  std::vector<double> loudest(s.seen_.size());
  std::vector<std::uint8_t> differs(s.seen_.size());
  for (Index i = 0; i < codes.elements(); ++i) {
    const auto at =
        static_cast<std::size_t>(i / x.columns / height * s.scale_columns_ + i % x.columns / width);
    differs[at] |= x.marks[static_cast<std::size_t>(i)] == Mark::differs;
    const Element code = read_code(codes.as<std::uint8_t>()[i]);
    if (code.nan || code.infinite || std::abs(code.value) <= loudest[at]) continue;
    const Element came = read(x.came(i));
    loudest[at] = std::abs(code.value);
    s.seen_[at] = came.infinite || came.value == 0.0 ? kUnknown : came.value / code.value;
  }
  std::vector<std::uint8_t> row(static_cast<std::size_t>(s.scale_rows_));
  std::vector<std::uint8_t> column(static_cast<std::size_t>(s.scale_columns_));
  for (std::size_t i = 0; i < differs.size(); ++i) {
    if (!differs[i]) continue;
    // A sign or a code that came is no scale.
    if (std::isnan(s.seen_[i]) || s.seen_[i] < 0.0) return std::nullopt;
    const auto at = static_cast<Index>(i);
    row[static_cast<std::size_t>(at / s.scale_columns_)] = 1;
    column[static_cast<std::size_t>(at % s.scale_columns_)] = 1;
    ++s.differing_;
  }
  s.rows_ = marked(row);
  s.columns_ = marked(column);
  return s;
}

/// Everything that differs takes `scale(place)`; what holds everywhere has no place.
Hypothesis hypothesis_of(const Shown& s, std::string id, std::string phrase,
                         const std::function<double(Place2)>& scale, bool elsewhere) {
  const std::string where = s.holds_everywhere(scale) ? std::string() : s.where(elsewhere);
  Hypothesis h{"scales=" + std::move(id), std::move(phrase) + where, Stage::input};
  std::vector<std::pair<Index, double>> changes;
  for (const Index r : s.rows()) {
    for (const Index c : s.columns()) {
      changes.emplace_back(r * s.all_columns() + c, scale({r, c}));
    }
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

std::string step_in_words(Index by, const char* noun) {
  const Index n = std::abs(by);
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s") + (by < 0 ? " before" : " after");
}

/// Scales that lie at one distance, coming round at the ends.
std::optional<Place2> move_of(const Shown& s) {
  const Index rows = s.all_rows();
  const Index columns = s.all_columns();
  if (rows * columns > kMostMoves) return std::nullopt;
  std::optional<Place2> best;
  const auto length = [](Place2 p) { return std::abs(p.row) + std::abs(p.column); };
  for (Index dr = -(rows - 1) / 2; dr <= rows / 2; ++dr) {
    for (Index dc = -(columns - 1) / 2; dc <= columns / 2; ++dc) {
      const Place2 by{dr, dc};
      if ((dr == 0 && dc == 0) || (best && length(*best) <= length(by))) continue;
      const bool fits = s.holds([&](Place2 p) {
        return s.given({(p.row + dr + rows) % rows, (p.column + dc + columns) % columns});
      });
      if (fits) best = by;
    }
  }
  return best;
}

/// For a few columns the column whose scales each takes.
std::optional<std::vector<Index>> columns_of(const Shown& s) {
  if (static_cast<Index>(s.columns().size()) > kMostColumns ||
      static_cast<Index>(s.rows().size()) < 2 * kLeastBlocks) {
    return std::nullopt;
  }
  std::vector<Index> sources;
  for (const Index c : s.columns()) {
    Index found = -1;
    for (Index from = 0; from < s.all_columns() && found < 0; ++from) {
      bool fits = from != c;
      for (const Index r : s.rows()) fits = fits && s.may_be({r, c}, s.given({r, from}));
      if (fits) found = from;
    }
    if (found < 0) return std::nullopt;
    sources.push_back(found);
  }
  return sources;
}

/// For some rows the row whose scales each takes: one row each, and of several alike the first.
std::optional<std::vector<Index>> rows_of(const Shown& s) {
  if (s.rows().size() < 2 || static_cast<Index>(s.rows().size()) > kMostRows) return std::nullopt;
  std::vector<Index> sources;
  for (const Index r : s.rows()) {
    Index found = -1;
    for (Index from = 0; from < s.all_rows() && found < 0; ++from) {
      bool fits = from != r;
      for (const Index c : s.columns()) fits = fits && s.may_be({r, c}, s.given({from, c}));
      if (fits) found = from;
    }
    if (found < 0) return std::nullopt;
    sources.push_back(found);
  }
  return sources;
}

}  // namespace

void add_measured_blocks(const Call& call, const Output& output, std::vector<Hypothesis>& list) {
  const std::optional<Shown> s = Shown::of(call, output);
  if (!s || s->differing() < kLeastBlocks) return;
  const auto add = [&](std::string id, std::string phrase, const auto& scale,
                       bool elsewhere = true) {
    list.push_back(hypothesis_of(*s, std::move(id), std::move(phrase), scale, elsewhere));
  };
  const auto values = [&](const char* id, const char* phrase, auto value) {
    const auto scale = [&s, value](Place2 p) { return value(s->given(p)); };
    if (s->holds(scale)) add(id, phrase, scale, false);
    return s->holds(scale);
  };
  if (values("left_out", "the scales are left out", [](double) { return 1.0; })) return;
  if (values("twice", "the scales are applied twice", [](double v) { return v * v; })) return;
  if (values("halved", "every scale is half of what it is (a byte too low by one)",
             [](double v) { return 0.5 * v; })) {
    return;
  }
  if (values("doubled", "every scale is twice what it is (a byte too high by one)",
             [](double v) { return 2.0 * v; })) {
    return;
  }
  if (values("inverse", "x is divided by the scales", [](double v) { return 1.0 / v; })) return;
  const auto sources = [&](const char* id, const std::string& phrase, const Source& source) {
    if (!s->holds(source)) return false;
    add(id, phrase, [&](Place2 p) { return s->given(source(p)); });
    return true;
  };
  if (s->all_columns() > 1 &&
      sources("first_block", "every block takes the scale of the first of its row", [](Place2 p) {
        return Place2{p.row, 0};
      })) {
    return;
  }
  if (s->all_rows() > 1 &&
      sources("first_row", "every row takes the scales of row 0", [](Place2 p) {
        return Place2{0, p.column};
      })) {
    return;
  }
  const Index of_expert = s->rows_of_expert();
  if (s->all_rows() > of_expert &&
      sources("expert_0", "every expert takes the scales of expert 0", [of_expert](Place2 p) {
        return Place2{p.row % of_expert, p.column};
      })) {
    return;
  }
  for (const Index every : {2, 4, 8, 16}) {
    if (every >= s->all_columns()) break;
    if (sources("first_of_every",
                "every " + std::to_string(every) + " blocks take the scale of the first of them",
                [every](Place2 p) {
                  return Place2{p.row, p.column / every * every};
                })) {
      return;
    }
  }
  if (const auto by = move_of(*s)) {
    const Index rows = s->all_rows();
    const Index columns = s->all_columns();
    std::string words;
    if (by->row != 0) words += step_in_words(by->row, "row");
    if (by->column != 0)
      words += (words.empty() ? "" : " and ") + step_in_words(by->column, "block");
    sources("source", "the scales are those of " + words, [&](Place2 p) {
      return Place2{(p.row + by->row + rows) % rows, (p.column + by->column + columns) % columns};
    });
    return;
  }
  // One place late or early in memory: across the ends of rows.
  const Index width = s->all_columns();
  const Index last = s->all_rows() * width - 1;
  for (const Index by : {-1, 1}) {
    const std::string side = by < 0 ? "before" : "after";
    if (sources("source", "blocks take the scale that lies one " + side + " theirs in memory",
                [=](Place2 p) {
                  const Index at = std::clamp<Index>(p.row * width + p.column + by, 0, last);
                  return Place2{at / width, at % width};
                })) {
      return;
    }
  }
  if (const auto from = rows_of(*s)) {
    std::string words;
    for (std::size_t i = 0; i < from->size(); ++i)
      words += (i == 0 ? "" : ", ") + std::to_string((*from)[i]);
    add(
        "source", "scales are those of rows " + words,
        [&](Place2 p) {
          const auto at = std::lower_bound(s->rows().begin(), s->rows().end(), p.row);
          return s->given({(*from)[static_cast<std::size_t>(at - s->rows().begin())], p.column});
        },
        false);
    return;
  }
  if (const auto from = columns_of(*s)) {
    std::string words;
    for (std::size_t i = 0; i < from->size(); ++i) {
      words += (words.empty() ? "block " : ", block ") + std::to_string(s->columns()[i]) +
               " takes the scale of block " + std::to_string((*from)[i]);
    }
    add("source", words, [&](Place2 p) {
      const auto at = std::lower_bound(s->columns().begin(), s->columns().end(), p.column);
      return s->given({p.row, (*from)[static_cast<std::size_t>(at - s->columns().begin())]});
    });
  }
}

}  // namespace mxo
