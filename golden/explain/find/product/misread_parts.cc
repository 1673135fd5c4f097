// Parts of the depth of an operand that were taken from elsewhere in it: a tile of another row,
// another place of K, another expert; or without their scales, signs or values.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/places.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kLines = 6;         ///< failing lines that are looked at
constexpr Index kSpare = 96;        ///< outputs beyond twice the unknowns
constexpr Index kLongDepth = 2048;  ///< from here on the depth is looked at in longer parts
constexpr double kFit = 0.0025;     ///< of an output that may be left: half a unit of bf16
constexpr double kWorse = 4.0;      ///< times as much is left without the cause, at least
constexpr Index kMostTiles = 8;     ///< distances of 128 lines, or of 128 along the depth
constexpr Index kMostExperts = 8;

/// An element of one side.
struct At {
  Index group;
  Index line;
  Index d;
};

/// What is taken in place of an element: codes, scales or both, from elsewhere or altered.
struct Misread {
  std::string id;
  std::string words;  ///< after "k = ... of w", or before it of codes that are altered
  At by = {0, 0, 0};  ///< from so many experts, lines and places of the depth on
  bool codes = true;
  bool scales = true;
  std::uint8_t (*code)(std::uint8_t) = nullptr;  ///< in place of a source
  bool unscaled = false;                         ///< every scale is 1

  /// Where the element comes from; none where that is beyond the operand.
  std::optional<At> source(const Sides& s, const At& to) const {
    const At at{to.group + by.group, to.line + by.line, to.d + by.d};
    const bool there = at.group >= 0 && at.group < s.p.groups() && at.d >= 0 &&
                       at.d < s.p.depth(at.group) && at.line >= 0 && at.line < s.lines();
    return there ? std::optional(at) : std::nullopt;
  }

  /// How much more the element is with it than without.
  double change(const Sides& s, const ElementReader& read, const At& to, double was) const {
    const auto from = source(s, to);
    if (!from) return 0.0;
    const At& code_at = codes ? *from : to;
    const At& scale_at = scales ? *from : to;
    const ProductSide& f = s.factor();
    std::uint64_t bits = bits_at(*f.codes, s.code(code_at.group, code_at.line, code_at.d));
    if (code != nullptr) bits = code(static_cast<std::uint8_t>(bits));
    double v = read(bits).value;
    const Index at = s.scale(scale_at.group, scale_at.line, scale_at.d);
    if (!unscaled && at >= 0) v *= scale_value(*f.scales, at);
    return std::isfinite(v - was) ? v - was : 0.0;
  }
};

std::string by_words(Index by, const std::string& noun) {
  return std::to_string(std::abs(by)) + (noun.empty() ? "" : " " + noun) +
         (noun.empty() || std::abs(by) == 1 ? "" : "s") + (by < 0 ? " before" : " after");
}

