// Biases that are left out, used another number of times, another's, or added at another place.
#include <bit>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/words/permutation.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

/// A bias [N] or [E, N]; experts and columns wrap around.
struct Bias {
  const Tensor& values;
  Index columns = values.shape().back();
  Index experts = values.elements() / columns;

  float at(Index e, Index c) const {
    const Index expert = (e + experts) % experts;
    return wide_value(values, expert * columns + (c + columns) % columns);
  }
};

/// Whose bias a row speaks of: of products, of those with one [E, N], or of a router.
enum class BiasOf : std::uint8_t { any, product, experts, router };

/// What is added in place of the bias of column c of expert e.
struct OtherBias {
  const char* id;
  const char* phrase;
  float (*of)(const Bias& bias, Index e, Index c);
  BiasOf whose = BiasOf::product;
};

template <int kE, int kC = 0>
constexpr auto kAway = [](const Bias& b, Index e, Index c) { return b.at(e + kE, c + kC); };
template <int kTimes>
constexpr auto kMany = [](const Bias& b, Index e, Index c) { return kTimes * b.at(e, c); };

constexpr OtherBias kBiases[] = {
    // Adding -0 changes nothing; adding 0 would make 0 of -0.
    {"left_out", "the bias is left out", [](const Bias&, Index, Index) { return -0.0f; },
     BiasOf::any},
    {"twice", "the bias is added twice", kMany<2>, BiasOf::any},
    {"columns", "the bias of the column before is added", kAway<0, -1>},
    {"columns", "the bias of the column after is added", kAway<0, 1>},
    {"first", "the bias of expert 0 is added to every group",
     [](const Bias& b, Index, Index c) { return b.at(0, c); }, BiasOf::experts},
    {"other_expert", "the bias of the expert before is added", kAway<-1>, BiasOf::experts},
    {"other_expert", "the bias of the expert after is added", kAway<1>, BiasOf::experts},
    // Of a row-parallel layer each rank adds its own.
    {"times", "the bias is added 4 times", kMany<4>},
    {"times", "the bias is added 8 times", kMany<8>},
    {"whole", "the bias is converted to an integer, toward zero",
     [](const Bias& b, Index e, Index c) { return std::trunc(b.at(e, c)); }, BiasOf::any},
    {"whole", "the bias is rounded down to an integer",
     [](const Bias& b, Index e, Index c) { return std::floor(b.at(e, c)); }, BiasOf::any},
    {"whole", "the bias is rounded to the nearest integer",
     [](const Bias& b, Index e, Index c) { return std::nearbyint(b.at(e, c)); }, BiasOf::any},
    {"times", "the bias is subtracted rather than added", kMany<-1>},
    {"negative", "the bias is subtracted rather than added", kMany<-1>, BiasOf::router},
    {"other_expert", "experts take the bias of the expert before", kAway<0, -1>, BiasOf::router},
    {"other_expert", "experts take the bias of the expert after", kAway<0, 1>, BiasOf::router},
    {"as_bf16",
     "the bytes of the bias are read as bf16: experts 2 i and 2 i + 1 take halves of bias i",
     [](const Bias& b, Index, Index e) {
       const auto bits = std::bit_cast<std::uint32_t>(b.at(0, e / 2));
       return std::bit_cast<float>(e % 2 == 0 ? bits << 16 : bits & 0xFFFF0000u);
     },
     BiasOf::router},
};

/// Rows of sums with more(bias, expert, row, column) added, rounded once; expert 0 without groups.
template <typename More>
Tensor biased(const Call& call, const Tensor& sums, Dtype type, More more) {
  const Bias bias{call.input("bias")};
  std::vector<Index> ends;
  if (bias.values.rank() == 2) ends = group_ends_of(call.input("group_ends"));
  const Index columns = sums.extent(1);
  std::size_t e = 0;
  return with_values(Tensor(type, sums.shape()), [&](Index i) {
    while (e + 1 < ends.size() && i / columns >= ends[e]) ++e;
    return wide_value(sums, i) + more(bias, static_cast<Index>(e), i / columns, i % columns);
  });
}

