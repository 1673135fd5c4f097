// What of the depth is missing from every sum, added twice or of the other sign: blocks, from the
// lines that were measured, and single terms, from regression of the actual output on each of them.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr Index kSamples = 8192;       ///< of the output, at least
constexpr Index kTerms = 1 << 24;      ///< of all samples, where the depth leaves more
constexpr Index kColumns = 128;        ///< that each sampled row meets
constexpr double kMaxStdError = 0.25;  ///< standard error from which on nothing is said of a term
constexpr double kClear = 0.35;        ///< distance from a whole number that is noise
constexpr std::size_t kLeastSamples = 64;
constexpr int kUnknown = 3;
constexpr Index kLong = 2048;
constexpr int kRounds = 10;

/// "k = 32 to 63".
std::string k_in_words(const std::vector<Index>& depths) {
  const std::string words = ranges_in_words("k", depths);
  if (!words.starts_with("k")) return words;
  return "k = " + words.substr(words.starts_with("ks ") ? 3 : 2);
}

std::string depths_in_words(const Product& p, const std::vector<Index>& depths) {
  if (!p.wgrad) return k_in_words(depths);
  return ranges_in_words("row", depths) + " of " + p.a.name + " and " + p.b.name;
}

/// Codes of a at the depths named are zero.
bool leave_out(Call& call, const std::vector<Index>& depths) {
  const std::optional<Product> p = product_of(call);
  return p && read_whole(call, read_depth(*p, p->a.codes_name, *p->a.codes, [&](Index d) {
                           return std::binary_search(depths.begin(), depths.end(), d) ? Index{-1}
                                                                                      : d;
                         }));
}

/// Codes of a at the depths named, columns of x or rows of dy, with the other sign.
bool negate(Call& call, const std::vector<Index>& depths) {
  const std::optional<Product> p = product_of(call);
  if (!p || depths.back() >= (p->wgrad ? p->ends.back() : p->k)) return false;
  Tensor codes = *p->a.codes;
  const Index columns = codes.extent(1);
  const std::size_t size = size_of(codes.dtype());
  for (const Index d : depths) {
    for (Index i = 0; i < (p->wgrad ? columns : codes.extent(0)); ++i) {
      const Index at = p->wgrad ? d * columns + i : i * columns + d;
      codes.data()[static_cast<std::size_t>(at + 1) * size - 1] ^= std::byte{0x80};
    }
  }
  call.replace(p->a.codes_name, std::move(codes));
  return true;
}

/// The last axis of a tensor made of its places `from`; zeros where there are none.
Tensor made_of(const Tensor& t, const std::vector<Index>& from) {
  return read_gathered(read_lines("", -1, [&](Index i) { return nth(from, i); }), t, t.rank() - 1,
                       range_of(static_cast<Index>(from.size())));
}

/// A forward product over K and, once more, the terms named: the blocks that hold them, without
/// their other terms.  A block begins where a scale does: zeros fill up the last one.
bool append_terms(Call& call, const std::vector<Index>& depths) {
  const std::optional<Product> p = product_of(call);
  if (!p || p->wgrad) return false;
  const Index block = p->block;
  std::vector<Index> blocks = range_of(ceil_div(p->k, block));
  std::vector<Index> from = range_of(static_cast<Index>(blocks.size()) * block);
  for (const Index b : range_of(ceil_div(p->k, block))) {
    const auto first = std::lower_bound(depths.begin(), depths.end(), b * block);
    if (first == depths.end() || *first >= (b + 1) * block) continue;
    blocks.push_back(b);
    for (Index d = b * block; d < (b + 1) * block; ++d)
      from.push_back(std::binary_search(depths.begin(), depths.end(), d) ? d : Index{-1});
  }
  for (const ProductSide* f : {&p->a, &p->b}) {
    Tensor codes = made_of(*f->codes, from);
    if (f->scales != nullptr && f->scales->shape().back() > 1 &&
        f->scales->rank() == f->codes->rank()) {
      const Index run = block_of(p->k, f->scales->shape().back());
      if (block % run != 0) return false;
      std::vector<Index> of_scales;
      for (const Index b : blocks) {
        for (Index s = 0; s < block / run; ++s) of_scales.push_back(b * (block / run) + s);
      }
      call.replace(f->scales_name, made_of(*f->scales, of_scales));
    }
    call.replace(f->codes_name, std::move(codes));
  }
  return true;
}

/// Depths, ascending, that count otherwise than once.
struct Odd {
  std::vector<Index> missing;
  std::vector<Index> twice;
  std::vector<Index> negative;
};

