// Groups that take the bias of another group's expert, as the mean of what they are off by tells.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "golden/explain/alter/alterations.h"
#include "golden/judge/group_rows.h"

namespace mxo {
namespace {

constexpr std::size_t kTold = 4;  ///< groups that are told one by one

/// By how much the columns of rows [first, end) are off on average; of what is no number nothing.
std::vector<double> mean_of(const Output& y, Index first, Index end) {
  std::vector<double> sum(static_cast<std::size_t>(y.columns));
  for (Index i = first * y.columns; i < end * y.columns; ++i) {
    const double off = static_cast<double>(wide_value(*y.actual, i)) - wide_value(*y.expected, i);
    if (std::isfinite(off)) sum[static_cast<std::size_t>(i % y.columns)] += off;
  }
  for (double& s : sum) s /= static_cast<double>(end - first);
  return sum;
}

/// The expert whose bias is nearest to the actual output; `g` itself where none is much nearer.
Index source_of(const Tensor& bias, Index g, const std::vector<double>& off) {
  const auto n = static_cast<Index>(off.size());
  const auto away = [&](Index e) {
    double sum = 0.0;
    for (Index c = 0; c < n; ++c) {
      const double more =
          static_cast<double>(wide_value(bias, e * n + c)) - wide_value(bias, g * n + c);
      const double rest = off[static_cast<std::size_t>(c)] - more;
      sum += rest * rest;
    }
    return sum;
  };
  Index best = g;
  double least = away(g) / 16.0;
  for (Index e = 0; e < bias.extent(0); ++e) {
    const double here = e == g ? std::numeric_limits<double>::infinity() : away(e);
    if (here >= least) continue;
    least = here;
    best = e;
  }
  return best;
}

}  // namespace

void add_measured_biases(const Call& call, const Output& o, List& list) {
  const bool sum = call.op == "add_bias" && o.name == "out";
  if (!sum && !(call.op == "grouped_linear" && o.name == "y")) return;
  if (o.left == 0 || !call.has("bias") || !call.has("group_ends")) return;
  const Tensor& bias = call.input("bias");
  if (bias.rank() != 2 || bias.extent(1) != o.columns || !is_wide_float(o.expected->dtype()) ||
      bias.extent(0) != call.input("group_ends").elements())
    return;
  std::vector<Index> sources = range_of(bias.extent(0));
  std::string words;
  std::size_t changed = 0;
  std::size_t others = 0;    // groups that keep their own
  bool one_distance = true;  // which has a row of its own
  bool all_first = true;
  Index distance = -1;
  Index begin = 0;
  const std::vector<Index> ends = group_ends_of(call.input("group_ends"));
  for (std::size_t g = 0; g < ends.size(); ++g) {
    const Index first = std::exchange(begin, std::min(ends[g], o.compared_rows));
    if (begin <= first) continue;
    const auto own = static_cast<Index>(g);
    const Index from = source_of(bias, own, mean_of(o, first, begin));
    all_first = all_first && from == 0;
    if (from == own) {
      ++others;
      continue;
    }
    sources[g] = from;
    const Index by = (from - own + bias.extent(0)) % bias.extent(0);
    one_distance = one_distance && (distance < 0 || distance == by);
    distance = by;
    if (changed++ >= kTold) continue;
    words += (words.empty() ? "" : ", ") + std::string("group ") + std::to_string(g) +
             " takes the bias of expert " + std::to_string(from);
  }
  if (changed == 0 || all_first) return;
  const bool listed = distance == 1 || distance == bias.extent(0) - 1;
  if (one_distance && listed && others == 0) return;
  if (changed > kTold) words += " and " + std::to_string(changed - kTold) + " more another's";
  add_altered(
      list, "bias=other_experts", words,
      [sources](Call& c) {
        c.replace("bias", with_rows(c.input("bias"), [&](Index e, Index) {
                    return sources[static_cast<std::size_t>(e)];
                  }));
        return true;
      },
      Stage::rule);
}

}  // namespace mxo