float of_row(const Bias& bias, Index e, Index r, Index) { return bias.at(e, r % bias.columns); }
float of_column(const Bias& bias, Index e, Index, Index c) { return bias.at(e, c); }

/// y of an expert layer in f32, without its bias.
NamedTensors without_bias(Backend& backend, Call call) {
  call.inputs.erase("bias");
  call.inputs.erase("dy");
  call.set.set("out", "f32");
  if (parameter_of(call, "only") != nullptr) call.set.set("only", "y");
  return run_call(backend, call);
}

/// y of an expert layer whose bias joins the sum before that is rounded to bf16.
NamedTensors add_before_rounding(Backend& backend, const Call& call,
                                 float (*of)(const Bias&, Index e, Index r, Index c)) {
  NamedTensors out = without_bias(backend, call);
  Tensor& y = out.at("y");
  y = biased(call, y, Dtype::bf16, of);
  return out;
}

/// y of a layer with one scale a row on each side, whose bias joined the sum of codes: it is
/// multiplied by the scales, too.
NamedTensors add_before_scales(Backend& backend, const Call& call) {
  NamedTensors out = without_bias(backend, call);
  Tensor& y = out.at("y");
  const Tensor& x = call.input("x.scales");
  const Tensor& w = call.input("w.scales");
  const Index columns = y.extent(1);
  if (x.dtype() != Dtype::f32 || x.elements() != y.extent(0) || w.dtype() != Dtype::f32 ||
      w.elements() != call.input("w.codes").extent(0) * columns)
    return {};
  y = biased(call, y, Dtype::bf16, [&](const Bias& bias, Index e, Index r, Index c) {
    return bias.at(e, c) * (x.as<float>()[r] * w.as<float>()[e * columns + c]);
  });
  return out;
}

bool add_by_row(const Call& call, NamedTensors& out) {
  if (call.input("y").rank() != 2 || call.input("bias").rank() != 1) return false;
  Tensor& sum = output_of(out, "out");
  sum = biased(call, call.input("y"), sum.dtype(), of_row);
  return true;
}

constexpr std::size_t kTold = 4;      ///< groups that are told one by one
constexpr Index kMostShift = 64;      ///< columns
constexpr Index kMostColumns = 4096;  ///< each of which is looked for among all of them

/// By how much the columns of rows [first, end) are off on average; of what is no number nothing.
std::vector<double> mean_of(const Output& y, Index first, Index end) {
  std::vector<double> sum(static_cast<std::size_t>(y.columns));
  for (Index i = first * y.columns; i < end * y.columns; ++i) {
    const double off = static_cast<double>(wide_value(*y.actual, i)) - wide_value(*y.expected, i);
    if (std::isfinite(off)) nth(sum, i % y.columns) += off;
  }
  for (double& s : sum) s /= static_cast<double>(end - first);
  return sum;
}

/// The expert whose bias is nearest to the actual output; `g` itself where none is much nearer.
Index source_of(const Tensor& bias, Index g, const std::vector<double>& off) {
  const auto n = static_cast<Index>(off.size());
  std::vector<double> away(static_cast<std::size_t>(bias.extent(0)));
  for (Index i = 0; i < bias.elements(); ++i) {
    const double more = static_cast<double>(wide_value(bias, i)) - wide_value(bias, g * n + i % n);
    const double rest = nth(off, i % n) - more;
    nth(away, i / n) += rest * rest;
  }
  const auto best = std::ranges::min_element(away);
  return *best < nth(away, g) / 16.0 ? best - away.begin() : g;
}

/// What came of a group's bias, in place of its own: by how much each of its columns is off.
struct MeasuredBias {
  Index expert;
  std::vector<double> off;
};

