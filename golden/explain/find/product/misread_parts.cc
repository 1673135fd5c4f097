// Parts of the depth of an operand that were taken from elsewhere in it: a tile of another row,
// another place of K, another expert; or without their scales, signs or values.
#include <cstring>
#include <optional>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/places.h"

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
  std::optional<At> source(const ProductSides& s, const At& to) const {
    const At at{to.group + by.group, to.line + by.line, to.d + by.d};
    const bool there = at.group >= 0 && at.group < s.p.groups() && at.d >= 0 &&
                       at.d < s.p.depth(at.group) && at.line >= 0 && at.line < s.lines();
    return there ? std::optional(at) : std::nullopt;
  }

  std::uint64_t code_bits(const ProductSides& s, const At& to, const At& from) const {
    const At& at = codes ? from : to;
    const std::uint64_t bits = bits_at(*s.factor().codes, s.code(at.group, at.line, at.d));
    return code == nullptr ? bits : code(static_cast<std::uint8_t>(bits));
  }

  /// How much more the element is with it than without.
  double change(const ProductSides& s, const ElementReader& read, const At& to, double was) const {
    const auto from = source(s, to);
    if (!from) return 0.0;
    const At& at = scales ? *from : to;
    const double scale = unscaled ? 1.0 : s.scale_of(at.group, at.line, at.d);
    const double v = read(code_bits(s, to, *from)).value * scale;
    return std::isfinite(v - was) ? v - was : 0.0;
  }
};

/// Everything that is tried for a side.
std::vector<Misread> misreads_of(const ProductSides& s) {
  std::vector<Misread> list;
  const ProductSide& f = s.factor();
  const auto add = [&](const At& by, const std::string& where) {
    const std::string from = "is read from " + where;
    if (f.scales == nullptr) {
      list.push_back({f.name + "=part", from, by});
      return;
    }
    list.push_back({f.name + "=part", from + ", with its scales", by});
    list.push_back({f.codes_name + "=part", from + ", without its scales", by, true, false});
    list.push_back({f.scales_name + "=part", "takes the scales of " + where, by, false, true});
  };
  std::vector<Index> distances{1, 2, 4, 8, 16, 32, 64};
  for (Index m = 1; m <= kMostTiles; ++m) distances.push_back(128 * m);
  for (const Index far : distances) {
    for (const Index by : {-far, far}) {
      if (far < s.lines()) add({0, by, 0}, away(by, s.by_groups() ? "row" : "line"));
      if (far >= 32 && !s.p.wgrad && far < s.p.k) add({0, 0, by}, "the depth " + away(by));
    }
  }
  const Index experts = s.p.wgrad || s.side == Side::a ? 1 : s.p.groups();
  for (const Index by : both_ways(std::min(experts - 1, kMostExperts))) {
    add({by, 0, 0}, std::abs(by) > 1 ? away(by, "expert")
                    : by < 0         ? "the expert before"
                                     : "the expert after");
  }
  const auto add_altered = [&list](std::string id, const char* words) -> Misread& {
    return list.emplace_back(Misread{std::move(id), words});
  };
  if (f.scales != nullptr)
    add_altered(f.scales_name + "=part_left_out", "is not multiplied by its scales").unscaled =
        true;
  if (size_of(f.codes->dtype()) != 1 || !is_minifloat8(f.format)) return list;
  add_altered(f.codes_name + "=signs_lost", "signs are lost in ").code = [](std::uint8_t c) {
    return static_cast<std::uint8_t>(c & 0x7F);
  };
  add_altered(f.codes_name + "=negated", "signs are turned in ").code = [](std::uint8_t c) {
    return static_cast<std::uint8_t>(c ^ 0x80);
  };
  add_altered(f.codes_name + "=zero", "codes are zero in ").code = [](std::uint8_t) {
    return std::uint8_t{0};
  };
  return list;
}

/// Lines of which more than one output in sixteen differs: a change of a line shows in many.
std::vector<LineAt> failing_lines(const ProductSides& s, const Output& y) {
  std::vector<LineAt> failing = s.failing(y);
  std::erase_if(failing, [&](const LineAt& at) {
    const Index outputs = s.other().last(at.group) - s.other().first(at.group);
    return static_cast<Index>(s.differing(y, at.group, at.line).size()) * 16 <= outputs;
  });
  return failing;
}

