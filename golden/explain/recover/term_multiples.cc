// Terms of sums, by regression of what came on each of them.
#include "golden/explain/recover/term_multiples.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "golden/explain/name/places.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr Index kSamples = 8192;   ///< of the output, at least
constexpr Index kTerms = 1 << 24;  ///< of all samples, where the depth leaves more
constexpr Index kColumns = 128;    ///< that each sampled row meets
constexpr double kHazy = 0.25;     ///< standard error from which on nothing is said of a term
constexpr double kClear = 0.35;    ///< distance from a whole number that is noise
constexpr std::size_t kLeastSamples = 64;
constexpr int kUnknown = 3;
constexpr Index kLong = 2048;
constexpr int kRounds = 10;

/// An element of the output that was sampled; its lines are decoded once.
struct Sample {
  const std::vector<double>* a;
  const std::vector<double>* b;
  double came;
  double weight = 1.0;  ///< 1 / sum of the squares of its terms
};

struct Line {
  bool is_a;
  Index group;
  Index line;
  auto operator<=>(const Line&) const = default;
};

/// What was sampled of some groups, all of one depth.
struct Samples {
  std::map<Line, std::vector<double>> lines;
  std::vector<Sample> list;
};

/// At most `most` of a list, spread over it.
std::vector<Index> spread(const std::vector<Index>& all, Index most) {
  const auto n = static_cast<Index>(all.size());
  if (n <= most) return all;
  std::vector<Index> kept;
  for (Index i = 0; i < most; ++i) kept.push_back(all[static_cast<std::size_t>(i * n / most)]);
  return kept;
}

Index samples_of(Index depth) { return std::max(kSamples, kTerms / std::max<Index>(depth, 512)); }

/// Adds the elements of group g where failing rows and columns meet.
void sample_group(const Product& p, const Output& y, Index g, Index most, Samples& samples) {
  std::vector<Index> rows;
  std::vector<std::uint8_t> differs(static_cast<std::size_t>(p.n));
  for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
    const std::size_t before = rows.size();
    for (Index j = 0; j < p.n; ++j) {
      if (y.mark(p.output_row(g, i), j) != Mark::differs) continue;
      if (rows.size() == before) rows.push_back(i);
      differs[static_cast<std::size_t>(j)] = 1;
    }
  }
  const std::vector<Index> columns = spread(marked(differs), kColumns);
  if (columns.empty()) return;
  const ElementReader read(y.expected->dtype());
  const auto decoded = [&](const Line& at) {
    const auto [entry, fresh] = samples.lines.try_emplace(at);
    if (fresh) {
      entry->second = at.is_a ? p.line_a(at.group, at.line) : p.line_b(at.group, at.line);
    }
    return &entry->second;
  };
  const Index each = std::max<Index>(1, most / static_cast<Index>(columns.size()));
  for (const Index i : spread(rows, each)) {
    for (const Index j : columns) {
      if (y.mark(p.output_row(g, i), j) == Mark::settled) continue;
      const Element came = read(y.came(p.output_row(g, i) * y.columns + j));
      if (came.nan || came.infinite) continue;
      Sample s{decoded({true, g, i}), decoded({false, g, j}), came.value};
      double squares = 0.0;
      for (std::size_t d = 0; d < s.a->size(); ++d) {
        const double term = (*s.a)[d] * (*s.b)[d];
        squares += term * term;
      }
      if (!(squares > 0.0) || !std::isfinite(squares)) continue;
      s.weight = 1.0 / squares;
      samples.list.push_back(s);
    }
  }
}

/// How often a term is in the sums, by the samples.
struct Estimate {
  double multiple;
  double error;
};

/// From one sample in `step`.
std::vector<Estimate> estimated(const Samples& samples, const std::vector<int>& believed,
                                std::size_t step) {
  const std::size_t n = believed.size();
  std::vector<double> moved(n);
  std::vector<double> squares(n);
  std::vector<double> terms(n);
  double noise = 0.0;
  for (std::size_t i = 0; i < samples.list.size(); i += step) {
    const Sample& s = samples.list[i];
    double rest = s.came;
    for (std::size_t d = 0; d < n; ++d) {
      terms[d] = (*s.a)[d] * (*s.b)[d];
      rest -= believed[d] * terms[d];
    }
    noise += s.weight * rest * rest;
    for (std::size_t d = 0; d < n; ++d) {
      moved[d] += s.weight * rest * terms[d];
      squares[d] += s.weight * terms[d] * terms[d];
    }
  }
  noise /= std::ceil(static_cast<double>(samples.list.size()) / static_cast<double>(step));
  std::vector<Estimate> found(n);
  for (std::size_t d = 0; d < n; ++d) {
    if (squares[d] > 0.0) {
      found[d] = {believed[d] + moved[d] / squares[d], std::sqrt(noise / squares[d])};
    } else {
      found[d] = {1.0, 1e300};
    }
  }
  return found;
}

/// Terms that are too small to show are what their neighbours are, if these agree; one does show.
void fill_unknown(std::vector<int>& multiple) {
  const auto shows = [](int m) { return m != kUnknown; };
  auto end = multiple.begin();
  while (true) {
    const auto from = std::find(end, multiple.end(), kUnknown);
    if (from == multiple.end()) return;
    end = std::find_if(from, multiple.end(), shows);
    const int before = from == multiple.begin() ? *end : *std::prev(from);
    const int after = end == multiple.end() ? before : *end;
    std::fill(from, end, before == after ? before : 1);
  }
}

/// The multiple of each term that is in the sums, -1 to 2; empty where the samples do not tell, or
/// every term is there once.  What is believed is taken off: the rest shows smaller terms.  Whether
/// it is so the product itself has to tell, run once more.
std::vector<int> multiples_of(const Samples& samples, Index depth) {
  const auto n = static_cast<std::size_t>(depth);
  std::vector<int> believed(n, 1);
  if (samples.list.size() < kLeastSamples) return {};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> clear = believed;
    std::vector<int> nearest = believed;
    std::size_t known = 0;
    // Of long sums a few samples have to show something before all are looked at.
    const bool few = round == 0 && depth > kLong;
    const std::vector<Estimate> seen = estimated(samples, believed, few ? 8 : 1);
    for (std::size_t d = 0; d < n; ++d) {
      if (seen[d].error > kHazy) continue;
      ++known;
      nearest[d] = static_cast<int>(std::lround(std::clamp(seen[d].multiple, -1.0, 2.0)));
      if (std::abs(seen[d].multiple - nearest[d]) < kClear) clear[d] = nearest[d];
    }
    // Terms share lines: what is not clear becomes so once others are taken off, or is guessed.
    const std::vector<int>& next = clear != believed ? clear : nearest;
    if (next != believed) {
      believed = next;
      continue;
    }
    if (known * 4 < n * 3 || few) return {};
    for (std::size_t d = 0; d < n; ++d) {
      if (seen[d].error > kHazy) believed[d] = kUnknown;
    }
    fill_unknown(believed);
    const bool plain = std::all_of(believed.begin(), believed.end(), [](int m) { return m == 1; });
    return plain ? std::vector<int>{} : believed;
  }
  return {};
}

}  // namespace

std::vector<int> multiples_of_terms(const Product& p, const Output& y,
                                    const std::vector<Index>& groups) {
  Samples samples;
  const Index depth = groups.empty() ? 0 : p.depth(groups.front());
  if (depth == 0) return {};
  const Index each = ceil_div(samples_of(depth), static_cast<Index>(groups.size()));
  for (const Index g : groups) sample_group(p, y, g, each, samples);
  return multiples_of(samples, depth);
}

}  // namespace mxo
