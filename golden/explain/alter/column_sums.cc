// Column sums that miss rows, are added up in another order or type, or are not reset.
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"

namespace mxo {
namespace {

constexpr Index kColumns = 16;  ///< that are tried first

using Values = std::vector<float>;

float chain(const Values& v, std::size_t first, std::size_t end, std::size_t step = 1) {
  float sum = 0.0f;
  for (std::size_t i = first; i < std::min(end, v.size()); i += step) sum += v[i];
  return sum;
}
float chain(const Values& v) { return chain(v, 0, v.size()); }

/// Runs of `every` rows, each a sum of its own, which `rounded` rounds.
float of_parts(const Values& v, std::size_t every, float (*rounded)(float)) {
  float total = 0.0f;
  for (std::size_t at = 0; at < v.size(); at += every) total += rounded(chain(v, at, at + every));
  return total;
}

/// How the values of a column are added up; n: a number that the phrase has.
struct ColumnOrder {
  const char* id;
  const char* phrase;
  float (*fold)(const Values& v, std::size_t n);
  bool numbered = false;
};
constexpr ColumnOrder kOrders[] = {
    {"bf16", "rows are added up in bf16",
     [](const Values& v, std::size_t) {
       return std::accumulate(v.begin(), v.end(), 0.0f,
                              [](float sum, float x) { return by_bf16(sum + x); });
     }},
    {"f64", "rows are added up in f64",
     [](const Values& v, std::size_t) {
       return static_cast<float>(std::accumulate(v.begin(), v.end(), 0.0));
     }},
    {"reversed", "rows are added up from the last to the first",
     [](const Values& v, std::size_t) { return std::accumulate(v.rbegin(), v.rend(), 0.0f); }},
    {"pairs", "rows are added up in pairs, and pairs of pairs",
     [](const Values& v, std::size_t) {
       Values sums = v;
       while (sums.size() > 1) {
         for (std::size_t i = 0; i < sums.size(); i += 2)
           sums[i / 2] = i + 1 < sums.size() ? sums[i] + sums[i + 1] : sums[i];
         sums.resize((sums.size() + 1) / 2);
       }
       return sums.empty() ? 0.0f : sums.front();
     }},
    {"parts", "every {} rows are added up first",
     [](const Values& v, std::size_t n) { return of_parts(v, n, [](float sum) { return sum; }); },
     true},
    {"bf16_parts", "every {} rows are added up first, and rounded to bf16",
     [](const Values& v, std::size_t n) { return of_parts(v, n, by_bf16); }, true},
    {"lanes", "rows are added up in {} sums by turns",
     [](const Values& v, std::size_t n) {
       float total = 0.0f;
       for (std::size_t lane = 0; lane < std::min(n, v.size()); ++lane)
         total += chain(v, lane, v.size(), n);
       return total;
     },
     true},
};

/// Rows of one sum: [first, end).
struct Run {
  Index first;
  Index end;
};

/// The sums of a call, as rows of an output: x, and the rows of x that each is of.
struct ColumnSums {
  const Tensor& x;
  std::vector<Run> runs;
  bool of_groups;
  Index columns() const { return x.extent(1); }
};

std::optional<ColumnSums> sums_of(const Call& call, const Output& o) {
  if (call.op != "column_sum") return std::nullopt;
  const Tensor& x = call.input("x");
  const Index sums = o.expected->elements() / x.extent(1);
  const Run all{0, x.extent(0)};
  ColumnSums found{x, std::vector<Run>(static_cast<std::size_t>(sums), all), false};
  if (!call.has("group_ends")) return found;
  const Tensor& ends = call.input("group_ends");
  found.of_groups = ends.elements() == sums;
  Index begin = 0;
  for (Index s = 0; s < sums; ++s) {
    const Index end = ends.as<std::int32_t>()[found.of_groups ? s : ends.elements() - 1];
    nth(found.runs, s) = {begin, std::min(end, all.end)};
    if (found.of_groups) begin = end;
  }
  return found;
}

template <typename Fold>
float folded(const Tensor& x, const Run& run, Index column, const Fold& fold) {
  Values rows;
  for (Index r = run.first; r < run.end; ++r)
    rows.push_back(wide_value(x, r * x.extent(1) + column));
  return fold(rows);
}

/// Sums are fold(values) of other rows or in another order.
template <typename Fold>
void add_sum(List& list, const std::string& id, std::string phrase, std::vector<Run> runs,
             Fold fold) {
  add_rewritten(list, "sum=" + id, std::move(phrase), [=](const Call& c, NamedTensors& out) {
    Tensor& sum = output_of(out, "sum");
    const Tensor& x = c.input("x");
    sum = with_values(std::move(sum), [&](Index i) {
      return folded(x, nth(runs, i / x.extent(1)), i % x.extent(1), fold);
    });
  }).stage = Stage::sum;
}

/// A sum that begins with that of the group before, in the groups that differ; in all of them it is
/// a running total, which the output shows by itself.
void add_sums_not_reset(const Output& o, Index columns, std::vector<Run> runs, List& list) {
  std::set<Index> groups;
  for (Index i = 0; i < o.expected->elements(); ++i)
    if (o.differs(i)) groups.insert(i / columns);
  if (groups.empty() || groups.contains(0) || groups.size() == runs.size() - 1) return;
  std::string words;
  for (const Index g : groups) {
    const auto at = static_cast<std::size_t>(g);
    runs[at].first = runs[at - 1].first;
    words += (words.empty() ? "" : ", ") + std::to_string(g);
  }
  add_sum(list, "not_reset",
          filled("the sum is not set to zero before group {}: it begins with that "
                 "of the group before",
                 words),
          std::move(runs), [](const Values& v) { return chain(v); });
}

/// The row of a run of x nearest to what row `s` of a sum came short of; -1: none is near.
Index missing_row(const Tensor& x, const Output& sum, Index s, const Run& run) {
  const Index columns = x.extent(1);
  std::vector<double> lost;
  double all = 0.0;
  for (Index c = 0; c < columns; ++c) {
    const Index i = s * columns + c;
    lost.push_back(static_cast<double>(wide_value(*sum.expected, i)) - wide_value(*sum.actual, i));
    all += std::fabs(lost.back());
  }
  std::vector<double> away(static_cast<std::size_t>(run.end - run.first));
  for (Index i = 0; i < std::ssize(away) * columns; ++i)
    nth(away, i / columns) +=
        std::fabs(nth(lost, i % columns) - wide_value(x, run.first * columns + i));
  const auto least = std::ranges::min_element(away);
  // Of rows that are alike nobody can tell which one it was.
  return least != away.end() && *least < all / 4 && std::ranges::count(away, *least) == 1
             ? run.first + (least - away.begin())
             : -1;
}

}  // namespace

void add_missing_rows(const Call& call, const Output& o, List& list) {
  const std::optional<ColumnSums> sums = sums_of(call, o);
  if (!sums) return;
  std::vector<Index> lost;
  std::string words;
  for (std::size_t s = 0; s < sums->runs.size(); ++s) {
    const auto sum = static_cast<Index>(s);
    if (!o.differs_in(sum * sums->columns(), sums->columns())) continue;
    const Index r = missing_row(sums->x, o, sum, sums->runs[s]);
    if (r < 0) continue;
    words += (lost.empty() ? "" : ", ") + std::to_string(r);
    lost.push_back(r);
  }
  if (lost.empty()) return;
  add_altered(
      list, "rows.missing",
      filled(lost.size() == 1 ? "row {} is left out of the sum" : "rows {} are left out of the sum",
             words),
      [lost](Call& c) {
        map_values(c, "x", [&, columns = c.input("x").extent(1)](float v, Index i) {
          return std::find(lost.begin(), lost.end(), i / columns) != lost.end() ? 0.0f : v;
        });
      });
}

void add_column_sums(const Call& call, const Output& o, List& list) {
  const std::optional<ColumnSums> sums = sums_of(call, o);
  if (!sums) return;
  const Tensor& x = sums->x;
  const std::vector<Run>& runs = sums->runs;
  const Index columns = sums->columns();
  if (sums->of_groups) add_sums_not_reset(o, columns, runs, list);
  std::vector<Index> first;  // of those that differ
  for (Index i = 0; i < o.expected->elements() && std::ssize(first) < kColumns; ++i)
    if (o.differs(i)) first.push_back(i);
  if (first.empty()) return;
  const auto add = [&](const ColumnOrder& order, std::size_t n) {
    const auto fold = [n, fold = order.fold](const Values& v) { return fold(v, n); };
    Tensor one(o.expected->dtype(), {1});
    for (const Index i : first) {
      store_wide(one, 0, folded(x, nth(runs, i / columns), i % columns, fold));
      if (bits_at(one, 0) != o.actual_bits(i)) return;
    }
    add_sum(list, order.id, filled(order.phrase, n), runs, fold);
  };
  for (const std::size_t n : {0u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u, 512u})
    for (const ColumnOrder& order : kOrders)
      if (order.numbered == (n > 0)) add(order, n);
}

}  // namespace mxo
