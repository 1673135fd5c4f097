// Heat map and histogram; colours and fonts are the page's.
#include "golden/reports/html_figures.h"

#include <algorithm>
#include <cmath>

#include "golden/reports/text.h"

namespace mxo {
namespace {

constexpr double kLeastCell = 10;
constexpr double kMostCell = 44;
constexpr double kField = 420;  // that few blocks are stretched to
constexpr double kLeft = 64;    // of the field: row numbers
constexpr double kTop = 36;     // column numbers
constexpr Index kMostGroupNames = 24;

std::string number(double value) { return number_text(value); }

std::string text_at(double x, double y, std::string_view anchor, const std::string& words) {
  std::string text = "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"";
  return text.append(anchor) + "\">" + words + "</text>";
}

std::string line(std::string_view kind, double x1, double y1, double x2, double y2) {
  std::string text = "<line class=\"";
  return text.append(kind) + "\" x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" +
         number(x2) + "\" y2=\"" + number(y2) + "\"/>";
}

std::string rectangle(const std::string& kind, double x, double y, double w, double h,
                      const std::string& title = {}) {
  std::string text = "<rect class=\"" + kind + "\" x=\"" + number(x) + "\" y=\"" + number(y) +
                     "\" width=\"" + number(w) + "\" height=\"" + number(h) + "\"";
  return title.empty() ? text + "/>" : text + "><title>" + title + "</title></rect>";
}

/// Steps of the legend: the share of a block that differs is at most this.
struct Step {
  double share;
  const char* words;
};
constexpr Step kSteps[] = {{0.001, "to 0.1 %"}, {0.01, "to 1 %"}, {0.03, "to 3 %"},
                           {0.1, "to 10 %"},    {0.3, "to 30 %"}, {0.999999, "to 100 %"},
                           {1, "all"}};

std::string step_of(double share) {
  for (std::size_t s = 0; s < std::size(kSteps); ++s) {
    if (share <= kSteps[s].share) return "h" + std::to_string(s + 1);
  }
  return "h7";
}

std::string from_to(const char* what, Index begin, Index step, Index extent) {
  return std::string(what) + " " + std::to_string(begin) + " to " +
         std::to_string(std::min(begin + step, extent) - 1);
}

/// The field's rows and columns as the comparator saw them.
struct Field {
  explicit Field(const TensorVerdict& tensor) : heat(tensor.heat) {
    columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    Index elements = 1;
    for (const Index extent : tensor.shape) elements *= extent;
    rows = columns == 0 ? 0 : elements / columns;
    const auto most = static_cast<double>(std::max<Index>({heat.rows, heat.columns, 1}));
    cell = std::clamp(std::floor(kField / most), kLeastCell, kMostCell);
  }
  double width() const { return static_cast<double>(heat.columns) * cell; }
  double height() const { return static_cast<double>(heat.rows) * cell; }
  double y_of(Index row) const {
    return kTop + static_cast<double>(row) / static_cast<double>(heat.row_step) * cell;
  }