/// Everything that is tried for a side.
std::vector<Misread> misreads_of(const Sides& s) {
  std::vector<Misread> list;
  const ProductSide& f = s.factor();
  const bool scaled = f.scales != nullptr;
  struct What {
    bool codes;
    bool scales;
    const std::string& id;
    const char* before;
    const char* after;
  };
  const What scaled_whats[] = {
      {true, true, f.name, "is read from ", ", with its scales"},
      {true, false, f.codes_name, "is read from ", ", without its scales"},
      {false, true, f.scales_name, "takes the scales of ", ""},
  };
  const What plain_whats[] = {{true, true, f.name, "is read from ", ""}};
  const auto add = [&](const At& by, const std::string& where) {
    for (const What& w : scaled ? std::span<const What>(scaled_whats) : plain_whats) {
      list.push_back({w.id + "=part", w.before + where + w.after, by, w.codes, w.scales});
    }
  };
  std::vector<Index> distances{1, 2, 4, 8, 16, 32, 64};
  for (Index m = 1; m <= kMostTiles; ++m) distances.push_back(128 * m);
  for (const Index far : distances) {
    for (const Index by : {-far, far}) {
      if (far < s.lines()) add({0, by, 0}, by_words(by, s.by_groups() ? "row" : "line"));
      if (far >= 32 && !s.p.wgrad && far < s.p.k) {
        add({0, 0, by}, "the depth " + by_words(by, ""));
      }
    }
  }
  const Index experts = s.p.wgrad || s.side == Side::a ? 1 : s.p.groups();
  for (Index e = 1; e < std::min(experts, kMostExperts + 1); ++e) {
    for (const Index by : {-e, e}) {
      add({by, 0, 0}, e > 1    ? by_words(by, "expert")
                      : by < 0 ? "the expert before"
                               : "the expert after");
    }
  }
  if (scaled) {
    list.push_back({f.scales_name + "=part_left_out", "is not multiplied by its scales"});
    list.back().unscaled = true;
  }
  if (size_of(f.codes->dtype()) != 1 || !is_minifloat8(f.format)) return list;
  struct Altered {
    const char* id;
    const char* words;
    std::uint8_t (*code)(std::uint8_t);
  };
  for (const Altered& altered : {
           Altered{"=signs_lost", "signs are lost in ",
                   [](std::uint8_t c) { return static_cast<std::uint8_t>(c & 0x7F); }},
           Altered{"=negated", "signs are turned in ",
                   [](std::uint8_t c) { return static_cast<std::uint8_t>(c ^ 0x80); }},
           Altered{"=zero", "codes are zero in ", [](std::uint8_t) { return std::uint8_t{0}; }},
       }) {
    list.push_back({f.codes_name + altered.id, altered.words});
    list.back().code = altered.code;
  }
  return list;
}

/// Lines of a side in which elements fail, by group.
struct FailingLines {
  Index group;
  std::vector<Index> lines;
};

/// Lines of which more than one output in sixteen differs: a change of a line shows in many.
std::vector<FailingLines> failing_lines(const Sides& s, const Output& y) {
  std::vector<FailingLines> found;
  for (Index g = 0; g < s.p.groups(); ++g) {
    FailingLines f{g, s.failing(y, g)};
    const Index outputs = s.other().last(g) - s.other().first(g);
    std::erase_if(f.lines, [&](Index i) {
      return static_cast<Index>(s.differing(y, g, i).size()) * 16 <= outputs;
    });
    if (!f.lines.empty()) found.push_back(std::move(f));
  }
  return found;
}

/// Outputs of some failing lines, and how far what came is from what is expected.
class SampledOutputs {
 public:
  SampledOutputs(const Sides& s, const Output& y, const std::vector<FailingLines>& failing)
      : s_(s), run_(s.p.wgrad || s.p.k <= kLongDepth ? 32 : 128), decoded_(s.other()) {
    std::vector<std::pair<Index, Index>> all;  // group and line
    Index depth = 0;
    for (const FailingLines& f : failing) {
      depth = std::max(depth, s.p.depth(f.group));
      for (const Index i : f.lines) all.emplace_back(f.group, i);
    }
    runs_ = static_cast<std::size_t>(ceil_div(depth, run_));
    const auto lines = static_cast<Index>(all.size());
    const Index step = ceil_div(lines, kLines);
    const Index each = ceil_div(2 * static_cast<Index>(runs_) + kSpare, std::min(lines, kLines));
    for (Index n = step / 2; n < lines; n += step) {
      const auto& [g, i] = all[static_cast<std::size_t>(n)];
      add_line(y, g, i, each);
    }
    // Outputs of no depth at all were made of no part of it.
    finite_ = finite_ && runs_ > 0 && outputs_.size() >= runs_ + runs_ / 2 + 8;
  }

