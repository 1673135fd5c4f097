// One side of a product read some elements early or late along the depth.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "golden/explain/find/product/finders.h"
#include "golden/judge/elements.h"

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
    Index group, i, j;
  };
  std::vector<At> all;
  for (Index g = 0; g < s.p.groups(); ++g) {
    if (s.p.depth(g) == 0) continue;
    const Index lines = s.p.last_line(g) - s.p.first_line(g);
    // A stride that has no factor with the usual extents.
    const Index step = (lines * s.p.n / kElements) | 1;
    for (Index e = 0; e < lines * s.p.n; e += step) {
      const Index i = s.p.first_line(g) + e / s.p.n;
      if (y.mark(s.p.output_row(g, i), e % s.p.n) == Mark::differs)
        all.push_back({g, i, e % s.p.n});
    }
  }
  const ElementReader read(y.expected->dtype());
  std::erase_if(all, [&](const At& at) {
    const Element came = read(y.came(s.p.output_row(at.group, at.i) * y.columns + at.j));
    return came.nan || came.infinite;
  });
  Product plain = s.p;
  (s.side == Side::a ? plain.a : plain.b).scales = nullptr;
  const Sides codes{plain, s.side};
  std::vector<Sample> samples;
  for (const Index n : evenly_spread(0, static_cast<Index>(all.size()), kElements)) {
    const At& at = all[static_cast<std::size_t>(n)];
    const Index own = s.side == Side::a ? at.i : at.j;
    const Index other = s.side == Side::a ? at.j : at.i;
    Sample sample{codes.line(at.group, own), s.other().line(at.group, other),
                  read(y.came(s.element(y, at.group, own, other))).value};
    for (std::size_t d = 0; d < sample.others.size() && s.factor().scales != nullptr; ++d) {
      sample.others[d] *=
          scale_value(*s.factor().scales, s.scale(at.group, own, static_cast<Index>(d)));
    }
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
      const double other = s.others[static_cast<std::size_t>(d)];
      const double own = s.codes[static_cast<std::size_t>(d)];
      square += own * own;
      if (d + by >= 0 && d + by < depth) {
        inside += s.codes[static_cast<std::size_t>(d + by)] * other;
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
struct BeyondWords {
  Beyond beyond;
  const char* words;
};
constexpr BeyondWords kBeyond[] = {
    {Beyond::neighbour, ""},
    {Beyond::round, ", wrapping around at the end of the tensor"},
    {Beyond::zero, ", zeros beyond the end"},
    {Beyond::wraps, ", wrapping around"},
};

Index modulo(Index i, Index n) { return (i % n + n) % n; }

/// The codes of a side read `by` elements on along their depth: of a gradient rows of each group.
Reading shifted(const Sides& s, Index by, Beyond beyond) {
  const bool rows = s.p.wgrad;
  const Index columns = s.factor().codes->shape().back();
  const Index n = rows ? s.factor().codes->extent(0) : s.factor().codes->elements();
  const auto source = [by, beyond, rows, columns, n, bounds = bounds_of(s.p)](Index d) {
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
  return rows ? read_axis(name, *s.factor().codes, 0, source) : read_elements(name, source);
}

}  // namespace

void add_depth_shifts(const Product& p, const Output& y, std::vector<Hypothesis>& list) {
  for (const Side side : kSides) {
    const Sides s{p, side};
    const ProductSide& f = s.factor();
    const std::vector<Sample> samples = samples_of(s, y);
    if (samples.size() < 12) return;
    int found = 0;
    for (Index i = 2; i < 2 * kMostShift + 2; ++i) {  // -1, 1, -2, 2, ..
      const Index by = i % 2 == 0 ? -i / 2 : i / 2;
      if (!is_shifted(samples, by)) continue;
      const Index far = std::abs(by);
      const std::string words =
          (f.scales == nullptr ? f.name : "the codes of " + f.name) + " are read " +
          std::to_string(far) + (p.wgrad ? " row" : " element") + (far == 1 ? " " : "s ") +
          (by < 0 ? "before" : "after") + " their place along " + (p.wgrad ? "the rows" : "K") +
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
