// Column sums added up in another order or type, or not begun anew, from some columns of the sum.
#include <algorithm>
#include <numeric>

#include "golden/explain/hypotheses.h"
#include "golden/explain/wide_values.h"

namespace mxo {
namespace {

constexpr Index kColumns = 16;  ///< that are tried first

using Fold = std::function<float(const std::vector<float>& rows)>;

float in_bf16(float v) { return decode(encode<kBF16>(v)); }

float chain(const float* v, Index n, Index step) {
  float sum = 0.0f;
  for (Index i = 0; i < n; i += step) sum += v[i];
  return sum;
}

/// Runs of `every` rows, each a sum of its own, which `narrow` rounds to bf16.
float of_parts(const std::vector<float>& v, Index every, bool narrow) {
  const auto n = static_cast<Index>(v.size());
  float total = 0.0f;
  for (Index at = 0; at < n; at += every) {
    const float part = chain(v.data() + at, std::min(every, n - at), 1);
    total += narrow ? in_bf16(part) : part;
  }
  return total;
}

/// Row r goes to sum r modulo `lanes`.
float of_lanes(const std::vector<float>& v, Index lanes) {
  const auto n = static_cast<Index>(v.size());
  float total = 0.0f;
  for (Index lane = 0; lane < std::min(lanes, n); ++lane) {
    total += chain(v.data() + lane, n - lane, lanes);
  }
  return total;
}

float of_pairs(std::vector<float> v) {
  while (v.size() > 1) {
    for (std::size_t i = 0; i < v.size() / 2; ++i) v[i] = v[2 * i] + v[2 * i + 1];
    if (v.size() % 2 != 0) v[v.size() / 2] = v.back();
    v.resize((v.size() + 1) / 2);
  }
  return v.empty() ? 0.0f : v.front();
}

struct ColumnOrder {
  std::string id;
  std::string phrase;
  Fold fold;
};

std::vector<ColumnOrder> column_orders() {
  std::vector<ColumnOrder> list;
  list.push_back({"bf16", "rows are added up in bf16", [](const std::vector<float>& v) {
                    return std::accumulate(v.begin(), v.end(), 0.0f,
                                           [](float sum, float x) { return in_bf16(sum + x); });
                  }});
  list.push_back({"f64", "rows are added up in f64", [](const std::vector<float>& v) {
                    return static_cast<float>(std::accumulate(v.begin(), v.end(), 0.0));
                  }});
  list.push_back(
      {"reversed", "rows are added up from the last to the first",
       [](const std::vector<float>& v) { return std::accumulate(v.rbegin(), v.rend(), 0.0f); }});
  list.push_back({"pairs", "rows are added up in pairs, and pairs of pairs", of_pairs});
  for (const Index n : {2, 4, 8, 16, 32, 64, 128, 256, 512}) {
    const std::string rows = std::to_string(n) + " rows";
    list.push_back({"parts", "every " + rows + " are added up first",
                    [n](const std::vector<float>& v) { return of_parts(v, n, false); }});
    list.push_back({"bf16_parts", "every " + rows + " are added up first, and rounded to bf16",
                    [n](const std::vector<float>& v) { return of_parts(v, n, true); }});
    list.push_back({"lanes", "rows are added up in " + std::to_string(n) + " sums by turns",
                    [n](const std::vector<float>& v) { return of_lanes(v, n); }});
  }
  return list;
}

/// Rows of one sum: [first, end).
struct Run {
  Index first;
  Index end;
};

Run run_of(const Call& call, Index s, Index sums) {
  Run run{0, call.input("x").extent(0)};
  if (call.has("group_ends")) {
    const auto* ends = call.input("group_ends").as<std::int32_t>();
    const Index groups = call.input("group_ends").elements();
    run.first = sums == groups && s > 0 ? ends[s - 1] : 0;
    if (groups > 0) run.end = std::min<Index>(ends[sums == groups ? s : groups - 1], run.end);
  }
  return run;
}

float folded(const Call& call, const Run& run, Index column, const Fold& fold) {
  const Tensor& x = call.input("x");
  std::vector<float> rows;
  for (Index r = run.first; r < run.end; ++r)
    rows.push_back(wide_value(x, r * x.extent(1) + column));
  return fold(rows);
}

/// Row `s` of a sum, in one column.
float folded(const Call& call, Index s, Index sums, Index column, const Fold& fold) {
  return folded(call, run_of(call, s, sums), column, fold);
}

/// A sum that begins with that of the group before, in the groups that differ; in all of them it is
/// a running total, which the output shows by itself.
void add_sums_not_reset(const Call& call, const Output& o, std::vector<Hypothesis>& list) {
  const Index columns = call.input("x").extent(1);
  const Index sums = o.expected->elements() / columns;
  if (!call.has("group_ends") || sums != call.input("group_ends").elements()) return;
  std::vector<bool> differs(static_cast<std::size_t>(sums));
  for (Index i = 0; i < o.expected->elements(); ++i) {
    if (o.marks[static_cast<std::size_t>(i)] == Mark::differs)
      differs[static_cast<std::size_t>(i / columns)] = true;
  }
  std::string groups;
  std::vector<Run> runs;
  for (Index s = 0; s < sums; ++s) {
    runs.push_back(run_of(call, s, sums));
    if (!differs[static_cast<std::size_t>(s)]) continue;
    if (s == 0) return;  // no sum is before it
    runs.back().first = runs[static_cast<std::size_t>(s) - 1].first;
    groups += (groups.empty() ? "" : ", ") + std::to_string(s);
  }
  if (groups.empty() || std::count(differs.begin(), differs.end(), true) == sums - 1) return;
  list.push_back({"sum=not_reset",
                  "the sum is not set to zero before group " + groups +
                      ": it begins with that of the group before",
                  Stage::sum, [](Call&) { return true; },
                  [runs = std::move(runs), columns](const Call& c, NamedTensors& out) {
                    const auto sum = out.find("sum");
                    if (sum == out.end()) return false;
                    const auto chain_of = [](const std::vector<float>& v) {
                      return chain(v.data(), static_cast<Index>(v.size()), 1);
                    };
                    for (Index i = 0; i < sum->second.elements(); ++i) {
                      const Run& run = runs[static_cast<std::size_t>(i / columns)];
                      store_wide(sum->second, i, folded(c, run, i % columns, chain_of));
                    }
                    return true;
                  }});
}

/// Whether the first elements that differ are what `fold` gives.
bool fits_some(const Call& call, const Output& o, const Fold& fold) {
  const Index columns = call.input("x").extent(1);
  const Index sums = o.expected->elements() / columns;
  Tensor one(o.expected->dtype(), {1});
  Index tried = 0;
  for (Index i = 0; i < o.expected->elements() && tried < kColumns; ++i) {
    if (o.marks[static_cast<std::size_t>(i)] != Mark::differs) continue;
    ++tried;
    store_wide(one, 0, folded(call, i / columns, sums, i % columns, fold));
    if (bits_at(one, 0) != o.came(i)) return false;
  }
  return tried > 0;
}

}  // namespace

void add_column_sums(const Call& call, const Output& o, std::vector<Hypothesis>& list) {
  if (call.op != "column_sum" || !call.has("x") || call.input("x").rank() != 2) return;
  const Index columns = call.input("x").extent(1);
  if (columns == 0 || o.expected->elements() % columns != 0) return;
  add_sums_not_reset(call, o, list);
  for (ColumnOrder& order : column_orders()) {
    if (!fits_some(call, o, order.fold)) continue;
    list.push_back({"sum=" + order.id, std::move(order.phrase), Stage::sum,
                    [](Call&) { return true; },
                    [fold = std::move(order.fold), columns](const Call& c, NamedTensors& out) {
                      const auto sum = out.find("sum");
                      if (sum == out.end()) return false;
                      const Index sums = sum->second.elements() / columns;
                      for (Index i = 0; i < sum->second.elements(); ++i) {
                        store_wide(sum->second, i, folded(c, i / columns, sums, i % columns, fold));
                      }
                      return true;
                    }});
  }
}

}  // namespace mxo