  /// Runs of the depth in which what is taken gives what came; empty if it does not.
  std::vector<Index> runs_of(const Misread& taking) const {
    if (!finite_) return {};
    const ElementReader read(s_.factor().format);
    std::vector<double> features(outputs_.size() * runs_);
    std::vector<double> left;
    LeastSquares equations(runs_);
    Sides::Line change;
    for (std::size_t e = 0; e < outputs_.size(); ++e) {
      const OutputOf& o = outputs_[e];
      const LineOf& own = lines_[o.line];
      if (e == 0 || o.line != outputs_[e - 1].line) {
        change.resize(own.was.size());
        for (std::size_t d = 0; d < change.size(); ++d) {
          change[d] =
              taking.change(s_, read, {own.group, own.line, static_cast<Index>(d)}, own.was[d]);
        }
      }
      for (std::size_t d = 0; d < change.size(); ++d) {
        features[e * runs_ + d / static_cast<std::size_t>(run_)] +=
            change[d] * (*o.other)[d] * o.weight;
      }
      equations.add({&features[e * runs_], runs_}, o.rest);
      left.push_back(o.rest);
    }
    const double before = rms(left);
    const std::optional<LeastSquaresFit> share = equations.solved();
    if (!share) return {};
    std::vector<Index> found;
    for (std::size_t r = 0; r < runs_; ++r) {
      if (share->x[r] < 0.5) continue;
      found.push_back(static_cast<Index>(r));
      for (std::size_t e = 0; e < left.size(); ++e) left[e] -= features[e * runs_ + r];
    }
    const double misfit = rms(left);
    return misfit < kFit && misfit * kWorse < before ? found : std::vector<Index>{};
  }

  Index run() const { return run_; }

 private:
  struct LineOf {
    Index group;
    Index line;
    Sides::Line was;
  };
  struct OutputOf {
    std::size_t line;
    const Sides::Line* other;
    double weight;
    double rest;  ///< what came, less what is expected, by weight
  };

  void add_line(const Output& y, Index g, Index i, Index each) {
    const ElementReader read(y.expected->dtype());
    lines_.push_back({g, i, s_.line(g, i)});
    const Sides::Line& was = lines_.back().was;
    const std::vector<Index> with = evenly_spread(s_.differing(y, g, i), each);
    const auto came = [&](Index j) { return read(y.came(s_.element(y, g, i, j))).value; };
    double square = 0.0;
    for (const Index j : with) square += came(j) * came(j);
    const double least = std::sqrt(square / static_cast<double>(with.size())) / 8.0;
    finite_ = finite_ && least > 0.0;
    for (const Index j : with) {
      const Sides::Line& other = decoded_(g, j);
      double expected = 0.0;
      for (std::size_t d = 0; d < was.size(); ++d) expected += was[d] * other[d];
      const double weight = 1.0 / std::max(std::abs(came(j)), least);
      outputs_.push_back({lines_.size() - 1, &other, weight, (came(j) - expected) * weight});
      finite_ = finite_ && std::isfinite(outputs_.back().rest);
    }
  }

  static double rms(const std::vector<double>& v) {
    double sum = 0.0;
    for (const double e : v) sum += e * e;
    return std::sqrt(sum / static_cast<double>(v.size()));
  }

  Sides s_;
  Index run_;
  DecodedLines decoded_;
  std::size_t runs_ = 0;
  bool finite_ = true;
  std::vector<LineOf> lines_;
  std::vector<OutputOf> outputs_;
};

/// Elements of a tensor to be replaced, and where they come from.
using Copies = std::vector<std::pair<Index, Index>>;

/// What `taking` replaces in runs of the depth of failing lines, of codes and of scales.
std::pair<Copies, Copies> copies_of(const Sides& s, const Misread& t,
                                    const std::vector<FailingLines>& failing,
                                    const std::vector<Index>& runs, Index run) {
  std::pair<Copies, Copies> copies;
  Copies& codes = copies.first;
  Copies& scales = copies.second;
  const auto note = [&](const At& to) {
    const auto from = t.source(s, to);
    if (!from) return;
    if (t.codes && !t.unscaled) {
      codes.emplace_back(s.code(to.group, to.line, to.d), s.code(from->group, from->line, from->d));
    }
    if (s.factor().scales == nullptr || !t.scales || t.code != nullptr) return;
    const std::pair<Index, Index> scale{s.scale(to.group, to.line, to.d),
                                        s.scale(from->group, from->line, from->d)};
    if (scales.empty() || scales.back() != scale) scales.push_back(scale);
  };
  for (const FailingLines& f : failing) {
    for (const Index i : f.lines) {
      for (const Index r : runs) {
        const Index end = std::min((r + 1) * run, s.p.depth(f.group));
        for (Index d = r * run; d < end; ++d) note({f.group, i, d});
      }
    }
  }
  return copies;
}