  const HeatMap& heat;
  Index rows = 0;
  Index columns = 0;
  double cell = kLeastCell;  ///< side of a block
};

std::string cells(const Field& field) {
  const HeatMap& heat = field.heat;
  std::string svg;
  for (Index r = 0; r < heat.rows; ++r) {
    for (Index c = 0; c < heat.columns; ++c) {
      const Index n = heat.differing[static_cast<std::size_t>(r * heat.columns + c)];
      if (n == 0) continue;
      const Index row = r * heat.row_step;
      const Index column = c * heat.column_step;
      const Index size = (std::min(row + heat.row_step, field.rows) - row) *
                         (std::min(column + heat.column_step, field.columns) - column);
      svg += rectangle("cell " + step_of(static_cast<double>(n) / static_cast<double>(size)),
                       kLeft + static_cast<double>(c) * field.cell,
                       kTop + static_cast<double>(r) * field.cell, field.cell - 1, field.cell - 1,
                       from_to("rows", row, heat.row_step, field.rows) + ", " +
                           from_to("columns", column, heat.column_step, field.columns) + ": " +
                           std::to_string(n) + " of " + std::to_string(size) + " differ");
    }
  }
  return svg;
}

/// About eight numbers along either side.
std::string axes(const Field& field) {
  const HeatMap& heat = field.heat;
  std::string svg = line("axis", kLeft - 2, kTop, kLeft - 2, kTop + field.height()) +
                    line("axis", kLeft, kTop - 2, kLeft + field.width(), kTop - 2) +
                    text_at(kLeft, 12, "start", "column") + text_at(kLeft - 8, 12, "end", "row");
  const Index row_tick = std::max<Index>(heat.rows > 8 ? 2 : 1, ceil_div(heat.rows, 8));
  for (Index r = 0; r < heat.rows; r += row_tick) {
    svg += text_at(kLeft - 6, kTop + static_cast<double>(r) * field.cell + 9, "end",
                   std::to_string(r * heat.row_step));
  }
  const Index column_tick = std::max<Index>(field.cell > 40 ? 1 : 6, ceil_div(heat.columns, 8));
  for (Index c = 0; c < heat.columns; c += column_tick) {
    svg += text_at(kLeft + static_cast<double>(c) * field.cell, kTop - 7, "start",
                   std::to_string(c * heat.column_step));
  }
  return svg;
}

std::string group_lines(const Field& field, const TensorVerdict& tensor) {
  std::string svg;
  const auto count = static_cast<Index>(tensor.groups.size());
  double named = 0;  // where the last name stands
  for (const Slice& group : tensor.groups) {
    const double end = field.y_of(std::min(group.end, field.rows));
    svg += line("group", kLeft, end, kLeft + field.width(), end);
    const double middle = (field.y_of(group.begin) + end) / 2 + 4;
    if (count > kMostGroupNames || group.begin == group.end || middle < named + 12) continue;
    named = middle;
    svg += text_at(kLeft + field.width() + 6, middle, "start",
                   std::string(group_word(tensor)) + " " + std::to_string(group.index));
  }
  return svg;
}

std::string legend(double y) {
  std::string svg = text_at(kLeft, y + 10, "start", "of a block differ:");
  double x = kLeft + 98;
  for (std::size_t s = 0; s < std::size(kSteps); ++s) {
    svg += rectangle("h" + std::to_string(s + 1), x, y, 12, 12) +
           text_at(x + 16, y + 10, "start", kSteps[s].words);
    x += 74;
  }
  return svg;
}

std::string opening(double width, double height, const std::string& label) {
  return "<svg role=\"img\" aria-label=\"" + label + "\" width=\"" + number(width) +
         "\" height=\"" + number(height) + "\">";
}

/// Bucket 0 holds 0, bucket b > 0 holds 2^(b-2) + 1 to 2^(b-1).
std::string bucket_name(std::size_t bucket) {
  if (bucket < 3) return std::to_string(bucket);
  const int high = static_cast<int>(bucket) - 1;
  if (high > 13) return "to 2^" + std::to_string(high);
  return std::to_string((1 << (high - 1)) + 1) + "-" + std::to_string(1 << high);
}

}  // namespace

std::string heat_map_svg(const TensorVerdict& tensor) {
  const Field field(tensor);
  const double below = kTop + field.height() + 12;
  return opening(std::max(kLeft + field.width() + 90, kLeft + 640), below + 16,
                 "differing elements by rows and columns") +
         rectangle("field", kLeft, kTop, field.width(), field.height()) + axes(field) +
         cells(field) + group_lines(field, tensor) + legend(below) + "</svg>";
}

std::string histogram_svg(const TensorVerdict& tensor) {
  constexpr double width = 62;
  constexpr double height = 110;
  constexpr double top = 18;
  const std::vector<Index>& counts = tensor.histogram;
  const Index most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  std::string svg = opening(static_cast<double>(counts.size()) * width + 40, top + height + 36,
                            "elements by distance in ulp");
  svg += line("axis", 0, top + height, static_cast<double>(counts.size()) * width, top + height);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    const double x = static_cast<double>(b) * width;
    // On a log scale: equal elements dwarf all others.
    const double h = counts[b] == 0 ? 0
                                    : height * std::log1p(static_cast<double>(counts[b])) /
                                          std::log1p(static_cast<double>(most));
    const std::string label = bucket_name(b);
    svg += rectangle(b == 0 ? "bar0" : "bar", x + 6, top + height - h, width - 12, h,
                     label + " ulp: " + std::to_string(counts[b]));
    svg += text_at(x + width / 2, top + height + 14, "middle", label);
    if (counts[b] > 0) {
      svg += text_at(x + width / 2, top + height - h - 4, "middle", std::to_string(counts[b]));
    }
  }
  return svg + text_at(0, top + height + 30, "start", "distance in ulp; bars on a log scale") +
         "</svg>";
}

}  // namespace mxo
