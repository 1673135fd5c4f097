// What the codes of a few blocks along the depth were taken for, where everything else is right.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/scales.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kRun = 32;             ///< depth that is looked at as one
constexpr std::size_t kMostRuns = 4;   ///< that may have changed
constexpr Index kMostEquations = 448;  ///< outputs of a line
constexpr Index kLines = 4;            ///< that are measured
constexpr double kFit = 0.0025;        ///< of an output that may be left: half a unit of bf16
constexpr double kNear = 0.15;         ///< of the root mean square, of values that are the same

using Line = std::vector<double>;

/// Lines of one side of a product, and those of the other that they meet.
struct Sides {
  const Product& p;
  Side side;
  const ProductSide& factor() const { return side == Side::a ? p.a : p.b; }
  Line own(Index g, Index i) const { return side == Side::a ? p.line_a(g, i) : p.line_b(g, i); }
  Line other(Index g, Index j) const { return side == Side::a ? p.line_b(g, j) : p.line_a(g, j); }
  Index output(const Output& y, Index g, Index i, Index j) const {
    return side == Side::a ? p.output_row(g, i) * y.columns + j
                           : p.output_row(g, j) * y.columns + i;
  }
  Index first(Index g) const { return side == Side::a ? p.first_line(g) : 0; }
  Index last(Index g) const { return side == Side::a ? p.last_line(g) : p.n; }
  Index first_other(Index g) const { return side == Side::a ? 0 : p.first_line(g); }
  Index last_other(Index g) const { return side == Side::a ? p.n : p.last_line(g); }
  /// Where code d of a line lies.
  Index code(Index g, Index i, Index d) const {
    if (p.wgrad) return (p.begin(g) + d) * (side == Side::a ? p.a_lines : p.n) + i;
    return (side == Side::a ? i : g * p.n + i) * p.k + d;
  }
  Index scale(Index g, Index i, Index d) const {
    return side == Side::a ? p.scale_a(g, i, d) : p.scale_b(g, i, d);
  }
};

/// A line, the runs of its depth that changed, and the values they were taken for.
struct Changed {
  Index group;
  Index line;
  std::vector<Index> runs;
  Line was;
  Line is;  ///< like `was` outside of the runs
};

class Equations {
 public:
  Equations(const Sides& s, const Output& y, Index g, Index i, const std::vector<Line>& others,
            const std::vector<Index>& at)
      : others_(others), was_(s.own(g, i)) {
    const ElementReader read(y.expected->dtype());
    double square = 0.0;
    std::vector<double> came;
    for (const Index j : at) {
      const Element e = read(y.came(s.output(y, g, i, j)));
      finite_ = finite_ && !e.nan && !e.infinite;
      came.push_back(e.value);
      square += e.value * e.value;
    }
    const double least = std::sqrt(square / static_cast<double>(at.size())) / 8.0;
    finite_ = finite_ && least > 0.0;
    for (std::size_t e = 0; e < at.size() && finite_; ++e) {
      double owed = 0.0;
      for (std::size_t d = 0; d < was_.size(); ++d) owed += was_[d] * others[e][d];
      weight_.push_back(1.0 / std::max(std::abs(came[e]), least));
      rest_.push_back((came[e] - owed) * weight_.back());
      finite_ = finite_ && std::isfinite(rest_.back());
    }
    all_ = rest_;
  }

  std::optional<Changed> solved(Index g, Index i) {
    if (!finite_) return std::nullopt;
    Changed c{g, i, {}, was_, was_};
    std::vector<double> change;
    while (left() > kFit) {
      // A run has as many unknowns as it is long: three outputs for each.
      if (c.runs.size() == kMostRuns ||
          (static_cast<Index>(c.runs.size()) + 1) * kRun * 3 > static_cast<Index>(rest_.size())) {
        return std::nullopt;
      }
      const Index run = best_run(c.runs);
      if (run < 0) return std::nullopt;
      c.runs.push_back(run);
      change = fitted(c.runs, all_);
      if (change.empty()) return std::nullopt;
      rest_ = all_;
      subtract(c.runs, change, rest_);
    }
    if (c.runs.empty()) return std::nullopt;
    for (std::size_t r = 0; r < c.runs.size(); ++r) {
      for (std::size_t d = 0; d < length(c.runs[r]); ++d) {
        c.is[static_cast<std::size_t>(c.runs[r] * kRun) + d] += change[r * kRun + d];
      }
    }
    std::sort(c.runs.begin(), c.runs.end());
    return c;
  }