/// `name` with each element of the list replaced by edit(tensor, where it lies, where from).
template <typename Edit>
void edit_elements(Call& call, const std::string& name, const Copies& list, const Edit& edit) {
  if (list.empty()) return;
  Tensor edited = call.input(name);
  for (const auto& [to, from] : list) edit(edited, to, from);
  call.replace(name, std::move(edited));
}

void alter(Call& call, const ProductSide& f, const Misread& t,
           const std::pair<Copies, Copies>& copies) {
  const auto copy_of = [&call](const std::string& name) {
    return [&given = call.input(name)](Tensor& to, Index at, Index from) {
      const std::size_t size = size_of(given.dtype());
      std::memcpy(to.data() + static_cast<std::size_t>(at) * size,
                  given.data() + static_cast<std::size_t>(from) * size, size);
    };
  };
  const auto& [codes, scales] = copies;
  if (t.code != nullptr) {
    edit_elements(call, f.codes_name, codes, [&](Tensor& to, Index at, Index) {
      to.as<std::uint8_t>()[at] = t.code(to.as<std::uint8_t>()[at]);
    });
  } else if (!codes.empty()) {
    edit_elements(call, f.codes_name, codes, copy_of(f.codes_name));
  }
  if (t.unscaled) {
    edit_elements(call, f.scales_name, scales, [](Tensor& to, Index at, Index) {
      if (size_of(to.dtype()) == 1) {
        to.as<std::uint8_t>()[at] = 127;
      } else {
        to.as<float>()[at] = 1.0f;
      }
    });
  } else if (!scales.empty()) {
    edit_elements(call, f.scales_name, scales, copy_of(f.scales_name));
  }
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

/// Where scales alone are misread, all that shares one.
std::vector<Index> whole_blocks(const Sides& s, const Misread& t, const std::vector<Index>& runs,
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

/// "k = 32 to 63 of x", "rows 0 to 31 of each group of dy".
std::string part_words(const Sides& s, const std::vector<Index>& runs, Index run) {
  std::vector<Index> depth;
  for (const Index r : runs) {
    const Index end = (r + 1) * run;
    for (Index d = r * run; d < (s.p.wgrad ? end : std::min(end, s.p.k)); ++d) depth.push_back(d);
  }
  return (s.p.wgrad ? ranges_in_words("row", depth) + " of each group" : "k = " + ranges(depth)) +
         " of " + s.factor().name;
}

}  // namespace

void add_misread_parts(const Call& call, const Output& y, std::vector<Hypothesis>& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || y.name != p->output || y.left == 0) return;
  for (const Side side : kSides) {
    const Sides s{*p, side};
    const std::vector<FailingLines> failing = failing_lines(s, y);
    if (failing.empty()) continue;
    const SampledOutputs outputs(s, y, failing);
    const Index run = outputs.run();
    for (const Misread& t : misreads_of(s)) {
      std::vector<Index> runs = outputs.runs_of(t);
      if (runs.empty()) continue;
      runs = whole_blocks(s, t, runs, run);
      const std::string part = part_words(s, runs, run);
      list.push_back({t.id, t.code != nullptr ? t.words + part : part + " " + t.words, Stage::input,
                      [t, copies = copies_of(s, t, with_gaps_filled(failing), runs, run),
                       f = s.factor()](Call& c) {
                        alter(c, f, t, copies);
                        return true;
                      }});
    }
  }
}

}  // namespace mxo
