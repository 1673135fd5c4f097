// Parts of the depth of an operand that were taken from elsewhere in it: a tile of another row,
// another place of K, another expert; or without their scales, signs or values.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/scales.h"
#include "golden/explain/recover/taking.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

using Line = Sides::Line;

constexpr Index kLines = 6;         ///< failing lines that are looked at
constexpr Index kSpare = 96;        ///< outputs beyond twice the unknowns
constexpr Index kLongDepth = 2048;  ///< from here on the depth is looked at in longer parts
constexpr double kFit = 0.0025;     ///< of an output that may be left: half a unit of bf16
constexpr double kWorse = 4.0;      ///< times as much is left without the cause, at least

/// SampledOutputs of some failing lines, and how far what came is from what is expected.
class SampledOutputs {
 public:
  SampledOutputs(const Sides& s, const Output& y, const std::vector<FailingLines>& failing)
      : s_(s), run_(s.p.wgrad || s.p.k <= kLongDepth ? 32 : 128) {
    Index depth = 0;
    for (const FailingLines& f : failing) depth = std::max(depth, s.p.depth(f.group));
    runs_ = ceil_div(depth, run_);
    Index lines = 0;
    for (const FailingLines& f : failing) lines += static_cast<Index>(f.lines.size());
    const Index step = ceil_div(lines, kLines);
    const Index each = ceil_div(2 * runs_ + kSpare, std::min(lines, kLines));
    Index seen = 0;
    for (const FailingLines& f : failing) {
      for (const Index i : f.lines) {
        if (seen++ % step == step / 2) add_line(y, f.group, i, each);
      }
    }
    // Outputs of no depth at all were made of no part of it.
    finite_ = finite_ && runs_ > 0 && static_cast<Index>(rest_.size()) >= runs_ + runs_ / 2 + 8;
  }

  /// Runs of the depth in which what is taken gives what came; empty if it does not.
  std::vector<Index> runs_of(const Taking& taking) const {
    if (!finite_) return {};
    const Taker taker(s_, taking);
    const auto n = static_cast<std::size_t>(runs_);
    std::vector<double> features(rest_.size() * n);
    for (std::size_t e = 0; e < rest_.size(); ++e) {
      const LineOf& line = lines_[of_[e]];
      if (e == 0 || of_[e] != of_[e - 1]) change_ = change_of(taker, line);
      for (std::size_t d = 0; d < change_.size(); ++d) {
        features[e * n + d / static_cast<std::size_t>(run_)] +=
            change_[d] * others_[e][d] * weight_[e];
      }
    }
    const std::vector<double> share = solved(features);
    std::vector<Index> found;
    std::vector<double> left = rest_;
    for (std::size_t r = 0; r < share.size(); ++r) {
      if (share[r] < 0.5) continue;
      found.push_back(static_cast<Index>(r));
      for (std::size_t e = 0; e < left.size(); ++e) left[e] -= features[e * n + r];
    }
    const double misfit = rms(left);
    return misfit < kFit && misfit * kWorse < rms(rest_) ? found : std::vector<Index>{};
  }

  Index run() const { return run_; }

 private:
  struct LineOf {
    Index group;
    Index line;
    Line was;
  };

  void add_line(const Output& y, Index g, Index i, Index each) {
    std::vector<Index> with;
    for (Index j = s_.first_other(g); j < s_.last_other(g); ++j) {
      if (y.marks[static_cast<std::size_t>(s_.output(y, g, i, j))] == Mark::differs) {
        with.push_back(j);
      }
    }
    const auto n = static_cast<Index>(with.size());
    const ElementReader read(y.expected->dtype());
    lines_.push_back({g, i, s_.own(g, i)});
    const Line& was = lines_.back().was;
    double square = 0.0;
    std::vector<double> came;
    const std::size_t first = others_.size();
    for (Index k = 0; k < std::min(n, each); ++k) {
      const Index j = with[static_cast<std::size_t>(n <= each ? k : k * n / each)];
      const double v = read(y.came(s_.output(y, g, i, j))).value;
      came.push_back(v);
      square += v * v;
      others_.push_back(s_.other(g, j));
      of_.push_back(lines_.size() - 1);
    }
    const double least = std::sqrt(square / static_cast<double>(came.size())) / 8.0;
    finite_ = finite_ && least > 0.0;
    for (std::size_t e = 0; e < came.size() && finite_; ++e) {
      double expected = 0.0;
      for (std::size_t d = 0; d < was.size(); ++d) expected += was[d] * others_[first + e][d];
      weight_.push_back(1.0 / std::max(std::abs(came[e]), least));
      rest_.push_back((came[e] - expected) * weight_.back());
      finite_ = finite_ && std::isfinite(rest_.back());
    }
  }

