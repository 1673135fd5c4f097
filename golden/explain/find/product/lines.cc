// Lines of a factor that were taken in another order: codes, scales or both of another line.
#include <map>
#include <tuple>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/permutation.h"

namespace mxo {
namespace {

constexpr Index kRun = 128;      ///< lines that are looked at
constexpr Index kPartners = 12;  ///< elements of each
constexpr double kFit = 0.01;    ///< of the root mean square: bf16 and any accumulation
constexpr Index kMostShift = 64;

enum class Part : std::uint8_t { scales, codes, both };
constexpr Part kParts[] = {Part::scales, Part::codes, Part::both};

/// Neighbouring lines of one side, those they were multiplied with, and what came of it.
class LineRun {
 public:
  LineRun(const Sides& s, const Output& y) : s_(s), y_(y), others_(s.other()) { find(); }
  LineRun(const LineRun&) = delete;
  LineRun& operator=(const LineRun&) = delete;

  bool empty() const { return failing_ < 4; }
  Index first() const { return first_; }
  Index last() const { return first_ + static_cast<Index>(fails_.size()); }
  bool fails(Index line) const { return nth(fails_, line - first_); }

  /// Whether what came of `line` is what `part` of line `source` gives.
  bool fits(Part part, Index line, Index source) {
    const auto [at, fresh] = known_.try_emplace({part, line, source}, false);
    if (fresh) at->second = computed(part, line, source);
    return at->second;
  }

 private:
  Index group_of(Index line) const { return s_.by_groups() ? group_of_row(s_.p, line) : group_; }

  /// The aligned run with the most lines that fail, of one group where lines are those of all.
  void find() {
    std::map<std::pair<Index, Index>, Index> failing;  // group and run -> lines
    for (const auto& [g, line] : s_.failing(y_)) {
      if (s_.p.depth(g) > 0) ++failing[{s_.by_groups() ? 0 : g, line / kRun}];
    }
    for (const auto& [at, count] : failing) {
      if (count <= failing_) continue;
      failing_ = count;
      group_ = at.first;
      first_ = at.second * kRun;
    }
    const Index all = s_.by_groups() ? s_.p.ends.back() : s_.lines();
    for (Index line = first_; line < std::min(first_ + kRun, all); ++line)
      fails_.push_back(!s_.differing(y_, group_of(line), line, 1).empty());
  }

  /// Lines of the other side in a group, spread.
  std::vector<Index> partners(Index g) const {
    const Index from = s_.other().first(g);
    const Index n = s_.other().last(g) - from;
    std::vector<Index> found;
    for (Index i = 0; i < std::min(n, kPartners); ++i)
      found.push_back(from + (n <= kPartners ? i : std::min(i * n / kPartners + i % 3, n - 1)));
    return found;
  }

  /// Sums over blocks of the codes of `source` with the partners of group g: [partner][block].
  const Sides::Line& sums(Index g, Index source) {
    const auto [at, fresh] = sums_.try_emplace({g, source});
    if (!fresh) return at->second;
    const Sides::Line codes = s_.codes_of(g, source);
    const auto depth = static_cast<Index>(codes.size());
    // The other side's values, with its scales.
    for (const Index partner : partners(g)) {
      const Sides::Line& v = others_(g, partner);
      for (Index from = 0; from < depth; from += s_.p.block) {
        double sum = 0.0;
        for (Index d = from; d < std::min(depth, from + s_.p.block); ++d)
          sum += nth(codes, d) * nth(v, d);
        at->second.push_back(sum);
      }
    }
    return at->second;
  }

  bool computed(Part part, Index line, Index source) {
    const Index g = group_of(line);
    auto sum = sums(g, part == Part::scales ? line : source).begin();
    const ElementReader read(y_.expected->dtype());
    Misfit misfit;
    for (const Index partner : partners(g)) {
      double model = 0.0;
      for (Index d = 0; d < s_.p.depth(g); d += s_.p.block)
        model += *sum++ * s_.scale_of(g, part == Part::codes ? line : source, d);
      if (s_.mark(y_, g, line, partner) == Mark::settled) continue;
      misfit.add(read(y_.came(s_.element(y_, g, line, partner))).value, model);
    }
    return misfit.within(kFit);
  }

