// One side of a product read some elements early or late along the depth.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "golden/explain/recover/scales.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kElements = 48;  ///< of the output, that are looked at
constexpr Index kMostShift = 64;
constexpr std::size_t kTold = 6;
constexpr double kFit = 0.01;  ///< of the root mean square

/// What is read beyond the ends of the depth.
enum class Beyond : std::uint8_t { neighbour, round, zero, wraps };
constexpr Beyond kBeyond[] = {Beyond::neighbour, Beyond::round, Beyond::zero, Beyond::wraps};

/// An element of the output that differs.
struct At {
  Index group;
  Index i;
  Index j;
  double came;
};

std::vector<At> sample_of(const Product& p, const Output& y) {
  const ElementReader read(y.expected->dtype());
  std::vector<At> all;
  for (Index g = 0; g < p.groups(); ++g) {
    if (p.depth(g) == 0) continue;
    const Index lines = p.last_line(g) - p.first_line(g);
    // A stride that has no factor with the usual extents.
    const Index step = (lines * p.n / kElements) | 1;
    for (Index e = 0; e < lines * p.n; e += step) {
      const Index i = p.first_line(g) + e / p.n;
      const Index at = p.output_row(g, i) * y.columns + e % p.n;
      if (y.marks[static_cast<std::size_t>(at)] != Mark::differs) continue;
      const Element came = read(y.came(at));
      if (!came.nan && !came.infinite) all.push_back({g, i, e % p.n, came.value});
    }
  }
  std::vector<At> kept;
  const auto n = static_cast<Index>(all.size());
  const Index most = std::min(n, kElements);
  for (Index i = 0; i < most; ++i) kept.push_back(all[static_cast<std::size_t>(i * n / most)]);
  return kept;
}

/// Where depth d of a line is read, as the depth of the same line; beyond it in memory there is
/// another line, or for a gradient another group.
struct Shift {
  Index by;
  Beyond beyond;
};

/// A tensor read `by` elements on along its depth: of a gradient the rows of each group.
Tensor shifted(const Tensor& given, const Shift& s, bool rows, const std::vector<Index>& begins) {
  Tensor out = given;
  const Index columns = given.shape().back();
  // Runs of depth, in units that move together.
  const Index width = rows ? columns : 1;
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(given.dtype());
  const Index n = rows ? given.extent(0) : given.elements();
  const auto move = [&](Index first, Index last) {
    for (Index d = first; d < last; ++d) {
      Index from = d + s.by;
      if (s.beyond == Beyond::round) from = (from % n + n) % n;
      const bool outside = s.beyond == Beyond::neighbour || s.beyond == Beyond::round
                               ? from < 0 || from >= n
                               : from < first || from >= last;
      std::byte* to = out.data() + static_cast<std::size_t>(d) * bytes;
      if (outside && s.beyond == Beyond::wraps) {
        from = first + ((from - first) % (last - first) + (last - first)) % (last - first);
      } else if (outside) {
        std::memset(to, 0, bytes);
        continue;
      }
      std::memcpy(to, given.data() + static_cast<std::size_t>(from) * bytes, bytes);
    }
  };
  if (rows) {
    for (std::size_t g = 0; g + 1 < begins.size(); ++g) move(begins[g], begins[g + 1]);
  } else {
    for (Index at = 0; at < n; at += columns) move(at, at + columns);
  }
  return out;
}

std::string words_of(const ProductSide& f, const Shift& s, bool wgrad) {
  const Index by = std::abs(s.by);
  return (f.scales == nullptr ? f.name : "the codes of " + f.name) + " are read " +
         std::to_string(by) +
         (wgrad ? (by == 1 ? " row " : " rows ") : (by == 1 ? " element " : " elements ")) +
         (s.by < 0 ? "before" : "after") + " their place along " + (wgrad ? "the rows" : "K") +
         (f.scales == nullptr ? "" : ", their scales are not") +
         (s.beyond == Beyond::round   ? ", coming round at the end of the tensor"
          : s.beyond == Beyond::zero  ? ", zeros beyond the end"
          : s.beyond == Beyond::wraps ? ", coming round at the end"
                                      : "");
}

}  // namespace

void add_depth_shifts(const Product& p, const Output& y, std::vector<Hypothesis>& list) {
  const std::vector<At> sample = sample_of(p, y);
  if (sample.size() < 12) return;
  std::vector<Index> begins{0};
  begins.insert(begins.end(), p.ends.begin(), p.ends.end());
  for (const bool is_a : {true, false}) {
    const ProductSide& f = is_a ? p.a : p.b;
    Product plain = p;
    (is_a ? plain.a : plain.b).scales = nullptr;
    // Per element: codes of this side, its scales times the other side's values.
    std::vector<std::vector<double>> codes;
    std::vector<std::vector<double>> others;
    for (const At& at : sample) {
      codes.push_back(is_a ? plain.line_a(at.group, at.i) : plain.line_b(at.group, at.j));
      others.push_back(is_a ? p.line_b(at.group, at.j) : p.line_a(at.group, at.i));
      for (std::size_t d = 0; d < others.back().size() && f.scales != nullptr; ++d) {
        const Index s = is_a ? p.scale_a(at.group, at.i, static_cast<Index>(d))
                             : p.scale_b(at.group, at.j, static_cast<Index>(d));
        others.back()[d] *= scale_value(*f.scales, s);
      }
    }
    const auto inner = [&](Index by) {
      double noise = 0.0;
      double signal = 0.0;
      std::size_t told = 0;  // elements that depend on the inside more than on what is beyond it
      for (std::size_t e = 0; e < sample.size(); ++e) {
        const auto depth = static_cast<Index>(codes[e].size());
        double inside = 0.0;
        double edge = 0.0;
        for (Index d = 0; d < depth; ++d) {
          const double o = others[e][static_cast<std::size_t>(d)];
          const Index from = d + by;
          if (from >= 0 && from < depth) {
            inside += codes[e][static_cast<std::size_t>(from)] * o;
          } else {
            edge += o * o;
          }
        }
        // Beyond the end anything may be read: as much as there usually is.
        double square = 0.0;
        for (const double c : codes[e]) square += c * c;
        const double may = 16.0 * edge * square / static_cast<double>(depth);
        told += 4.0 * may < sample[e].came * sample[e].came;
        const double off = std::max(0.0, std::abs(sample[e].came - inside) - std::sqrt(may));
        noise += off * off;
        signal += sample[e].came * sample[e].came;
        if (noise > kFit * kFit * signal && e >= 8) return false;
      }
      return told >= kTold;
    };
    int found = 0;
    for (Index by = 1; by <= kMostShift; ++by) {
      for (const Index d : {-by, by}) {
        if (!inner(d)) continue;
        for (const Beyond beyond : kBeyond) {
          const Shift s{d, beyond};
          list.push_back({f.codes_name + "=depth_shifted", words_of(f, s, p.wgrad), Stage::input,
                          [name = f.codes_name, s, wgrad = p.wgrad, begins](Call& c) {
                            c.replace(name, shifted(c.input(name), s, wgrad, begins));
                            return true;
                          }});
        }
        if (++found == 2) return;
      }
    }
  }
}

}  // namespace mxo
