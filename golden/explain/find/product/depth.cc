// What of the depth is missing from every sum, added twice or of the other sign: blocks and single
// terms, from regression of the actual output on each of them.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/product/finders.h"

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

/// Codes of a, zero at the depths named.
Reading left_out(const Product& p, const std::vector<Index>& depths) {
  return read_depth(p, p.a.codes_name, [depths](Index d) {
    return std::ranges::binary_search(depths, d) ? Index{-1} : d;
  });
}

/// Codes of a, of the other sign at the depths named: columns of x or rows of dy.
Reading negated(const Product& p, const std::vector<Index>& depths) {
  Reading reading = read_depth(p, p.a.codes_name, [](Index d) { return d; });
  reading.read = [depths, rows = p.wgrad, plain = reading.read](const Tensor& given,
                                                                const Cells& cells, std::byte* to) {
    plain(given, cells, to);
    for (const Index row : cells.rows) {
      for (const Index column : cells.columns) {
        to += size_of(given.dtype());
        if (std::ranges::binary_search(depths, rows ? row : column)) to[-1] ^= std::byte{0x80};
      }
    }
  };
  return reading;
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
    if (const Index run = p->depth_of_scale(*f); run < p->k) {
      if (block % run != 0) return false;
      std::vector<Index> of_scales;
      for (const Index b : blocks)
        for (Index s = 0; s < block / run; ++s) of_scales.push_back(b * (block / run) + s);
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
  bool operator==(const Odd&) const = default;
};

/// `blocks`: they were found as whole blocks.
void propose(const Product& p, const Odd& odd, bool blocks, List& list) {
  // Of all terms alike other causes speak: a factor, a sign.
  const auto some = [all = p.wgrad ? p.ends.back() : p.k](const std::vector<Index>& depths) {
    return !depths.empty() && std::ssize(depths) < all;
  };
  const auto products = [&p](const std::vector<Index>& depths) {
    return "the products of " + depths_in_words(p, depths);
  };
  if (some(odd.missing))
    add_read_in_slices(list, "k.missing", products(odd.missing) + " are left out",
                       {left_out(p, odd.missing)});
  if (some(odd.negative))
    add_read_in_slices(list, "k.negative", products(odd.negative) + " have the other sign",
                       {negated(p, odd.negative)});
  if (p.wgrad || !some(odd.twice)) return;
  // A block that has a scale of its own counts twice, too, where that is one byte too high.
  const auto scaled = [](const ProductSide& f) {
    return f.scales != nullptr && f.scales->rank() > 0 && f.scales->shape().back() > 1;
  };
  const bool may_be_scale = blocks && (scaled(p.a) || scaled(p.b));
  add_altered_locally(list, "k.twice",
                      products(odd.twice) + " are added twice" +
                          (may_be_scale ? ", or scaled by twice their scales" : ""),
                      [depths = odd.twice](Call& c) { return append_terms(c, depths); });
  // A stage of a pipeline that was read before it was filled.
  if (some(odd.missing))
    add_altered_locally(list, "k.again",
                        products(odd.missing) + " are left out, and those of " +
                            depths_in_words(p, odd.twice) + " are added twice",
                        [missing = left_out(p, odd.missing), twice = odd.twice](Call& c) {
                          return read_whole(c, missing) && append_terms(c, twice);
                        });
}

/// Samples of some groups, all of one depth: where failing rows and columns meet, each weighed by
/// the squares of its terms.  A row is sampled when it is first asked for.
class Samples {
 public:
  Samples(const Product& p, const Output& y) : rows_{p, Side::a}, y_(y), decoded_({p, Side::b}) {}

  /// Adds those of group g.
  void add(Index g, Index most) {
    const std::vector<Index> columns = evenly_spread(rows_.other().failing(y_, g), kColumns);
    const Index each = most / std::max<Index>(1, std::ssize(columns)) + 1;
    for (const Index i : evenly_spread(rows_.failing(y_, g), each))
      list_.push_back({{g, i}, columns, std::nullopt});
  }

  std::size_t size() const { return list_.size(); }
  const SampledLine& operator[](std::size_t n) {
    auto& [at, with, line] = list_[n];
    if (line) return *line;
    std::erase_if(with, [&, at = at](Index j) {
      return rows_.mark(y_, at.group, at.line, j) == Mark::explained;
    });
    line = sampled(rows_, y_, at, with, decoded_);
    std::vector<double> squares(line->outputs.size());
    add_up(squares, std::ssize(line->values), [&line = *line](Index i, Index d) {
      return std::pow(nth(line.values, d) * nth(*nth(line.outputs, i).other, d), 2.0);
    });
    for (std::size_t i = 0; i < squares.size(); ++i)
      line->outputs[i].weight = squares[i] > 0.0 ? 1.0 / squares[i] : 0.0;
    return *line;
  }
  bool are_few() {
    std::size_t outputs = 0;
    for (std::size_t n = 0; n < size() && outputs < kLeastSamples; ++n)
      outputs += (*this)[n].outputs.size();
    return outputs < kLeastSamples;
  }

 private:
  struct Row {
    LineAt at;
    std::vector<Index> with;
    std::optional<SampledLine> line;
  };
  ProductSides rows_;
  const Output& y_;
  DecodedLines decoded_;
  std::vector<Row> list_;
};

/// How often a term, or a run of them, is in the sums, by the samples.
struct Estimate {
  double multiple = 1.0;
  double error = 1e300;
};

/// Of each run of terms, from one row in `step`.
std::vector<Estimate> estimated(Samples& rows, Index run, const std::vector<int>& believed,
                                std::size_t step) {
  const std::size_t n = believed.size();
  std::vector<double> moved(n);
  std::vector<double> squares(n);
  double noise = 0.0;
  double samples = 0.0;
  for (std::size_t i = 0; i < rows.size(); i += step) {
    const SampledLine& row = rows[i];
    for (std::size_t first = 0; first < row.outputs.size(); first += kChains) {
      const auto outputs = std::span(row.outputs).subspan(first);
      std::vector<std::vector<double>> terms;
      std::vector<double> rests;
      for (const SampledLine::With& s :
           outputs.first(std::min<std::size_t>(kChains, outputs.size()))) {
        terms.push_back(run_sums(row.values, *s.other, run));
        rests.push_back(s.got);
      }
      add_up(rests, std::ssize(believed),
             [&](Index o, Index d) { return -(nth(believed, d) * nth(nth(terms, o), d)); });
      for (std::size_t o = 0; o < rests.size(); ++o) {
        const double weight = outputs[o].weight;
        noise += weight * rests[o] * rests[o];
        samples += 1.0;
        for (std::size_t d = 0; d < n; ++d) {
          moved[d] += weight * rests[o] * terms[o][d];
          squares[d] += weight * terms[o][d] * terms[o][d];
        }
      }
    }
  }
  noise /= samples;
  std::vector<Estimate> found(n);
  for (std::size_t d = 0; d < n; ++d)
    if (squares[d] > 0.0)
      found[d] = {believed[d] + moved[d] / squares[d], std::sqrt(noise / squares[d])};
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

/// The multiple of each run of terms that is in the sums, -1 to 2; empty where the samples do not
/// tell, or every one is there once.  What is believed is taken off: the rest shows smaller terms.
/// Whether it is so the product itself has to tell, run once more.
std::vector<int> multiples_of(Samples& samples, Index depth, Index run) {
  const auto n = static_cast<std::size_t>(ceil_div(depth, run));
  std::vector<int> believed(n, 1);
  if (samples.are_few()) return {};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> clear = believed;
    std::vector<int> nearest = believed;
    std::size_t known = 0;
    // Of long sums a few rows have to show something before all are looked at.
    const bool few = round == 0 && depth > kLong;
    const std::vector<Estimate> seen = estimated(samples, run, believed, few ? 8 : 1);
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
    for (std::size_t d = 0; d < n; ++d)
      if (seen[d].error > kMaxStdError) believed[d] = kUnknown;
    fill_unknown(believed);
    return believed;
  }
  return {};
}

/// Adds the terms of some groups, whose first one lies at depth `first`, that do not count once:
/// single ones, or those of whole blocks.
void add_odd_terms(const Product& p, const Output& y, const std::vector<Index>& groups, Index first,
                   Odd& terms, Odd& blocks) {
  const Index depth = p.depth(groups.front());
  if (depth == 0) return;
  const Index samples_of_all = std::max(kSamples, kTerms / std::max<Index>(depth, 512));
  const Index each = ceil_div(samples_of_all, static_cast<Index>(groups.size()));
  Samples samples(p, y);
  for (const Index g : groups) samples.add(g, each);
  for (const Index run : {Index{1}, p.block}) {
    Odd& odd = run == 1 ? terms : blocks;
    const std::vector<int> multiple = multiples_of(samples, depth, run);
    // A gradient in which nothing is added up is zero, whatever its rows.
    if (std::ranges::count(multiple, 0) == std::ssize(multiple)) continue;
    for (Index d = 0; d < depth; ++d) {
      const int times = nth(multiple, d / run);
      if (times != 1)
        (times == 0 ? odd.missing : times == 2 ? odd.twice : odd.negative).push_back(first + d);
    }
  }
}

}  // namespace

void add_measured_terms(const Product& p, const Output& y, List& list) {
  Odd terms;
  Odd blocks;
  const std::vector<Index> groups = range_of(p.groups());
  if (p.wgrad) {  // the depth of each group is its own
    for (const Index g : groups) add_odd_terms(p, y, {g}, p.begin(g), terms, blocks);
  } else {
    add_odd_terms(p, y, groups, 0, terms, blocks);
  }
  propose(p, blocks, true, list);
  if (terms != blocks) propose(p, terms, false, list);
}

}  // namespace mxo
