// Biases that are left out, used another number of times, another's, or added at another place.
#include <cmath>
#include <limits>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/steps/steps.h"
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

/// What is added in place of the bias of column c of expert e.
struct OtherBias {
  const char* id;
  const char* phrase;
  float (*of)(const Bias& bias, Index e, Index c);
  bool of_experts = false;  ///< says nothing of a bias [N]
};

constexpr OtherBias kBiases[] = {
    // Adding -0 changes nothing; adding 0 would make 0 of -0.
    {"left_out", "the bias is left out", [](const Bias&, Index, Index) { return -0.0f; }},
    {"twice", "the bias is added twice",
     [](const Bias& b, Index e, Index c) { return 2.0f * b.at(e, c); }},
    {"columns", "the bias of the column before is added",
     [](const Bias& b, Index e, Index c) { return b.at(e, c - 1); }},
    {"columns", "the bias of the column after is added",
     [](const Bias& b, Index e, Index c) { return b.at(e, c + 1); }},
    {"first", "the bias of expert 0 is added to every group",
     [](const Bias& b, Index, Index c) { return b.at(0, c); }, true},
    {"other_expert", "the bias of the expert before is added",
     [](const Bias& b, Index e, Index c) { return b.at(e - 1, c); }, true},
    {"other_expert", "the bias of the expert after is added",
     [](const Bias& b, Index e, Index c) { return b.at(e + 1, c); }, true},
    // Of a row-parallel layer each rank adds its own.
    {"times", "the bias is added 4 times",
     [](const Bias& b, Index e, Index c) { return 4.0f * b.at(e, c); }},
    {"times", "the bias is added 8 times",
     [](const Bias& b, Index e, Index c) { return 8.0f * b.at(e, c); }},
    {"times", "the bias is subtracted rather than added",
     [](const Bias& b, Index e, Index c) { return -b.at(e, c); }},
};

/// Calls fn(element, expert) for each of rows [R, columns] in groups; expert 0 without them.
template <typename Fn>
void each_element(const Call& call, const Tensor& rows, Fn fn) {
  const bool grouped = call.has("group_ends") && call.input("bias").rank() == 2;
  const Index columns = rows.extent(1);
  Index e = 0;
  for (Index r = 0; r < rows.extent(0); ++r) {
    while (grouped && e + 1 < call.input("group_ends").elements() &&
           r >= call.input("group_ends").as<std::int32_t>()[e]) {
      ++e;
    }
    for (Index c = 0; c < columns; ++c) fn(r * columns + c, e);
  }
}

/// y plus the bias of the column, or the one that the row's number picks, rounded once.
Tensor biased(const Call& call, const Tensor& y, Tensor out, bool by_row) {
  const Bias bias{call.input("bias")};
  const Index columns = y.extent(1);
  each_element(call, y, [&](Index i, Index e) {
    const Index c = by_row ? i / columns % bias.columns : i % columns;
    store_wide(out, i, wide_value(y, i) + bias.at(e, c));
  });
  return out;
}

/// y of an expert layer in f32, without its bias.
NamedTensors without_bias(Backend& backend, const Call& call) {
  Call plain = call;
  plain.inputs.erase("bias");
  plain.inputs.erase("dy");
  plain.set.set("out", "f32");
  plain.set.set("only", "y");
  return run_call(backend, plain);
}

/// y of an expert layer whose bias joins the sum before that is rounded to bf16.
NamedTensors add_before_rounding(Backend& backend, const Call& call, bool by_row) {
  NamedTensors out = without_bias(backend, call);
  const Tensor& sums = out.at("y");
  Tensor y = biased(call, sums, Tensor(Dtype::bf16, sums.shape()), by_row);
  out.insert_or_assign("y", std::move(y));
  return out;
}

/// y of a layer with one scale a row on each side, whose bias joined the sum of codes: it is
/// multiplied by the scales, too, or by those of x.
NamedTensors add_before_scales(Backend& backend, const Call& call, bool of_both) {
  NamedTensors out = without_bias(backend, call);
  const Tensor& sums = out.at("y");
  const LinearRecipe& recipe = linear_recipe_named(call.set.text("recipe", kLinearRecipes[0].name));
  const auto scales_of = [&](const char* name, LinearSide side) {
    Call quantize = cast_call(recipe, side, false);
    quantize.replace("x", call.input(name));
    return std::move(run_call(backend, quantize).at("scales"));
  };
  const Tensor x = scales_of("x", LinearSide::tokens);
  const Tensor w = scales_of("w", LinearSide::weight);
  const Index columns = sums.extent(1);
  if (x.dtype() != Dtype::f32 || x.elements() != sums.extent(0) || w.dtype() != Dtype::f32 ||
      w.elements() != call.input("w").extent(0) * columns)
    return {};
  const Bias bias{call.input("bias")};
  Tensor y(Dtype::bf16, sums.shape());
  each_element(call, sums, [&](Index i, Index e) {
    const float scale =
        x.as<float>()[i / columns] * (of_both ? w.as<float>()[e * columns + i % columns] : 1.0f);
    store_wide(y, i, sums.as<float>()[i] + bias.at(e, i % columns) * scale);
  });
  out.insert_or_assign("y", std::move(y));
  return out;
}

bool add_by_row(const Call& call, NamedTensors& out) {
  const auto sum = out.find("out");
  if (sum == out.end() || call.input("y").rank() != 2 || call.input("bias").rank() != 1)
    return false;
  sum->second = biased(call, call.input("y"), std::move(sum->second), true);
  return true;
}

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

void add_bias_hypotheses(const Call& call, List& list) {
  if (!call.has("bias") || (call.op != "grouped_linear" && call.op != "add_bias")) return;
  const Tensor& given = call.input("bias");
  if (given.rank() == 0 || given.elements() == 0) return;
  for (const OtherBias& row : kBiases) {
    if (row.of_experts && given.rank() != 2) continue;
    add_altered(
        list, std::string("bias=") + row.id, row.phrase,
        [of = row.of](Call& c) {
          const Bias bias{c.input("bias")};
          c.replace("bias", with_values(bias.values, [&](Index i) {
                      return of(bias, i / bias.columns, i % bias.columns);
                    }));
          return true;
        },
        Stage::rule);
  }
  if (call.op == "add_bias" && call.has("y")) {
    add_rewritten(list, "bias=by_row", "the bias is added by row rather than by column",
                  add_by_row);
  }
  if (call.op != "grouped_linear" || call.set.text("out", "bf16") != "bf16" || call.has("dy"))
    return;
  for (const bool of_both : {true, false}) {
    if (!call.has("x")) break;
    add_run(list, "bias=before_scales",
            of_both ? "the bias is added to the sum of codes, and multiplied by the scales with it"
                    : "the bias is added before the scales of x, and multiplied by them",
            [of_both](Backend& b, const Call& c) { return add_before_scales(b, c, of_both); });
  }
  for (const bool by_row : {false, true}) {
    add_run(
        list, by_row ? "bias=by_row" : "bias=before_rounding",
        by_row ? "the bias is added by row rather than by column, before the sum is rounded"
               : "the bias joins the sum before it is rounded to bf16",
        [by_row](Backend& b, const Call& c) { return add_before_rounding(b, c, by_row); },
        Stage::output);
  }
}

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