  Sides s_;
  const Output& y_;
  DecodedLines others_;
  Index group_ = 0;
  Index first_ = 0;
  Index failing_ = 0;
  std::vector<bool> fails_;
  std::map<std::pair<Index, Index>, Sides::Line> sums_;
  std::map<std::tuple<Part, Index, Index>, bool> known_;
};

/// Proposes that lines of a factor come from source(line); each from its own place where there is
/// no such line.
void propose(const Sides& s, Part part, const std::function<Index(Index)>& source,
             const std::string& words, std::vector<Hypothesis>& list) {
  const ProductSide& f = s.factor();
  std::vector<Reading> readings;
  const auto read = [&](const std::string& name, const Tensor& given) {
    readings.push_back(read_axis(name, given, s.axis(), [source, n = s.lines()](Index i) {
      const Index from = source(i);
      return from >= 0 && from < n ? from : i;
    }));
  };
  if (part != Part::scales) read(f.codes_name, *f.codes);
  if (part != Part::codes) read(f.scales_name, *f.scales);
  std::string lines = "the " + std::string(s.by_groups() ? "rows"
                                           : s.p.wgrad   ? "columns"
                                                         : "lines");
  lines += " of " + f.name;
  if (part == Part::scales) lines = "the scales of " + lines;
  if (part == Part::codes && f.scales != nullptr)
    lines = "the codes of " + lines + ", without their scales,";
  const std::string& name = part == Part::scales  ? f.scales_name
                            : part == Part::codes ? f.codes_name
                                                  : f.name;
  list.push_back(read_elsewhere(name + "=lines", lines + " are " + words, std::move(readings)));
}

/// Nearly all lines of the run: one or two may have cancelled.
bool enough(Index good, Index all) { return all > 0 && good * 20 >= all * 19; }

bool add_shift(const Sides& s, LineRun& run, Part part, std::vector<Hypothesis>& list) {
  const Index lines = s.lines();
  for (const Index by : both_ways(kMostShift)) {
    Index all = 0;
    Index good = 0;
    for (Index line = run.first(); line < run.last() && all - good <= 4; ++line) {
      if (!run.fails(line) || line + by < 0 || line + by >= lines) continue;
      ++all;
      good += run.fits(part, line, line + by);
    }
    if (all < 4 || !enough(good, all)) continue;
    const std::string words = "those of " + away(by);
    propose(
        s, part, [by](Index line) { return line + by; }, words, list);
    propose(
        s, part, [by, lines](Index line) { return modulo(line + by, lines); },
        words + ", wrapping around", list);
    return true;
  }
  return false;
}

void add_permutation(const Sides& s, LineRun& run, Part part, std::vector<Hypothesis>& list) {
  for (const bool of_groups : {false, true}) {
    if (of_groups && !s.by_groups()) continue;
    /// Where the runs begin that a line belongs to: at 0, or where its group does.
    const auto origin_of = [of_groups, bounds = bounds_of(s.p)](Index line) {
      return of_groups ? *std::prev(std::upper_bound(bounds.begin(), bounds.end() - 1, line)) : 0;
    };
    const auto fits = [&](Index period, Index i, Index j) {
      Index all = 0;
      Index good = 0;
      for (Index line = run.first(); line < run.last(); ++line) {
        const Index from = line - i + j;
        if ((line - origin_of(line)) % period != i || from >= s.lines()) continue;
        ++all;
        good += i == j ? !run.fails(line) : run.fits(part, line, from);
        if (i != j && all - good > 1) return false;
      }
      return enough(good, all);
    };
    const std::vector<Permutation> found = permutations_of(fits);
    for (const Permutation& order : found) {
      propose(
          s, part, [order, origin_of](Index line) { return order.from(line, origin_of(line)); },
          "taken " + order.words() + (of_groups ? ", from the first row of each group" : ""), list);
    }
    if (!found.empty()) return;
  }
}

}  // namespace

void add_measured_lines(const Product& p, const Output& output, std::vector<Hypothesis>& list) {
  for (const Side side : kSides) {
    const Sides s{p, side};
    const ProductSide& f = s.factor();
    LineRun run(s, output);
    if (run.empty()) continue;
    // Scales that several lines share are no lines of their own.
    const bool scaled = f.scales != nullptr && f.scales->rank() > s.axis() &&
                        f.scales->extent(s.axis()) == s.lines();
    for (const Part part : kParts) {
      if (part != Part::codes && !scaled) continue;
      // Lines that moved whole show in the output.
      if (!add_shift(s, run, part, list)) add_permutation(s, run, part, list);
    }
  }
}

}  // namespace mxo