/// Outputs of some failing lines, and how far the actual output is from what is expected.
class SampledOutputs {
 public:
  SampledOutputs(const ProductSides& s, const Output& y, const std::vector<LineAt>& failing)
      : s_(s), run_(s.p.wgrad || s.p.k <= kLongDepth ? 32 : 128), decoded_(s.other()) {
    Index depth = 0;
    for (const LineAt& at : failing) depth = std::max(depth, s.p.depth(at.group));
    runs_ = static_cast<std::size_t>(ceil_div(depth, run_));
    const auto lines = static_cast<Index>(failing.size());
    const Index step = ceil_div(lines, kLines);
    const Index each = ceil_div(2 * static_cast<Index>(runs_) + kSpare, std::min(lines, kLines));
    for (Index n = step / 2; n < lines; n += step) add_line(y, nth(failing, n), each);
    std::size_t outputs = 0;
    for (const Line& line : lines_) outputs += line.outputs.size();
    // Outputs of no depth at all were made of no part of it.
    finite_ = finite_ && runs_ > 0 && outputs >= runs_ + runs_ / 2 + 8;
  }

  /// Runs of the depth in which what is taken gives the actual output; empty if it does not.
  std::vector<Index> runs_of(const Misread& taking) const {
    if (!finite_) return {};
    const ElementReader read(s_.factor().format);
    std::vector<std::vector<double>> features;
    std::vector<double> left;
    LeastSquares equations(runs_);
    for (const Line& line : lines_) {
      ProductSides::Line change(line.was.size());
      for (Index d = 0; d < static_cast<Index>(change.size()); ++d)
        nth(change, d) =
            taking.change(s_, read, {line.at.group, line.at.line, d}, nth(line.was, d));
      for (const OutputOf& o : line.outputs) {
        std::vector<double>& of = features.emplace_back(runs_);
        for (std::size_t d = 0; d < change.size(); ++d)
          of[d / static_cast<std::size_t>(run_)] += change[d] * (*o.other)[d] * o.weight;
        equations.add(of, o.rest);
        left.push_back(o.rest);
      }
    }
    const double before = rms(left);
    const std::optional<LeastSquaresFit> share = equations.solved();
    if (!share) return {};
    std::vector<Index> found;
    for (std::size_t r = 0; r < runs_; ++r) {
      if (share->x[r] < 0.5) continue;
      found.push_back(static_cast<Index>(r));
      for (std::size_t e = 0; e < left.size(); ++e) left[e] -= features[e][r];
    }
    const double misfit = rms(left);
    return misfit < kFit && misfit * kWorse < before ? found : std::vector<Index>{};
  }

  Index run() const { return run_; }

 private:
  struct OutputOf {
    const ProductSides::Line* other;
    double weight;
    double rest;  ///< the actual output, less what is expected, by weight
  };
  struct Line {
    LineAt at;
    ProductSides::Line was;
    std::vector<OutputOf> outputs;
  };

  void add_line(const Output& y, const LineAt& at, Index each) {
    Line line{at, s_.line(at.group, at.line), {}};
    const std::vector<Index> with = evenly_spread(s_.differing(y, at.group, at.line), each);
    std::vector<Index> elements;
    for (const Index j : with) elements.push_back(s_.element(y, at.group, at.line, j));
    const ActualNumbers got = actual_numbers(y, elements);
    finite_ = finite_ && got.tell();
    for (std::size_t e = 0; e < with.size(); ++e) {
      const ProductSides::Line& other = decoded_(at.group, with[e]);
      double expected = 0.0;
      for (std::size_t d = 0; d < other.size(); ++d) expected += line.was[d] * other[d];
      const double weight = got.weight(e);
      line.outputs.push_back({&other, weight, (got.values[e] - expected) * weight});
      finite_ = finite_ && std::isfinite(line.outputs.back().rest);
    }
    lines_.push_back(std::move(line));
  }

