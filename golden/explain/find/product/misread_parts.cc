// Parts of the depth of an operand that were taken from elsewhere in it: a tile of another row,
// another place of K, another expert; or without their scales, signs or values.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

constexpr Index kLines = 6;           ///< failing lines that are looked at
constexpr Index kSpare = 96;          ///< outputs beyond twice the unknowns
constexpr Index kLongDepth = 2048;    ///< from here on the depth is looked at in longer parts
constexpr double kMostLeft = 0.0025;  ///< of an output that may be left: half a unit of bf16
constexpr double kWorse = 4.0;        ///< times as much is left without the cause, at least
constexpr Index kMostTiles = 8;       ///< distances of 128 lines, or of 128 along the depth
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

constexpr Row<std::uint8_t (*)(std::uint8_t)> kAlteredCodes[] = {
    {"=signs_lost", "signs are lost in ", [](std::uint8_t c) -> std::uint8_t { return c & 0x7F; }},
    {"=negated", "signs are turned in ", [](std::uint8_t c) -> std::uint8_t { return c ^ 0x80; }},
    {"=zero", "codes are zero in ", [](std::uint8_t) -> std::uint8_t { return 0; }},
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
  for (const Index by : both_ways(std::min(experts - 1, kMostExperts)))
    add({by, 0, 0}, std::abs(by) > 1 ? away(by, "expert")
                    : by < 0         ? "the expert before"
                                     : "the expert after");
  if (f.scales != nullptr) {
    list.push_back({f.scales_name + "=part_left_out", "is not multiplied by its scales"});
    list.back().unscaled = true;
  }
  if (size_of(f.codes->dtype()) != 1 || !is_minifloat8(f.format)) return list;
  for (const auto& row : kAlteredCodes) {
    list.push_back({f.codes_name + row.name, row.phrase});
    list.back().code = row.of;
  }
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

/// Outputs of some failing lines.
class SampledOutputs {
 public:
  SampledOutputs(const ProductSides& s, const Output& y, const std::vector<LineAt>& failing)
      : s_(s), run_(s.p.wgrad || s.p.k <= kLongDepth ? 32 : 128), decoded_(s.other()) {
    Index depth = 0;
    for (const LineAt& at : failing) depth = std::max(depth, s.p.depth(at.group));
    runs_ = static_cast<std::size_t>(ceil_div(depth, run_));
    const std::vector<LineAt> some = evenly_spread(failing, kLines);
    const Index each = ceil_div(2 * static_cast<Index>(runs_) + kSpare, std::ssize(some));
    for (const LineAt& at : some) {
      const std::vector<Index> with = evenly_spread(s.differing(y, at.group, at.line), each);
      lines_.push_back(sampled(s, y, at, with, decoded_));
    }
  }

  /// Runs of the depth in which what is taken gives the actual output; empty if it does not.
  std::vector<Index> runs_of(const Misread& taking) const {
    const ElementReader read(s_.factor().format);
    LeastSquares equations(runs_);
    for (const SampledLine& line : lines_) {
      ProductSides::Line change(line.values.size());
      for (Index d = 0; d < std::ssize(change); ++d)
        nth(change, d) =
            taking.change(s_, read, {line.at.group, line.at.line, d}, nth(line.values, d));
      for (const SampledLine::With& o : line.outputs) {
        std::vector<double> changes = run_sums(change, *o.other, run_);
        changes.resize(runs_);
        equations.add(changes, o.rest, o.weight);
      }
    }
    // Outputs of no depth at all were made of no part of it.
    if (runs_ == 0 || equations.equations() < runs_ + runs_ / 2 + 8) return {};
    std::optional<LeastSquaresFit> share = equations.solved();
    if (!share) return {};
    std::vector<Index> found;
    for (std::size_t r = 0; r < runs_; ++r) {
      const bool taken = share->x[r] >= 0.5;
      if (taken) found.push_back(static_cast<Index>(r));
      share->x[r] = taken ? 1.0 : 0.0;
    }
    const double left = equations.left(share->x);
    const double before = equations.left(std::vector<double>(runs_));
    const bool fits = left < kMostLeft * kMostLeft * static_cast<double>(equations.equations()) &&
                      left * kWorse * kWorse < before;
    return fits ? found : std::vector<Index>{};
  }

  Index run() const { return run_; }

 private:
  ProductSides s_;
  Index run_;
  DecodedLines decoded_;
  std::size_t runs_ = 0;
  std::vector<SampledLine> lines_;
};

/// That `t` is taken in runs of the depth of failing lines.
Hypothesis misread(const ProductSides& s, const Misread& t, std::string phrase,
                   const std::vector<LineAt>& failing, const std::vector<Index>& runs, Index run) {
  const ProductSide& f = s.factor();
  const bool other_scales = f.scales != nullptr && t.scales && t.code == nullptr;
  Tensor codes = *f.codes;
  Tensor scales = other_scales ? *f.scales : Tensor(Dtype::f32, {0});
  const std::uint64_t one = scale_bits(scales.dtype(), 1.0);
  for (const auto& [g, line] : failing) {
    for (const Index r : runs) {
      for (Index d = r * run; d < std::min((r + 1) * run, s.p.depth(g)); ++d) {
        const At to{g, line, d};
        const auto from = t.source(s, to);
        if (!from) continue;
        if (!t.unscaled) set_bits(codes, s.code(g, line, d), t.code_bits(s, to, *from));
        if (!other_scales) continue;
        set_bits(scales, s.scale(g, line, d),
                 t.unscaled ? one : bits_at(*f.scales, s.scale(from->group, from->line, from->d)));
      }
    }
  }
  Call edited;
  if (t.codes && !t.unscaled) edited.replace(f.codes_name, std::move(codes));
  if (other_scales) edited.replace(f.scales_name, std::move(scales));
  return {t.id, std::move(phrase), Stage::input, [edited](Call& c) {
            for (const auto& [name, tensor] : edited.inputs)
              c.inputs.insert_or_assign(name, tensor);
            return true;
          }};
}

/// Where scales alone are misread, all that shares one.
std::vector<Index> whole_blocks(const ProductSides& s, const Misread& t,
                                const std::vector<Index>& runs, Index run) {
  if (t.codes && !t.unscaled) return runs;
  const Index every = std::max<Index>(1, s.p.block / run);
  std::set<Index> wide;
  for (const Index r : runs)
    for (Index i = 0; i < every; ++i) wide.insert(r / every * every + i);
  return {wide.begin(), wide.end()};
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

void add_misread_parts(const Call& call, const Output& y, List& list) {
  const std::optional<Product> p = product_of(call);
  if (!p || y.name != p->output || y.left == 0) return;
  for (const Side side : kSides) {
    const ProductSides s{*p, side};
    const std::vector<LineAt> failing = failing_lines(s, y);
    if (failing.empty()) continue;
    const SampledOutputs outputs(s, y, failing);
    const Index run = outputs.run();
    for (const Misread& t : misreads_of(s)) {
      const std::vector<Index> runs = whole_blocks(s, t, outputs.runs_of(t), run);
      // Signs that are turned in all of the depth are those of the output.
      const bool turns = t.code != nullptr && t.code(0) != 0;
      if (runs.empty() || (turns && std::ssize(runs) * run >= p->k)) continue;
      const std::string part = part_words(s, runs, run);
      list.push_back(misread(s, t, t.code != nullptr ? t.words + part : part + " " + t.words,
                             s.failing(y), runs, run));
    }
  }
}

}  // namespace mxo
