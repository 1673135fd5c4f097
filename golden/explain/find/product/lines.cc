// Lines of a factor that were taken in another order: codes, scales or both of another line; and
// codes that were read some elements early or late along the depth.
#include <iterator>
#include <tuple>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/permutation.h"

namespace mxo {
namespace {

constexpr Index kRun = 128;      ///< lines that are looked at
constexpr Index kPartners = 12;  ///< elements of each
constexpr double kFit = 0.01;    ///< of the root mean square: bf16 and any accumulation
constexpr Index kMostShift = 64;
constexpr Index kMostOthers = 8;     ///< lines that fail and did not move with the rest
constexpr Index kSampledLines = 16;  ///< of which codes may be early or late
constexpr Index kOfEach = 3;         ///< elements
constexpr std::size_t kTold = 6;

// ---- Lines.

enum class LinePart : std::uint8_t { scales, codes, both };
/// Of lines whose scales are alike both moved.
constexpr LinePart kParts[] = {LinePart::scales, LinePart::both, LinePart::codes};

/// Neighbouring lines of one side, those they were multiplied with, and what came of it.
class LineRun {
 public:
  LineRun(const ProductSides& s, const Output& y) : s_(s), y_(y), others_(s.other()) { find(); }
  LineRun(const LineRun&) = delete;
  LineRun& operator=(const LineRun&) = delete;

  bool empty() const { return failing_ < 4; }
  Index first() const { return first_; }
  Index last() const { return first_ + static_cast<Index>(fails_.size()); }
  bool fails(Index line) const { return nth(fails_, line - first_); }

  /// Whether what came of `line` is what `part` of line `source` gives.
  bool fits(LinePart part, Index line, Index source) {
    const auto [at, fresh] = known_.try_emplace({part, line, source}, false);
    if (fresh) at->second = computed(part, line, source);
    return at->second;
  }

 private:
  Index group_of(Index line) const { return s_.by_groups() ? group_of_row(s_.p, line) : group_; }

  /// The aligned run with the most lines that fail, of one group where lines are those of all.
  void find() {
    std::map<std::pair<Index, Index>, Index> failing;  // group and run -> lines
    for (const auto& [g, line] : s_.failing(y_))
      if (s_.p.depth(g) > 0) ++failing[{s_.by_groups() ? 0 : g, line / kRun}];
    for (const auto& [at, count] : failing) {
      if (count <= failing_) continue;
      failing_ = count;
      group_ = at.first;
      first_ = at.second * kRun;
    }
    const Index all = s_.by_groups() ? s_.p.ends.back() : s_.lines();
    for (Index line = first_; line < std::min(first_ + kRun, all); ++line)
      fails_.push_back(!s_.differing(y_, group_of(line), line).empty());
  }

  /// Lines of the other side in a group, spread.
  std::vector<Index> partners(Index g) const {
    return evenly_spread(s_.other().first(g), s_.other().last(g), kPartners);
  }

  /// Sums over blocks of the codes of `source` with the partners of group g: [partner][block].
  const ProductSides::Line& sums(Index g, Index source) {
    const auto [at, fresh] = sums_.try_emplace({g, source});
    if (!fresh) return at->second;
    const ProductSides::Line codes = s_.codes_of(g, source);
    for (const Index partner : partners(g))
      std::ranges::copy(run_sums(codes, others_(g, partner), s_.p.block),
                        std::back_inserter(at->second));
    return at->second;
  }

  bool computed(LinePart part, Index line, Index source) {
    const Index g = group_of(line);
    auto sum = sums(g, part == LinePart::scales ? line : source).begin();
    std::vector<double> scales;
    for (Index d = 0; d < s_.p.depth(g); d += s_.p.block)
      scales.push_back(s_.scale_of(g, part == LinePart::codes ? line : source, d));
    double noise = 0.0;
    double signal = 0.0;
    for (const Index partner : partners(g)) {
      double model = 0.0;
      for (const double scale : scales) model += *sum++ * scale;
      if (s_.mark(y_, g, line, partner) == Mark::explained) continue;
      const double got = y_.came(s_.element(y_, g, line, partner)).value;
      noise += (got - model) * (got - model);
      signal += got * got;
    }
    return noise < kFit * kFit * signal;  // not where something is no number
  }