  static double rms(const std::vector<double>& v) {
    double sum = 0.0;
    for (const double e : v) sum += e * e;
    return std::sqrt(sum / static_cast<double>(v.size()));
  }

  ProductSides s_;
  Index run_;
  DecodedLines decoded_;
  std::size_t runs_ = 0;
  bool finite_ = true;
  std::vector<Line> lines_;
};

/// Elements of a tensor, and the bits that they become.
struct Edits {
  std::vector<std::pair<Index, std::uint64_t>> list;

  void apply(Call& call, const std::string& name) const {
    if (list.empty()) return;
    Tensor edited = call.input(name);
    const std::size_t size = size_of(edited.dtype());
    for (const auto& [at, bits] : list)
      std::memcpy(edited.data() + static_cast<std::size_t>(at) * size, &bits, size);
    call.replace(name, std::move(edited));
  }
};

/// That `t` is taken in runs of the depth of failing lines.
Hypothesis misread(const ProductSides& s, const Misread& t, std::string phrase,
                   const std::vector<LineAt>& failing, const std::vector<Index>& runs, Index run) {
  const ProductSide& f = s.factor();
  Edits codes;
  Edits scales;
  const auto note = [&](const At& to) {
    const auto from = t.source(s, to);
    if (!from) return;
    if (t.codes && !t.unscaled)
      codes.list.emplace_back(s.code(to.group, to.line, to.d), t.code_bits(s, to, *from));
    if (f.scales == nullptr || !t.scales || t.code != nullptr) return;
    const Index at = s.scale(to.group, to.line, to.d);
    const std::uint64_t one = size_of(f.scales->dtype()) == 1 ? 127 : bit_cast<std::uint32_t>(1.0f);
    const Index source = s.scale(from->group, from->line, from->d);
    const std::pair edit{at, t.unscaled ? one : bits_at(*f.scales, source)};
    if (scales.list.empty() || scales.list.back() != edit) scales.list.push_back(edit);
  };
  for (const auto& [g, line] : failing) {
    for (const Index r : runs) {
      for (Index d = r * run; d < std::min((r + 1) * run, s.p.depth(g)); ++d) note({g, line, d});
    }
  }
  return {t.id, std::move(phrase), Stage::input,
          [codes, scales, of = f.codes_name, by = f.scales_name](Call& c) {
            codes.apply(c, of);
            scales.apply(c, by);
            return true;
          }};
}

/// Lines between failing ones are taken to be misread, too: their outputs may have stayed the same.
std::vector<LineAt> with_gaps_filled(const std::vector<LineAt>& failing) {
  std::vector<LineAt> filled;
  for (auto from = failing.begin(); from != failing.end();) {
    const Index g = from->group;
    const auto end =
        std::find_if(from, failing.end(), [g](const LineAt& at) { return at.group != g; });
    const Index n = std::prev(end)->line - from->line + 1;
    if ((end - from) * 4 < n * 3) {
      filled.insert(filled.end(), from, end);
    } else {
      for (Index i = 0; i < n; ++i) filled.push_back({g, from->line + i});
    }
    from = end;
  }
  return filled;
}

/// Where scales alone are misread, all that shares one.
std::vector<Index> whole_blocks(const ProductSides& s, const Misread& t,
                                const std::vector<Index>& runs, Index run) {
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
std::string part_words(const ProductSides& s, const std::vector<Index>& runs, Index run) {
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
    const ProductSides s{*p, side};
    const std::vector<LineAt> failing = failing_lines(s, y);
    if (failing.empty()) continue;
    const SampledOutputs outputs(s, y, failing);
    const Index run = outputs.run();
    for (const Misread& t : misreads_of(s)) {
      std::vector<Index> runs = outputs.runs_of(t);
      if (runs.empty()) continue;
      runs = whole_blocks(s, t, runs, run);
      const std::string part = part_words(s, runs, run);
      list.push_back(misread(s, t, t.code != nullptr ? t.words + part : part + " " + t.words,
                             with_gaps_filled(failing), runs, run));
    }
  }
}

}  // namespace mxo
