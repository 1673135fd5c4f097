// The picture: scales, ticks, polylines.
#include "tools/train/plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace mxo::tools {
namespace {

using Points = std::vector<std::pair<double, double>>;

// Distinct in most kinds of colour vision (Okabe and Ito), dashed where two would lie together.
constexpr const char* kColours[] = {"#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f"};
constexpr const char* kDashes[] = {"none", "7 3", "2 2", "9 3 2 3"};
constexpr int kWidth = 800;
constexpr int kLeft = 64;
constexpr int kRight = 230;  // of the legend
constexpr std::size_t kMostPoints = 240;

struct Range {
  double low;
  double high;
};

/// 1, 2 or 5 times a power of ten, about `count` of them in the range.
double tick_of(Range range, int count) {
  const double raw = (range.high - range.low) / count;
  const double ten = std::pow(10.0, std::floor(std::log10(raw)));
  const double lead = raw / ten;
  return ten * (lead < 1.5 ? 1.0 : lead < 3.5 ? 2.0 : lead < 7.5 ? 5.0 : 10.0);
}

/// One coordinate system.
class Panel {
 public:
  Panel(int top, int height, Range x, Range y) : top_(top), height_(height), x_(x), y_(y) {}

  std::string axes(const std::string& label, const std::string& x_label) const {
    const int right = kWidth - kRight;
    std::string svg;
    const double step = tick_of(y_, 5);
    for (double y = std::ceil(y_.low / step) * step; y <= y_.high + step * 1e-9; y += step) {
      const double shown = std::abs(y) < step * 1e-9 ? 0.0 : y;
      svg += fmt::format("<path class='grid' d='M{} {:.1f}H{}'/>", kLeft, at_y(y), right);
      svg += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{:g}</text>\n", kLeft - 8,
                         at_y(y) + 4, shown);
    }
    const double along = tick_of(x_, 6);
    for (double x = std::ceil(x_.low / along) * along; x <= x_.high; x += along) {
      svg += fmt::format("<path class='grid' d='M{:.1f} {}v{}'/>", at_x(x), top_, height_);
      svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{:g}</text>\n", at_x(x),
                         top_ + height_ + 18, x);
    }
    svg += fmt::format("<path class='axis' d='M{} {}v{}H{}'/>\n", kLeft, top_, height_, right);
    svg += fmt::format(
        "<text transform='translate(18 {}) rotate(-90)' text-anchor='middle'>{}</text>\n",
        top_ + height_ / 2, label);
    svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>\n", (kLeft + right) / 2,
                       top_ + height_ + 36, x_label);
    return svg;
  }

  std::string line(const Points& points, std::size_t number, const char* kind = "curve") const {
    std::string path;
    for (const auto& [x, y] : points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", at_x(x), at_y(y));
    }
    return fmt::format("<path class='{}' {} d='{}'/>\n", kind, stroke(number), path);
  }

  static std::string stroke(std::size_t number) {
    return fmt::format("stroke='{}' stroke-dasharray='{}'", kColours[number % std::size(kColours)],
                       kDashes[number % std::size(kDashes)]);
  }

 private:
  double at_x(double x) const {
    return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kRight - kLeft);
  }
  double at_y(double y) const { return top_ + (y_.high - y) / (y_.high - y_.low) * height_; }
  int top_;
  int height_;
  Range x_;
  Range y_;
};

/// Means over the `window` steps up to each point drawn.
Points smoothed(const std::vector<double>& values, std::size_t window) {
  Points points;
  const std::size_t every = values.size() / kMostPoints + 1;
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i];
    if (i >= window) sum -= values[i - window];
    const bool last = i + 1 == values.size();
    if ((i % every != 0 && !last) || !std::isfinite(sum)) continue;
    points.emplace_back(static_cast<double>(i + 1),
                        sum / static_cast<double>(std::min(i + 1, window)));
  }
  return points;
}

/// What was taken at some steps.
Points taken(const std::vector<float>& values) {
  Points points;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) points.emplace_back(static_cast<double>(i + 1), values[i]);
  }
  return points;
}

std::vector<double> wide(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// 100 (b - a) / a, step by step.
std::vector<double> percent(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> parts(std::min(a.size(), b.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = 100.0 * (static_cast<double>(b[i]) / static_cast<double>(a[i]) - 1.0);
  }
  return parts;
}

Range range_of(const std::vector<Points>& lines) {
  Range range{INFINITY, -INFINITY};
  for (const Points& points : lines) {
    for (const auto& [x, y] : points) {
      range.low = std::min(range.low, y);
      range.high = std::max(range.high, y);
    }
  }
  if (!(range.low <= range.high)) return {0.0, 1.0};
  const double margin =
      std::max(0.05 * (range.high - range.low), 1e-3 * std::abs(range.high) + 1e-6);
  return {range.low - margin, range.high + margin};
}

}  // namespace

std::string loss_plot(const std::vector<Curve>& curves) {
  std::size_t steps = 2;
  for (const Curve& curve : curves) steps = std::max(steps, curve.losses.size());
  const std::size_t window = std::max<std::size_t>(1, steps / 25);
  std::vector<Points> losses;
  std::vector<Points> apart;
  for (const Curve& curve : curves) {
    losses.push_back(smoothed(wide(curve.losses), window));
    apart.push_back(smoothed(percent(curves[0].losses, curve.losses), window));
  }
  const bool several = curves.size() > 1;
  const int height = several ? 600 : 400;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {0} {1}' width='{0}' height='{1}' "
      "font-family='sans-serif' font-size='12'>\n<style>.grid{{stroke:#ddd}}.axis{{stroke:#333;"
      "fill:none}}.curve{{fill:none;stroke-width:1.6}}.held{{fill:none;stroke-width:0.7}}</style>\n"
      "<rect width='100%' height='100%' fill='white'/>\n",
      kWidth, height);
  const Range x{0.0, static_cast<double>(steps)};
  const Panel upper(20, 320, x, range_of(losses));
  svg += upper.axes(fmt::format("loss, nats a byte (mean of {} steps)", window),
                    several ? "" : "step");
  for (std::size_t i = 0; i < curves.size(); ++i) {
    svg += upper.line(losses[i], i);
    const Points held_out = taken(curves[i].held_out);
    if (!held_out.empty()) svg += upper.line(held_out, i, "held");
  }
  if (several) {
    const Panel lower(390, 150, x, range_of(apart));
    svg += lower.axes(fmt::format("% above {}", curves[0].name), "step");
    for (std::size_t i = 0; i < curves.size(); ++i) svg += lower.line(apart[i], i);
  }
  for (std::size_t i = 0; i < curves.size(); ++i) {
    const int y = 34 + 20 * static_cast<int>(i);
    const int left = kWidth - kRight + 14;
    svg += fmt::format("<path class='curve' {} d='M{} {}h26'/><text x='{}' y='{}'>{}</text>\n",
                       Panel::stroke(i), left, y, left + 32, y + 4, curves[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace mxo::tools