  ProductSides s_;
  const Output& y_;
  DecodedLines others_;
  Index group_ = 0;
  Index first_ = 0;
  Index failing_ = 0;
  std::vector<bool> fails_;
  std::map<std::pair<Index, Index>, ProductSides::Line> sums_;
  std::map<std::tuple<LinePart, Index, Index>, bool> known_;
};

/// Proposes that lines of a factor come from source(line); each from its own place where there is
/// no such line.
void propose(const ProductSides& s, LinePart part, const std::function<Index(Index)>& source,
             const std::string& words, List& list) {
  const ProductSide& f = s.factor();
  std::vector<Reading> readings;
  const auto read = [&](const std::string& name) {
    readings.push_back(read_lines(name, s.axis(), [source, n = s.lines()](Index i) {
      const Index from = source(i);
      return from >= 0 && from < n ? from : i;
    }));
  };
  if (part != LinePart::scales) read(f.codes_name);
  if (part != LinePart::codes) read(f.scales_name);
  std::string lines = "the " + std::string(s.by_groups() ? "rows"
                                           : s.p.wgrad   ? "columns"
                                                         : "lines");
  lines += " of " + f.name;
  // As one they are columns of the product.
  const bool both = part == LinePart::both || f.scales == nullptr;
  if (both && s.side == Side::b && !s.p.wgrad) lines += ", or columns of " + s.p.output + ",";
  if (part == LinePart::scales) lines = "the scales of " + lines;
  if (part == LinePart::codes && f.scales != nullptr)
    lines = "the codes of " + lines + ", without their scales,";
  const std::string& name = part == LinePart::scales  ? f.scales_name
                            : part == LinePart::codes ? f.codes_name
                                                      : f.name;
  add_read(list, name + "=lines", lines + " are " + words, std::move(readings));
}

/// Nearly all lines of the run: one or two may have cancelled.
bool enough(Index good, Index all) { return all > 0 && good * 20 >= all * 19; }

/// Whether that says where all lines of the run come from.
bool add_shift(const ProductSides& s, LineRun& run, LinePart part, List& list) {
  const Index lines = s.lines();
  std::vector<Index> distances = both_ways(kMostShift);
  distances.insert(distances.end(), {-kRun, kRun});
  Index best = 0;  // of alike lines the distance at which most were found, the nearest of those
  Index most = 3;
  bool beyond = false;
  for (const Index by : distances) {
    Index all = 0;
    Index good = 0;
    bool outside = false;
    for (Index line = run.first(); line < run.last() && all - good <= kMostOthers; ++line) {
      if (!run.fails(line)) continue;
      if (line + by < 0 || line + by >= lines) {
        outside = true;
        continue;
      }
      ++all;
      good += run.fits(part, line, line + by);
    }
    if (good <= most || all - good > kMostOthers) continue;
    best = by;
    most = good;
    beyond = outside;
  }
  if (best == 0) return false;
  const std::string words = "those of " + away(best);
  propose(
      s, part, [best](Index line) { return line + best; }, words, list);
  propose(
      s, part, [best, lines](Index line) { return modulo(line + best, lines); },
      words + ", wrapping around", list);
  propose(
      s, part, [best, lines](Index line) { return std::clamp<Index>(line + best, 0, lines - 1); },
      words + ", beyond the end the last", list);
  return !beyond;
}

void add_permutation(const ProductSides& s, LineRun& run, LinePart part, List& list) {
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
      // An order without a name has to come again.
      if (!order.has_name() && run.last() - run.first() < 2 * order.period()) continue;
      propose(
          s, part, [order, origin_of](Index line) { return order.from(line, origin_of(line)); },
          "taken " + order.words() + (of_groups ? ", from the first row of each group" : ""), list);
    }
    if (!found.empty()) return;
  }
}

// ---- Codes along the depth.

/// An element of the output that differs: the codes of one side in it, and what each of them is
/// multiplied by.
struct Sample {
  ProductSides::Line codes;
  ProductSides::Line others;
  double got;
};

std::vector<Sample> samples_of(const ProductSides& s, const Output& y) {
  std::vector<Sample> samples;
  for (const auto& [g, i] : evenly_spread(s.failing(y), kSampledLines)) {
    for (const Index j : evenly_spread(s.differing(y, g, i), kOfEach)) {
      const double got = y.came(s.element(y, g, i, j)).value;
      if (!std::isfinite(got)) continue;
      Sample sample{s.codes_of(g, i), s.other().line(g, j), got};
      for (Index d = 0; d < s.p.depth(g); ++d) nth(sample.others, d) *= s.scale_of(g, i, d);
      samples.push_back(std::move(sample));
    }
  }
  return samples;
}

