// Lines of a factor that were taken in another order: codes, scales or both of another line.
#include <algorithm>
#include <map>

#include "golden/explain/name/permutation.h"
#include "golden/explain/recover/scales.h"
#include "golden/judge/elements.h"

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
  LineRun(const Product& p, const Output& y, bool is_a)
      : p_(p), y_(y), is_a_(is_a), factor_(is_a ? p.a : p.b), plain_(p) {
    (is_a ? plain_.a : plain_.b).scales = nullptr;
    find();
  }

  bool empty() const { return failing_ < 4; }
  Index first() const { return first_; }
  Index last() const { return last_; }
  /// First line of the group's own, where lines belong to groups.
  Index origin(Index line) const { return by_groups() ? p_.begin(group_of(line)) : 0; }
  bool by_groups() const { return is_a_ && !p_.wgrad; }
  bool fails(Index line) const { return fails_[static_cast<std::size_t>(line - first_)] != 0; }

  /// Whether what came of `line` is what `part` of line `source` gives.
  bool fits(Part part, Index line, Index source) {
    const auto key = std::make_pair(line, source);
    auto& known = known_[static_cast<std::size_t>(part)];
    const auto [at, fresh] = known.try_emplace(key, false);
    if (fresh) at->second = computed(part, line, source);
    return at->second;
  }
  Index lines() const { return is_a_ ? p_.a_lines : p_.n; }

 private:
  Index group_of(Index line) const {
    if (!by_groups()) return group_;
    for (Index g = 0; g < p_.groups(); ++g) {
      if (line < p_.end(g)) return g;
    }
    return p_.groups() - 1;
  }
  Index element(Index g, Index line, Index partner) const {
    return is_a_ ? p_.output_row(g, line) * y_.columns + partner
                 : p_.output_row(g, partner) * y_.columns + line;
  }

  /// The aligned run with the most lines that fail, of one group where lines are those of all.
  void find() {
    std::map<std::pair<Index, Index>, Index> failing;  // group and run -> lines
    for (Index g = 0; g < p_.groups(); ++g) {
      if (p_.depth(g) == 0) continue;
      const Index from = is_a_ ? p_.first_line(g) : 0;
      const Index to = is_a_ ? p_.last_line(g) : p_.n;
      for (Index line = from; line < to; ++line) {
        if (partners_of(g, line, 1).empty()) continue;
        ++failing[{by_groups() ? 0 : g, line / kRun}];
      }
    }
    for (const auto& [at, count] : failing) {
      if (count <= failing_) continue;
      failing_ = count;
      group_ = at.first;
      first_ = at.second * kRun;
    }
    const Index all = by_groups() ? p_.ends.back() : lines();
    last_ = std::min(first_ + kRun, all);
    fails_.resize(static_cast<std::size_t>(last_ - first_));
    for (Index line = first_; line < last_; ++line) {
      fails_[static_cast<std::size_t>(line - first_)] =
          !partners_of(group_of(line), line, 1).empty();
    }
  }

  /// Partners with which the line made elements that differ.
  std::vector<Index> partners_of(Index g, Index line, Index most) const {
    std::vector<Index> found;
    const Index from = is_a_ ? 0 : p_.first_line(g);
    const Index to = is_a_ ? p_.n : p_.last_line(g);
    for (Index other = from; other < to && static_cast<Index>(found.size()) < most; ++other) {
      const Index at = element(g, line, other);
      if (y_.marks[static_cast<std::size_t>(at)] == Mark::differs) found.push_back(other);
    }
    return found;
  }

  /// Partners of a group, spread.
  const std::vector<Index>& partners(Index g) {
    const auto [at, fresh] = partners_.try_emplace(g);
    if (fresh) {
      const Index from = is_a_ ? 0 : p_.first_line(g);
      const Index n = (is_a_ ? p_.n : p_.last_line(g)) - from;
      for (Index i = 0; i < std::min(n, kPartners); ++i) {
        at->second.push_back(from + (n <= kPartners ? i : i * n / kPartners + i % 3));
        at->second.back() = std::min(at->second.back(), from + n - 1);
      }
    }
    return at->second;
  }

  /// Sums over blocks of the codes of `source` with the partners of group g: [partner][block].
  const std::vector<double>& sums(Index g, Index source) {
    const auto [at, fresh] = sums_.try_emplace({g, source});
    if (!fresh) return at->second;
    const std::vector<double> codes = is_a_ ? plain_.line_a(g, source) : plain_.line_b(g, source);
    const auto depth = static_cast<std::size_t>(p_.depth(g));
    const auto block = static_cast<std::size_t>(p_.block);
    for (const Index partner : partners(g)) {
      const auto [other, missing] = others_.try_emplace({g, partner});
      if (missing) other->second = is_a_ ? p_.line_b(g, partner) : p_.line_a(g, partner);
      const std::vector<double>& v = other->second;
      for (std::size_t from = 0; from < depth; from += block) {
        double sum = 0.0;
        for (std::size_t d = from; d < std::min(depth, from + block); ++d) sum += codes[d] * v[d];
        at->second.push_back(sum);
      }
    }
    return at->second;
  }

  double scale(Index g, Index line, Index block) const {
    if (factor_.scales == nullptr) return 1.0;
    const Index d = block * p_.block;
    return scale_value(*factor_.scales, is_a_ ? p_.scale_a(g, line, d) : p_.scale_b(g, line, d));
  }

  bool computed(Part part, Index line, Index source) {
    const Index g = group_of(line);
    const std::vector<double>& parts = sums(g, part == Part::scales ? line : source);
    const Index scaled = part == Part::codes ? line : source;
    const Index blocks = ceil_div(p_.depth(g), p_.block);
    const ElementReader read(y_.expected->dtype());
    double noise = 0.0;
    double signal = 0.0;
    std::size_t at = 0;
    for (const Index partner : partners(g)) {
      const Index i = element(g, line, partner);
      double model = 0.0;
      for (Index b = 0; b < blocks; ++b) model += parts[at++] * scale(g, scaled, b);
      if (y_.marks[static_cast<std::size_t>(i)] == Mark::settled) continue;
      const double came = read(y_.came(i)).value;
      noise += (came - model) * (came - model);
      signal += came * came;
    }
    // False where one of them is no number, or all are zero.
    return noise < kFit * kFit * signal;
  }

  const Product& p_;
  const Output& y_;
  bool is_a_;
  const ProductSide& factor_;
  Product plain_;  ///< without the scales of this side
  Index group_ = 0;
  Index first_ = 0;
  Index last_ = 0;
  Index failing_ = 0;
  std::vector<std::uint8_t> fails_;
  std::map<Index, std::vector<Index>> partners_;
  std::map<std::pair<Index, Index>, std::vector<double>> sums_;
  std::map<std::pair<Index, Index>, std::vector<double>> others_;
  std::map<std::pair<Index, Index>, bool> known_[3];
};