/// Groups that take the bias of another group's expert.
void add_other_experts(const Tensor& bias, const std::vector<MeasuredBias>& measured, List& list) {
  const Index experts = bias.extent(0);
  std::vector<Index> sources = range_of(experts);
  std::string words;
  std::size_t changed = 0;
  std::set<Index> distances;  // of each group's expert from its own
  std::set<Index> taken;
  for (const auto& [own, off] : measured) {
    Index& source = nth(sources, own);
    source = source_of(bias, own, off);
    taken.insert(source);
    distances.insert((source - own + experts) % experts);
    if (source != own && changed++ < kTold)
      list_words(words, filled("group {} takes the bias of expert {}", own, source));
  }
  const bool all_first = taken == std::set<Index>{0};
  const bool listed =
      distances.size() == 1 && (distances.contains(1) || distances.contains(experts - 1));
  if (changed == 0 || all_first || listed) return;
  if (changed > kTold) words += filled(" and {} more another's", changed - kTold);
  add_altered(list, "bias=other_experts", words, [sources](Call& c) {
    c.replace("bias", gathered(c.input("bias"), 0, sources));
  }).stage = Stage::rule;
}

/// Columns that take the bias of others: at another address, or in an order that comes again every
/// few.
void add_other_columns(const Tensor& bias, const std::vector<MeasuredBias>& measured, List& list) {
  const Index n = bias.shape().back();
  const Index all = bias.elements();
  const auto value = [&](Index at) {
    return static_cast<double>(wide_value(bias, modulo(at, all)));
  };
  const std::size_t before = list.size();
  // Squares of what is off in column c where it took the bias at from(expert, c).
  const auto rest = [&](Index c, const auto& from) {
    double sum = 0.0;
    for (const auto& [expert, off] : measured) {
      const double left = nth(off, c) - (value(from(expert, c)) - value(expert * n + c));
      sum += left * left;
    }
    return sum;
  };
  const auto rest_of_all = [&](const auto& from) {
    double sum = 0.0;
    for (Index c = 0; c < n; ++c) sum += rest(c, from);
    return sum;
  };
  const double own = rest_of_all([n](Index e, Index c) { return e * n + c; });
  const auto add = [&](const std::string& phrase, const std::function<Index(Index, Index)>& from) {
    if (!(rest_of_all(from) * 16.0 < own)) return;
    add_altered(list, "bias=columns", phrase, [from, n, all](Call& c) {
      const Tensor given = c.input("bias");
      map_values(c, "bias", [&](float, Index i) {
        return wide_value(given, modulo(from(i / n, i % n), all));
      });
    }).stage = Stage::rule;
  };
  for (Index by = 2; by < n; by *= 2)
    for (const auto& [words, of] : kLineFunctions)
      add(filled("the bias of column {} is added to column i", filled(words, by)),
          [of = of, n, by](Index e, Index c) { return e * n + of(c, by); });
  for (const Index by : both_ways(std::min(kMostShift, n - 1))) {
    if (std::abs(by) == 1) continue;  // listed, of each expert's own
    add("the bias is read " + away(by, "element") + " its place",
        [n, by](Index e, Index c) { return e * n + c + by; });
  }
  // Which place of every `period` columns a place takes the bias of: the one that is much nearer
  // than the others are.
  std::map<std::pair<Index, Index>, Index> nearest;
  const auto fits = [&](Index period, Index i, Index j) {
    const auto [at, fresh] = nearest.try_emplace({period, i}, -1);
    double least = HUGE_VAL;
    double all_places = 0.0;
    for (Index place = 0; fresh && period <= n && place < period; ++place) {
      double sum = 0.0;
      for (Index c = i; c < n; c += period)
        sum += rest(c, [=](Index e, Index column) { return e * n + column - i + place; });
      if (sum < least) at->second = place;
      least = std::min(least, sum);
      all_places += sum;
    }
    if (fresh && !(least * 16.0 * static_cast<double>(period) <= all_places)) at->second = -1;
    return at->second == j;
  };
  if (list.size() > before) return;
  for (const Permutation& order : permutations_of(fits))
    add("the columns of the bias are taken " + order.words(),
        [order, n](Index e, Index c) { return e * n + order.from(c); });
  if (list.size() > before || n > kMostColumns) return;
  // Each column by itself takes that of the one that comes nearest.
  std::vector<Index> sources;
  for (Index c = 0; c < n; ++c) {
    const auto off = [&](Index from) {
      return std::pair(rest(c, [=](Index e, Index) { return e * n + from; }), std::abs(from - c));
    };
    sources.push_back(std::ranges::min(range_of(n), {}, off));
  }
  std::string words;
  std::size_t told = 0;
  for (Index c = 0; c < n;) {
    const Index first = c;
    const Index by = nth(sources, c) - c;
    while (c < n && nth(sources, c) - c == by) ++c;
    if (by != 0 && told++ < kTold)
      list_words(
          words,
          filled("{} that of {}", ranges_in_words("column", evenly_spread(first, c, c - first)),
                 ranges_in_words("column", evenly_spread(first + by, c + by, c - first))));
  }
  if (told > kTold) words += filled(" and so for {} more", told - kTold);
  add("columns take the bias of others: " + words,
      [sources, n](Index e, Index c) { return e * n + nth(sources, c); });
}

}  // namespace