/// Whether codes read `by` elements on give the actual output, as far as they lie inside the depth.
bool is_shifted(const std::vector<Sample>& samples, Index by) {
  double noise = 0.0;
  double signal = 0.0;
  std::size_t told = 0;  // elements that depend on the inside more than on what is beyond it
  for (std::size_t e = 0; e < samples.size(); ++e) {
    const Sample& s = samples[e];
    const auto depth = static_cast<Index>(s.codes.size());
    double inside = 0.0;
    double edge = 0.0;
    double square = 0.0;
    for (Index d = 0; d < depth; ++d) {
      const double other = nth(s.others, d);
      square += nth(s.codes, d) * nth(s.codes, d);
      if (d + by >= 0 && d + by < depth) {
        inside += nth(s.codes, d + by) * other;
      } else {
        edge += other * other;
      }
    }
    // Beyond the end anything may be read: as much as there usually is.
    const double may = 16.0 * edge * square / static_cast<double>(depth);
    told += 4.0 * may < s.got * s.got;
    const double off = std::max(0.0, std::abs(s.got - inside) - std::sqrt(may));
    noise += off * off;
    signal += s.got * s.got;
    if (noise > kFit * kFit * signal && e >= 8) return false;
  }
  return told >= kTold;
}

/// What is read beyond the ends of the depth: what lies there in memory, another line or for a
/// gradient another group, or something else.
enum class Beyond : std::uint8_t { neighbour, round, zero, wraps };
constexpr std::pair<Beyond, const char*> kBeyond[] = {
    {Beyond::neighbour, ""},
    {Beyond::round, ", wrapping around at the end of the tensor"},
    {Beyond::zero, ", zeros beyond the end"},
    {Beyond::wraps, ", wrapping around"},
};

/// The codes of a side read `by` elements on along their depth: of a gradient rows of each group.
Reading shifted(const ProductSides& s, Index by, Beyond beyond) {
  const bool rows = s.p.wgrad;
  const Tensor& codes = *s.factor().codes;
  const Index n = rows ? codes.extent(0) : codes.elements();
  const auto source = [by, beyond, rows, columns = codes.shape().back(), n,
                       bounds = bounds_of(s.p)](Index d) {
    Index first = d - d % columns;
    Index last = first + columns;
    if (rows) {
      const auto end = std::upper_bound(bounds.begin(), bounds.end(), d);
      if (end == bounds.end()) return d;  // a row of no group
      first = *std::prev(end);
      last = *end;
    }
    const Index from = d + by;
    if (beyond == Beyond::round) return modulo(from, n);
    if (beyond == Beyond::wraps) return first + modulo(from - first, last - first);
    return beyond == Beyond::zero && (from < first || from >= last) ? Index{-1} : from;
  };
  const std::string& name = s.factor().codes_name;
  return rows ? read_lines(name, 0, source) : read_elements(name, source);
}

}  // namespace

void add_measured_lines(const Product& p, const Output& output, List& list) {
  for (const Side side : kSides) {
    const ProductSides s{p, side};
    const ProductSide& f = s.factor();
    LineRun run(s, output);
    if (run.empty()) continue;
    // Scales that several lines share are no lines of their own.
    const bool scaled = f.scales != nullptr && f.scales->rank() > s.axis() &&
                        f.scales->extent(s.axis()) == s.lines();
    for (const LinePart part : kParts) {
      if (part != LinePart::codes && !scaled) continue;
      // Lines that moved whole show in the output.
      if (!add_shift(s, run, part, list)) add_permutation(s, run, part, list);
    }
  }
}

void add_depth_shifts(const Product& p, const Output& y, List& list) {
  for (const Side side : kSides) {
    const ProductSides s{p, side};
    const ProductSide& f = s.factor();
    const std::vector<Sample> samples = samples_of(s, y);
    if (samples.size() < 12) return;
    int found = 0;
    for (const Index by : both_ways(kMostShift)) {
      if (!is_shifted(samples, by)) continue;
      const std::string words = (f.scales == nullptr ? f.name : "the codes of " + f.name) +
                                " are read " + away(by, p.wgrad ? "row" : "element") +
                                " their place along " + (p.wgrad ? "the rows" : "K") +
                                (f.scales == nullptr ? "" : ", their scales are not");
      for (const auto& [beyond, beyond_words] : kBeyond)
        add_read(list, f.codes_name + "=depth_shifted", words + beyond_words,
                 {shifted(s, by, beyond)});
      if (++found == 2) return;
    }
  }
}

}  // namespace mxo