  static Line change_of(const Taker& taker, const LineOf& line) {
    Line change(line.was.size());
    for (std::size_t d = 0; d < change.size(); ++d) {
      const auto at = static_cast<Index>(d);
      if (!taker.source(line.group, line.line, at)) continue;
      const double v = taker.value(line.group, line.line, at) - line.was[d];
      change[d] = std::isfinite(v) ? v : 0.0;
    }
    return change;
  }

  /// Least squares: how much of the change of each run is in what came.
  std::vector<double> solved(const std::vector<double>& features) const {
    const auto n = static_cast<std::size_t>(runs_);
    std::vector<double> matrix(n * n);
    std::vector<double> x(n);
    for (std::size_t e = 0; e < rest_.size(); ++e) {
      const double* row = &features[e * n];
      for (std::size_t u = 0; u < n; ++u) {
        for (std::size_t v = 0; v <= u; ++v) matrix[u * n + v] += row[u] * row[v];
        x[u] += row[u] * rest_[e];
      }
    }
    for (std::size_t u = 0; u < n; ++u) {
      double& own = matrix[u * n + u];
      own = own > 0.0 ? own * (1.0 + 1e-9) : 1.0;
    }
    std::vector<double> inverse;
    return solve(matrix, x, inverse) ? x : std::vector<double>{};
  }

  static double rms(const std::vector<double>& v) {
    double sum = 0.0;
    for (const double e : v) sum += e * e;
    return std::sqrt(sum / static_cast<double>(v.size()));
  }

  const Sides& s_;
  Index run_;
  Index runs_ = 0;
  bool finite_ = true;
  std::vector<LineOf> lines_;
  std::vector<std::size_t> of_;  ///< of each output: its line
  std::vector<Line> others_;
  std::vector<double> weight_;
  std::vector<double> rest_;
  mutable Line change_;
};

template <typename Copy>
void for_each_element(const Sides& s, const std::vector<FailingLines>& failing,
                      const std::vector<Index>& runs, Index run, Copy copy) {
  for (const FailingLines& f : failing) {
    for (const Index i : f.lines) {
      for (const Index r : runs) {
        const Index end = std::min((r + 1) * run, s.p.depth(f.group));
        for (Index d = r * run; d < end; ++d) copy(f.group, i, d);
      }
    }
  }
}

/// Elements of codes and scales to be replaced, and where they come from.
struct Copies {
  std::vector<std::pair<Index, Index>> codes;
  std::vector<std::pair<Index, Index>> scales;
};

Copies copies_of(const Sides& s, const Taking& t, const std::vector<FailingLines>& failing,
                 const std::vector<Index>& runs, Index run) {
  Copies copies;
  const Taker taker(s, t);
  for_each_element(s, failing, runs, run, [&](Index g, Index i, Index d) {
    const auto from = taker.source(g, i, d);
    if (!from) return;
    if (t.codes && !t.unscaled) {
      copies.codes.emplace_back(s.code(g, i, d), s.code(from->group, from->line, from->d));
    }
    if (s.factor().scales == nullptr || !t.scales || t.code != nullptr) return;
    const std::pair<Index, Index> scale{s.scale(g, i, d),
                                        s.scale(from->group, from->line, from->d)};
    if (copies.scales.empty() || copies.scales.back() != scale) copies.scales.push_back(scale);
  });
  return copies;
}

void copy_elements(Call& call, const std::string& name,
                   const std::vector<std::pair<Index, Index>>& copies) {
  if (copies.empty()) return;
  const Tensor& given = call.input(name);
  Tensor taken = given;
  const std::size_t size = size_of(given.dtype());
  for (const auto& [to, from] : copies) {
    std::memcpy(taken.data() + static_cast<std::size_t>(to) * size,
                given.data() + static_cast<std::size_t>(from) * size, size);
  }
  call.replace(name, std::move(taken));
}