/// Where a line of a factor comes from, of any; its own where there is no other.
using Source = std::function<Index(Index)>;

/// The lines of a tensor taken from elsewhere; those of an expert within it.
bool take_lines(Call& call, const std::string& name, const Source& source, bool is_a, bool wgrad) {
  if (!call.has(name)) return true;
  const Tensor& given = call.input(name);
  const int axis = wgrad || !is_a ? 1 : 0;
  if (given.rank() <= axis) return false;
  const Index lines = given.extent(axis);
  std::vector<Index> kept;
  for (Index i = 0; i < lines; ++i) {
    const Index from = source(i);
    kept.push_back(from >= 0 && from < lines ? from : i);
  }
  call.replace(name, gathered(given, axis, kept));
  return true;
}

struct Found {
  Source source;
  std::string words;
};

void add(const Product& p, bool is_a, Part part, const Found& found,
         std::vector<Hypothesis>& list) {
  const ProductSide& f = is_a ? p.a : p.b;
  const std::string line = is_a && !p.wgrad ? "rows of " : p.wgrad ? "columns of " : "lines of ";
  const std::string words =
      part == Part::scales ? "the scales of the " + line + f.name + " are "
      : part == Part::codes && f.scales != nullptr
          ? "the codes of the " + line + f.name + ", without their scales, are "
          : "the " + line + f.name + " are ";
  const std::string id = part == Part::scales  ? f.scales_name
                         : part == Part::codes ? f.codes_name
                                               : f.name;
  list.push_back({id + "=lines", words + found.words, Stage::input,
                  [codes = part == Part::scales ? "" : f.codes_name,
                   scales = part == Part::codes ? "" : f.scales_name, source = found.source, is_a,
                   wgrad = p.wgrad](Call& c) {
                    return take_lines(c, codes, source, is_a, wgrad) &&
                           take_lines(c, scales, source, is_a, wgrad);
                  }});
}