/// Whether nothing is added up in the groups of a gradient: they are zero.
bool are_whole_groups(const Product& p, const std::vector<Index>& depths) {
  Index whole = 0;
  for (const Index g : range_of(p.groups())) {
    const auto from = std::lower_bound(depths.begin(), depths.end(), p.begin(g));
    const bool all = std::lower_bound(from, depths.end(), p.end(g)) - from == p.depth(g);
    whole += p.wgrad && all ? p.depth(g) : 0;
  }
  return whole == static_cast<Index>(depths.size());
}

/// Whether depths are whole blocks of K with a scale of their own: twice is one byte too high, too.
bool are_scaled_blocks(const Product& p, const std::vector<Index>& depths) {
  const auto scaled = [&](const ProductSide& f) {
    return f.scales != nullptr && f.scales->rank() > 0 && f.scales->shape().back() > 1;
  };
  if (!scaled(p.a) && !scaled(p.b)) return false;
  Index whole = 0;
  for (Index first = 0; first < p.k; first += p.block) {
    const Index end = std::min(first + p.block, p.k);
    const auto from = std::lower_bound(depths.begin(), depths.end(), first);
    const Index here = std::lower_bound(from, depths.end(), end) - from;
    whole += here == end - first ? here : 0;
  }
  return whole == static_cast<Index>(depths.size());
}

void propose(const Product& p, const Odd& odd, std::vector<Hypothesis>& list) {
  // Of all terms alike other causes speak: a factor, a sign.
  const Index all = p.wgrad ? p.ends.back() : p.k;
  using Edit = bool (*)(Call&, const std::vector<Index>&);
  const auto add = [&](const char* id, const std::vector<Index>& depths, const char* what,
                       Edit edit) {
    if (depths.empty() || static_cast<Index>(depths.size()) == all) return;
    add_altered_locally(list, id, "the products of " + depths_in_words(p, depths) + what,
                        [depths, edit](Call& c) { return edit(c, depths); });
  };
  if (!are_whole_groups(p, odd.missing)) add("k.missing", odd.missing, " are left out", leave_out);
  add("k.negative", odd.negative, " have the other sign", negate);
  if (p.wgrad) return;
  add("k.twice", odd.twice,
      are_scaled_blocks(p, odd.twice) ? " are added twice, or scaled by twice their scales"
                                      : " are added twice",
      append_terms);
}

/// An element of the output that was sampled; its lines are decoded once.
struct Sample {
  const ProductSides::Line* a;
  const ProductSides::Line* b;
  double got;
  double weight;  ///< 1 / sum of the squares of its terms
};

/// What was sampled of some groups, all of one depth.
struct Samples {
  DecodedLines a;
  DecodedLines b;
  std::vector<Sample> list = {};
};

/// Adds the elements of group g where failing rows and columns meet.
void sample_group(const Product& p, const Output& y, Index g, Index most, Samples& samples) {
  const ProductSides rows{p, Side::a};
  const std::vector<Index> columns = evenly_spread(rows.other().failing(y, g), kColumns);
  if (columns.empty()) return;
  const ElementReader read(y.expected->dtype());
  const Index each = std::max<Index>(1, most / static_cast<Index>(columns.size()));
  for (const Index i : evenly_spread(rows.failing(y, g), each)) {
    for (const Index j : columns) {
      if (rows.mark(y, g, i, j) == Mark::explained) continue;
      Sample s{&samples.a(g, i), &samples.b(g, j),
               read(y.actual_bits(rows.element(y, g, i, j))).value, 1.0};
      double squares = 0.0;
      for (std::size_t d = 0; d < s.a->size(); ++d) {
        const double term = (*s.a)[d] * (*s.b)[d];
        squares += term * term;
      }
      if (!std::isfinite(s.got) || !(squares > 0.0) || !std::isfinite(squares)) continue;
      s.weight = 1.0 / squares;
      samples.list.push_back(s);
    }
  }
}

/// How often a term is in the sums, by the samples.
struct Estimate {
  double multiple = 1.0;
  double error = 1e300;
};