 private:
  std::size_t length(Index run) const {
    return std::min<std::size_t>(kRun, was_.size() - static_cast<std::size_t>(run * kRun));
  }
  double left() const {
    double sum = 0.0;
    for (const double v : rest_) sum += v * v;
    return std::sqrt(sum / static_cast<double>(rest_.size()));
  }
  double factor(std::size_t e, Index run, std::size_t d) const {
    return others_[e][static_cast<std::size_t>(run * kRun) + d] * weight_[e];
  }
  /// Least squares over all elements of some runs; those beyond the end are zero.
  std::vector<double> fitted(const std::vector<Index>& runs,
                             const std::vector<double>& right) const {
    const std::size_t n = runs.size() * kRun;
    std::vector<double> matrix(n * n);
    std::vector<double> x(n);
    std::vector<double> row(n);
    for (std::size_t e = 0; e < right.size(); ++e) {
      for (std::size_t u = 0; u < n; ++u) {
        const Index run = runs[u / kRun];
        row[u] = u % kRun < length(run) ? factor(e, run, u % kRun) : 0.0;
      }
      for (std::size_t u = 0; u < n; ++u) {
        for (std::size_t v = 0; v <= u; ++v) matrix[u * n + v] += row[u] * row[v];
        x[u] += row[u] * right[e];
      }
    }
    double most = 0.0;
    for (std::size_t u = 0; u < n; ++u) most = std::max(most, matrix[u * n + u]);
    for (std::size_t u = 0; u < n; ++u) {
      matrix[u * n + u] += 1e-9 * most;
      for (std::size_t v = u + 1; v < n; ++v) matrix[u * n + v] = matrix[v * n + u];
    }
    std::vector<double> inverse;
    return solve(matrix, x, inverse) ? x : std::vector<double>{};
  }
  void subtract(const std::vector<Index>& runs, const std::vector<double>& x,
                std::vector<double>& from) const {
    for (std::size_t e = 0; e < from.size(); ++e) {
      for (std::size_t r = 0; r < runs.size(); ++r) {
        for (std::size_t d = 0; d < length(runs[r]); ++d) {
          from[e] -= factor(e, runs[r], d) * x[r * kRun + d];
        }
      }
    }
  }
  /// The run that explains most of what is left.
  Index best_run(const std::vector<Index>& taken) const {
    Index best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (Index run = 0; run < ceil_div(static_cast<Index>(was_.size()), kRun); ++run) {
      if (std::find(taken.begin(), taken.end(), run) != taken.end()) continue;
      const std::vector<double> x = fitted({run}, rest_);
      if (x.empty()) continue;
      std::vector<double> rest = rest_;
      subtract({run}, x, rest);
      double sum = 0.0;
      for (const double v : rest) sum += v * v;
      if (sum < least) {
        least = sum;
        best = run;
      }
    }
    return best;
  }

  const std::vector<Line>& others_;
  Line was_;
  std::vector<double> weight_;
  std::vector<double> rest_;
  std::vector<double> all_;
  bool finite_ = true;
};

/// Lines of a side in which elements fail, by group.
struct Failing {
  Index group;
  std::vector<Index> lines;
};

std::vector<Failing> failing_of(const Sides& s, const Output& y) {
  std::vector<Failing> found;
  for (Index g = 0; g < s.p.groups(); ++g) {
    Failing f{g, {}};
    for (Index i = s.first(g); i < s.last(g); ++i) {
      Index wrong = 0;
      for (Index j = s.first_other(g); j < s.last_other(g); ++j) {
        wrong += y.marks[static_cast<std::size_t>(s.output(y, g, i, j))] == Mark::differs;
      }
      // A change of a line shows in many of its outputs.
      if (wrong * 16 > s.last_other(g) - s.first_other(g)) f.lines.push_back(i);
    }
    if (!f.lines.empty()) found.push_back(std::move(f));
  }
  return found;
}