void add_bias_hypotheses(const Call& call, List& list) {
  const bool routes = call.op == "route";
  const bool product = is_biased_product(call);
  const bool layer = call.op == "grouped_linear";
  if (!call.has("bias") || (!product && !layer && call.op != "add_bias" && !routes)) return;
  for (const OtherBias& row : kBiases) {
    if (row.whose != BiasOf::any && (row.whose == BiasOf::router) != routes) continue;
    if (row.whose == BiasOf::experts && call.input("bias").rank() != 2) continue;
    add_altered(list, std::string("bias=") + row.id, row.phrase, [of = row.of](Call& c) {
      const Bias bias{c.input("bias")};
      map_values(c, "bias",
                 [&, n = bias.columns](float, Index i) { return of(bias, i / n, i % n); });
    }).stage = Stage::rule;
  }
  for (const auto& [words, again] :
       {std::pair{"the bias is added to the logits rather than to the scores", false},
        {"the bias is added to the logits, and to their scores again", true}}) {
    if (!routes) break;
    add_altered(list, "bias=in_logits", words, [again = again](Call& c) {
      const Bias bias{c.input("bias")};
      map_values(c, "logits", [&](float v, Index i) { return v + bias.at(0, i % bias.columns); });
      if (!again) c.inputs.erase("bias");
    });
  }
  if (call.op == "add_bias")
    add_rewritten(list, "bias=by_row", "the bias is added by row rather than by column",
                  add_by_row);
  if ((!product && !layer) || call.set.text("out", "bf16") != "bf16" || call.has("dy")) return;
  if (layer) {
    add_run(list, "bias=by_row",
            "the bias is added by row rather than by column, before the sum is rounded",
            [](Backend& b, const Call& c) { return add_before_rounding(b, c, of_row); })
        .stage = Stage::output;
    return;
  }
  add_rewritten(list, "bias=twice", "the bias is added twice, and each sum is rounded",
                [](const Call& c, NamedTensors& out) { add_bias(c, out.at("y")); })
      .stage = Stage::rule;
  add_run(list, "bias=before_rounding", "the bias joins the sum before it is rounded to bf16",
          [](Backend& b, const Call& c) { return add_before_rounding(b, c, of_column); })
      .stage = Stage::output;
  if (call.has("x.scales"))
    add_run(list, "bias=before_scales",
            "the bias is added to the sum of codes, and multiplied by the scales with it",
            add_before_scales);
}

void add_measured_biases(const Call& call, const Output& o, List& list) {
  if (call.op != "add_bias" && !is_biased_product(call)) return;
  const Tensor& bias = call.input("bias");
  const bool of_experts = bias.rank() == 2;
  const std::vector<Index> ends =
      of_experts ? group_ends_of(call.input("group_ends")) : std::vector<Index>{o.compared_rows};
  std::vector<MeasuredBias> measured;
  Index begin = 0;
  for (std::size_t g = 0; g < ends.size(); ++g) {
    const Index first = std::exchange(begin, std::min(ends[g], o.compared_rows));
    if (begin > first) measured.push_back({static_cast<Index>(g), mean_of(o, first, begin)});
  }
  if (of_experts) add_other_experts(bias, measured, list);
  add_other_columns(bias, measured, list);
}

}  // namespace mxo