/// From one sample in `step`.
std::vector<Estimate> estimated(const std::vector<Sample>& samples,
                                const std::vector<int>& believed, std::size_t step) {
  const std::size_t n = believed.size();
  std::vector<double> moved(n);
  std::vector<double> squares(n);
  std::vector<double> terms(n);
  double noise = 0.0;
  for (std::size_t i = 0; i < samples.size(); i += step) {
    const Sample& s = samples[i];
    double rest = s.got;
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
  noise /= std::ceil(static_cast<double>(samples.size()) / static_cast<double>(step));
  std::vector<Estimate> found(n);
  for (std::size_t d = 0; d < n; ++d) {
    if (!(squares[d] > 0.0)) continue;
    found[d] = {believed[d] + moved[d] / squares[d], std::sqrt(noise / squares[d])};
  }
  return found;
}

/// Terms that are too small to show are what their neighbours are, if these agree; one does show.
void fill_unknown(std::vector<int>& multiple) {
  auto end = multiple.begin();
  while (true) {
    const auto from = std::find(end, multiple.end(), kUnknown);
    if (from == multiple.end()) return;
    end = std::find_if(from, multiple.end(), [](int m) { return m != kUnknown; });
    const int before = from == multiple.begin() ? *end : *std::prev(from);
    const int after = end == multiple.end() ? before : *end;
    std::fill(from, end, before == after ? before : 1);
  }
}

/// The multiple of each term that is in the sums, -1 to 2; empty where the samples do not tell, or
/// every term is there once.  What is believed is taken off: the rest shows smaller terms.  Whether
/// it is so the product itself has to tell, run once more.
std::vector<int> multiples_of(const std::vector<Sample>& samples, Index depth) {
  const auto n = static_cast<std::size_t>(depth);
  std::vector<int> believed(n, 1);
  if (samples.size() < kLeastSamples) return {};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> clear = believed;
    std::vector<int> nearest = believed;
    std::size_t known = 0;
    // Of long sums a few samples have to show something before all are looked at.
    const bool few = round == 0 && depth > kLong;
    const std::vector<Estimate> seen = estimated(samples, believed, few ? 8 : 1);
    for (std::size_t d = 0; d < n; ++d) {
      if (seen[d].error > kMaxStdError) continue;
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
      if (seen[d].error > kMaxStdError) believed[d] = kUnknown;
    }
    fill_unknown(believed);
    return believed;
  }
  return {};
}

/// Adds the terms of some groups, whose first one lies at depth `first`, that do not count once.
void add_odd_terms(const Product& p, const Output& y, const std::vector<Index>& groups, Index first,
                   Odd& odd) {
  const Index depth = p.depth(groups.front());
  if (depth == 0) return;
  const Index samples_of_all = std::max(kSamples, kTerms / std::max<Index>(depth, 512));
  const Index each = ceil_div(samples_of_all, static_cast<Index>(groups.size()));
  Samples samples{DecodedLines({p, Side::a}), DecodedLines({p, Side::b})};
  for (const Index g : groups) sample_group(p, y, g, each, samples);
  const std::vector<int> multiple = multiples_of(samples.list, depth);
  for (std::size_t d = 0; d < multiple.size(); ++d) {
    const Index at = first + static_cast<Index>(d);
    if (multiple[d] == 0) odd.missing.push_back(at);
    if (multiple[d] == 2) odd.twice.push_back(at);
    if (multiple[d] == -1) odd.negative.push_back(at);
  }
}

}  // namespace

void add_measured_depth(const Product& p, const std::vector<Effective>& lines,
                        std::vector<Hypothesis>& list) {
  Odd odd;
  for (Index g = 0; g < (p.wgrad ? p.groups() : 1); ++g) {  // K is that of all groups
    for (Index b = 0; b < ceil_div(p.depth(g), p.block); ++b) {
      Index zero = 0;
      Index two = 0;
      Index known = 0;
      for (const Effective& e : lines) {
        if ((p.wgrad && e.group != g) || b >= e.blocks() || nth(e.sigma, b) > 0.1) continue;
        ++known;
        zero += std::abs(nth(e.ratio, b)) < 0.1;
        two += std::abs(nth(e.ratio, b) - 2.0) < 0.1;
      }
      const Index first = p.wgrad ? p.begin(g) : 0;
      const Index last = std::min(p.depth(g), (b + 1) * p.block);
      for (Index d = b * p.block; d < last; ++d) {
        if (zero * 4 > known * 3) odd.missing.push_back(first + d);
        if (two * 4 > known * 3) odd.twice.push_back(first + d);
      }
    }
  }
  propose(p, odd, list);
}

void add_measured_terms(const Product& p, const Output& y, std::vector<Hypothesis>& list) {
  Odd odd;
  std::vector<Index> groups = range_of(p.groups());
  if (p.wgrad) {  // the depth of each group is its own
    for (const Index g : groups) add_odd_terms(p, y, {g}, p.begin(g), odd);
  } else {
    add_odd_terms(p, y, groups, 0, odd);
  }
  propose(p, odd, list);
}

}  // namespace mxo