/// Nearly all lines of the run: one or two may have cancelled.
bool enough(Index good, Index all) { return all > 0 && good * 20 >= all * 19; }

void add_shift(const Product& p, LineRun& run, bool is_a, Part part,
               std::vector<Hypothesis>& list) {
  for (Index by = 1; by <= kMostShift; ++by) {
    for (const Index d : {-by, by}) {
      Index all = 0;
      Index good = 0;
      for (Index line = run.first(); line < run.last(); ++line) {
        if (!run.fails(line) || line + d < 0 || line + d >= run.lines()) continue;
        ++all;
        good += run.fits(part, line, line + d);
        if (all - good > 4) break;
      }
      if (all < 4 || !enough(good, all)) continue;
      const std::string words = "those of " + std::to_string(by) + (d < 0 ? " before" : " after");
      const Index lines = run.lines();
      add(p, is_a, part, {[d](Index line) { return line + d; }, words}, list);
      add(p, is_a, part,
          {[d, lines](Index line) { return ((line + d) % lines + lines) % lines; },
           words + ", coming round at the end"},
          list);
      return;
    }
  }
}

void add_permutation(const Product& p, LineRun& run, bool is_a, Part part,
                     std::vector<Hypothesis>& list) {
  for (const bool of_groups : {false, true}) {
    if (of_groups && !run.by_groups()) continue;
    const auto fits = [&](Index period, Index i, Index j) {
      Index all = 0;
      Index good = 0;
      for (Index line = run.first(); line < run.last(); ++line) {
        const Index origin = of_groups ? run.origin(line) : 0;
        if ((line - origin) % period != i) continue;
        if (i == j) {
          ++all;
          good += !run.fails(line);
          continue;
        }
        const Index from = line - i + j;
        if (from >= run.lines()) continue;
        ++all;
        good += run.fits(part, line, from);
        if (all - good > 1) return false;
      }
      return enough(good, all);
    };
    const std::vector<Permutation> found = permutations_of(fits);
    for (const Permutation& permutation : found) {
      const std::vector<Index> ends = p.ends;
      add(p, is_a, part,
          {[permutation, ends, of_groups](Index line) {
             Index origin = 0;
             for (const Index end : ends) {
               if (of_groups && end <= line) origin = end;
             }
             return permutation.from(line, origin);
           },
           "taken " + permutation.words() +
               (of_groups ? ", from the first row of each group" : "")},
          list);
    }
    if (!found.empty()) return;
  }
}

}  // namespace

void add_measured_lines(const Product& p, const Output& output, std::vector<Hypothesis>& list) {
  for (const bool is_a : {true, false}) {
    const ProductSide& f = is_a ? p.a : p.b;
    LineRun run(p, output, is_a);
    if (run.empty()) continue;
    // Scales that several lines share are no lines of their own.
    const bool scaled = f.scales != nullptr && f.scales->rank() > (p.wgrad || !is_a ? 1 : 0) &&
                        f.scales->extent(p.wgrad || !is_a ? 1 : 0) == run.lines();
    for (const Part part : kParts) {
      if (part != Part::codes && !scaled) continue;
      // Lines that moved whole show in the output.
      const std::size_t before = list.size();
      add_shift(p, run, is_a, part, list);
      if (list.size() == before) add_permutation(p, run, is_a, part, list);
    }
  }
}

}  // namespace mxo