/// Every scale that is listed is 1.
void write_ones(Call& call, const std::string& name,
                const std::vector<std::pair<Index, Index>>& copies) {
  Tensor scales = call.input(name);
  for (const auto& [to, from] : copies) {
    if (size_of(scales.dtype()) == 1) {
      scales.as<std::uint8_t>()[to] = 127;
    } else {
      scales.as<float>()[to] = 1.0f;
    }
  }
  call.replace(name, std::move(scales));
}

std::string part_words(const Sides& s, const std::vector<Index>& runs, Index run) {
  std::vector<Index> depth;
  for (const Index r : runs) {
    const Index end = (r + 1) * run;
    for (Index d = r * run; d < (s.p.wgrad ? end : std::min(end, s.p.k)); ++d) depth.push_back(d);
  }
  return s.p.wgrad ? ranges_in_words("row", depth) + " of each group" : "k = " + ranges(depth);
}

/// Where scales alone are misread, all that shares one.
std::vector<Index> whole_blocks(const Sides& s, const Taking& t, const std::vector<Index>& runs,
                                Index run) {
  if (t.codes && !t.unscaled) return runs;
  std::vector<Index> wide;
  const Index every = std::max<Index>(1, s.p.block / run);
  for (const Index r : runs) {
    for (Index i = r / every * every; i < (r / every + 1) * every; ++i) {
      if (wide.empty() || wide.back() < i) wide.push_back(i);
    }
  }
  return wide;
}

Hypothesis hypothesis_of(const Sides& s, const Taking& t, const std::vector<FailingLines>& failing,
                         const std::vector<Index>& runs, Index run) {
  const ProductSide& f = s.factor();
  const std::string part = part_words(s, runs, run) + " of " + f.name;
  Hypothesis h{t.id, t.code != nullptr ? t.words + part : part + " " + t.words, Stage::input};
  h.alter = [copies = copies_of(s, t, failing, runs, run), t, codes = f.codes_name,
             scales = f.scales_name](Call& call) {
    if (t.code != nullptr) {
      Tensor altered = call.input(codes);
      for (const auto& [to, from] : copies.codes) {
        altered.as<std::uint8_t>()[to] = t.code(altered.as<std::uint8_t>()[to]);
      }
      call.replace(codes, std::move(altered));
      return true;
    }
    copy_elements(call, codes, copies.codes);
    if (t.unscaled) {
      write_ones(call, scales, copies.scales);
    } else {
      copy_elements(call, scales, copies.scales);
    }
    return true;
  };
  return h;
}

/// Lines between failing ones are taken to be misread, too: their outputs may have stayed the same.
std::vector<FailingLines> with_gaps_filled(std::vector<FailingLines> failing) {
  for (FailingLines& f : failing) {
    const Index first = f.lines.front();
    const Index n = f.lines.back() - first + 1;
    if (static_cast<Index>(f.lines.size()) * 4 < n * 3) continue;
    f.lines.clear();
    for (Index i = 0; i < n; ++i) f.lines.push_back(first + i);
  }
  return failing;
}

}  // namespace

std::vector<FailingLines> failing_lines(const Sides& s, const Output& y) {
  std::vector<FailingLines> found;
  for (Index g = 0; g < s.p.groups(); ++g) {
    FailingLines f{g, {}};
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

void add_misread_parts(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || y.name != p->output || y.left == 0) return;
  for (const Side side : {Side::a, Side::b}) {
    const Sides s{*p, side};
    const std::vector<FailingLines> failing = failing_lines(s, y);
    if (failing.empty()) continue;
    const SampledOutputs outputs(s, y, failing);
    for (const Taking& t : takings_of(s)) {
      const std::vector<Index> runs = outputs.runs_of(t);
      if (runs.empty()) continue;
      const Index run = outputs.run();
      list.push_back(
          hypothesis_of(s, t, with_gaps_filled(failing), whole_blocks(s, t, runs, run), run));
    }
  }
}

}  // namespace mxo