std::vector<Changed> changed_lines(const Sides& s, const Output& y,
                                   const std::vector<Failing>& failing) {
  std::vector<Changed> lines;
  for (const Failing& f : failing) {
    if (static_cast<Index>(lines.size()) >= kLines) break;
    std::vector<Index> at;
    const Index n = s.last_other(f.group) - s.first_other(f.group);
    const Index step = std::max<Index>(1, ceil_div(n, kMostEquations));
    for (Index j = 0; j < n; j += step) at.push_back(s.first_other(f.group) + j);
    if (static_cast<Index>(at.size()) < 3 * kRun) continue;
    std::vector<Line> others;
    for (const Index j : at) others.push_back(s.other(f.group, j));
    const auto count = static_cast<Index>(f.lines.size());
    for (Index l = 0; l < std::min<Index>(2, count); ++l) {
      const Index i = f.lines[static_cast<std::size_t>(l == 0 ? 0 : count / 2)];
      auto changed = Equations(s, y, f.group, i, others, at).solved(f.group, i);
      if (!changed) return {};
      lines.push_back(std::move(*changed));
    }
  }
  return lines;
}

/// Whether fn(value) is what every changed element was taken for.
template <typename Fn>
bool all_are(const std::vector<Changed>& lines, Fn fn) {
  for (const Changed& c : lines) {
    double off = 0.0;
    double square = 0.0;
    for (const Index run : c.runs) {
      const auto end = std::min(c.was.size(), static_cast<std::size_t>((run + 1) * kRun));
      for (auto d = static_cast<std::size_t>(run * kRun); d < end; ++d) {
        const double owed = fn(c.was[d]);
        off += (c.is[d] - owed) * (c.is[d] - owed);
        square += std::max(owed * owed, c.was[d] * c.was[d]);
      }
    }
    if (!(off <= kNear * kNear * square)) return false;
  }
  return true;
}

/// Codes of the changed runs of all failing lines, each by what fn makes of it.
Hypothesis hypothesis_of(const Sides& s, const std::vector<Failing>& failing,
                         const std::vector<Index>& runs, const char* id, const std::string& words,
                         std::uint8_t (*fn)(std::uint8_t)) {
  std::vector<Index> at;
  std::vector<Index> depth;
  for (const Index run : runs) {
    for (Index d = run * kRun; d < (run + 1) * kRun; ++d) depth.push_back(d);
  }
  for (const Failing& f : failing) {
    for (const Index i : f.lines) {
      for (const Index d : depth) {
        if (d < s.p.depth(f.group)) at.push_back(s.code(f.group, i, d));
      }
    }
  }
  const std::string name = s.factor().codes_name;
  const std::string where =
      s.p.wgrad ? ranges_in_words("row", depth) + " of each group" : "k = " + ranges(depth);
  Hypothesis h{name + "=" + id, words + " in " + where + " of " + s.factor().name, Stage::input};
  h.alter = [name, at = std::move(at), fn](Call& call) {
    Tensor codes = call.input(name);
    for (const Index i : at) {
      std::uint8_t& code = codes.as<std::uint8_t>()[i];
      code = fn(code);
    }
    call.replace(name, std::move(codes));
    return true;
  };
  return h;
}

}  // namespace

void add_changed_codes(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || y.name != p->output || y.left == 0) return;
  for (const Side side : {Side::a, Side::b}) {
    const Sides s{*p, side};
    if (size_of(s.factor().codes->dtype()) != 1 || !is_minifloat8(s.factor().format)) continue;
    const std::vector<Failing> failing = failing_of(s, y);
    const std::vector<Changed> lines = changed_lines(s, y, failing);
    if (lines.empty()) continue;
    const std::vector<Index>& runs = lines.front().runs;
    const bool alike =
        std::all_of(lines.begin(), lines.end(), [&](const Changed& c) { return c.runs == runs; });
    if (!alike) continue;
    const auto add = [&](const char* id, const char* words, std::uint8_t (*fn)(std::uint8_t)) {
      list.push_back(hypothesis_of(s, failing, runs, id, words, fn));
    };
    if (all_are(lines, [](double v) { return std::abs(v); })) {
      add("signs_lost", "signs are lost", [](std::uint8_t c) { return std::uint8_t(c & 0x7F); });
    } else if (all_are(lines, [](double v) { return -v; })) {
      add("negated", "signs are turned", [](std::uint8_t c) { return std::uint8_t(c ^ 0x80); });
    } else if (all_are(lines, [](double) { return 0.0; })) {
      add("zero", "codes are zero", [](std::uint8_t) { return std::uint8_t{0}; });
    }
  }
}

}  // namespace mxo
