// One side of a product read some elements early or late along the depth.
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

namespace mxo {
namespace {

constexpr Index kElements = 48;  ///< of the output, that are looked at
constexpr Index kMostShift = 64;
constexpr std::size_t kTold = 6;
constexpr double kFits = 0.01;  ///< of the root mean square

/// An element of the output that differs: the codes of one side in it, and what each of them is
/// multiplied by.
struct Sample {
  Sides::Line codes;
  Sides::Line others;
  double came;
};

std::vector<Sample> samples_of(const Sides& s, const Output& y) {
  struct At {
    Index group, own, other;
  };
  const ElementReader read(y.expected->dtype());
  const auto came = [&](const At& at) {
    return read(y.came(s.element(y, at.group, at.own, at.other))).value;
  };
  std::vector<At> all;
  for (Index g = 0; g < s.p.groups(); ++g) {
    if (s.p.depth(g) == 0) continue;
    const Index lines = s.p.last_line(g) - s.p.first_line(g);
    // A stride that has no factor with the usual extents.
    const Index step = (lines * s.p.n / kElements) | 1;
    for (Index e = 0; e < lines * s.p.n; e += step) {
      const Index i = s.p.first_line(g) + e / s.p.n;
      const Index j = e % s.p.n;
      const At at = s.side == Side::a ? At{g, i, j} : At{g, j, i};
      if (s.mark(y, g, at.own, at.other) == Mark::differs && std::isfinite(came(at)))
        all.push_back(at);
    }
  }
  std::vector<Sample> samples;
  for (const At& at : evenly_spread(all, kElements)) {
    Sample sample{s.codes_of(at.group, at.own), s.other().line(at.group, at.other), came(at)};
    for (Index d = 0; d < s.p.depth(at.group); ++d)
      nth(sample.others, d) *= s.scale_of(at.group, at.own, d);
    samples.push_back(std::move(sample));
  }
  return samples;
}

/// Whether codes read `by` elements on give what came, as far as they lie inside the depth.
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
    told += 4.0 * may < s.came * s.came;
    const double off = std::max(0.0, std::abs(s.came - inside) - std::sqrt(may));
    noise += off * off;
    signal += s.came * s.came;
    if (noise > kFits * kFits * signal && e >= 8) return false;
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
Reading shifted(const Sides& s, Index by, Beyond beyond) {
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
  return rows ? read_axis(name, codes, 0, source) : read_elements(name, source);
}

}  // namespace

void add_depth_shifts(const Product& p, const Output& y, std::vector<Hypothesis>& list) {
  for (const Side side : kSides) {
    const Sides s{p, side};
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
      for (const auto& [beyond, beyond_words] : kBeyond) {
        list.push_back(read_elsewhere(f.codes_name + "=depth_shifted", words + beyond_words,
                                      {shifted(s, by, beyond)}));
      }
      if (++found == 2) return;
    }
  }
}

}  // namespace mxo
