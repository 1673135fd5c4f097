// What every slot of a token weighed when rows came back: measured from sums over slots.
#include <algorithm>
#include <cmath>
#include <optional>

#include "golden/explain/find/product/measured.h"
#include "golden/explain/recover/slots.h"
#include "golden/explain/recover/weighed_slots.h"
#include "golden/explain/wide_values.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr double kFit = 0.0025;  ///< of an output that may be left: half a unit of bf16
constexpr Index kMostSlots = 16;
constexpr Index kMostTokens = 8;  ///< by which weights may be those of another token

std::string rank_of(const std::string& name) { return name.substr(0, name.find('.') + 1); }

/// Least squares of one row over the rows of its slots.
std::optional<Token> measured(const Output& o, Index row, const std::vector<NamedTensors>& slots,
                              const std::string& rank) {
  const std::size_t n = slots.size();
  const ElementReader read(o.expected->dtype());
  std::vector<double> came;
  double square = 0.0;
  for (Index c = 0; c < o.columns; ++c) {
    came.push_back(read(o.came(row * o.columns + c)).value);
    square += came.back() * came.back();
  }
  const double least = std::sqrt(square / static_cast<double>(came.size())) / 8.0;
  if (came.size() < 2 * n + 8) return std::nullopt;
  std::vector<std::vector<double>> features(came.size(), std::vector<double>(n));
  std::vector<double> matrix(n * n);
  std::vector<double> x(n);
  for (std::size_t c = 0; c < came.size(); ++c) {
    const double gain = 1.0 / std::max(std::abs(came[c]), least);
    came[c] *= gain;
    for (std::size_t s = 0; s < n; ++s) {
      const Tensor& rows = slots[s].at(rank + "out");
      const Index at = row * o.columns + static_cast<Index>(c);
      features[c][s] = static_cast<double>(wide_value(rows, at)) * gain;
      for (std::size_t u = 0; u <= s; ++u) matrix[s * n + u] += features[c][s] * features[c][u];
      x[s] += features[c][s] * came[c];
    }
  }
  for (std::size_t s = 0; s < n; ++s) {
    double& own = matrix[s * n + s];
    own = own > 0.0 ? own * (1.0 + 1e-12) : 1.0;
  }
  std::vector<double> inverse;
  if (!solve(matrix, x, inverse)) return std::nullopt;
  double left = 0.0;
  for (std::size_t c = 0; c < came.size(); ++c) {
    double v = came[c];
    for (std::size_t s = 0; s < n; ++s) v -= x[s] * features[c][s];
    left += v * v;
  }
  const double misfit = std::sqrt(left / static_cast<double>(came.size()));
  // That of rows of zeros, or with NaN or infinities, is no number.
  if (!(misfit <= kFit)) return std::nullopt;
  for (double& v : inverse) v = std::sqrt(v) * misfit;
  return Token{rank, row, {}, std::move(x), std::move(inverse)};
}

/// Slots that took the weights of other slots, the same in every token.
void add_slot_map(const Slots& slots, std::vector<Hypothesis>& list) {
  std::vector<std::size_t> source(slots.slots());
  for (std::size_t s = 0; s < source.size(); ++s) {
    double least = HUGE_VAL;
    for (std::size_t from = 0; from < source.size(); ++from) {
      const double off = slots.misfit(s, from);
      if (off > least || (off == least && from != s)) continue;
      least = off;
      source[s] = from;
    }
  }
  std::string text;
  for (std::size_t s = 0; s < source.size(); ++s) {
    const std::size_t from = source[s];
    if (from == s || (source[from] == s && from < s)) continue;
    text += (text.empty() ? "" : ", ") +
            (source[from] == s ? "the weights of slots " + std::to_string(s) + " and " +
                                     std::to_string(from) + " change places"
                               : "slot " + std::to_string(s) + " takes the weight of slot " +
                                     std::to_string(from));
  }
  if (text.empty()) return;
  slots.add_if(
      "slots", text, [source](const Token& t, std::size_t s) { return t.given[source[s]]; }, list);
}

}  // namespace

void add_measured_slots(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                        std::vector<Hypothesis>& list) {
  if (call.op != "combine" && call.op != "dispatch_backward") return;
  const Index n = slots_of(call);
  if (n < 1 || n > kMostSlots) return;
  std::vector<NamedTensors> rows;
  for (Index s = 0; s < n; ++s) rows.push_back(rows_of_slot(backend, call, s));
  std::vector<Token> tokens;
  Index all = 0;
  for (const Output& o : outputs) {
    const std::string rank = rank_of(o.name);
    if (o.expected->dtype() != Dtype::bf16 || !(o.name.ends_with("out") || o.name.ends_with("dx")))
      return;
    all += o.owed;
    for (Index r = 0; r < o.owed; ++r) {
      if (!o.differs_in(r * o.columns, o.columns)) continue;
      auto t = measured(o, r, rows, rank);
      if (!t) return;
      for (Index s = 0; s < n; ++s) t->given.push_back(given_weight(call, rank, r, s, n));
      tokens.push_back(std::move(*t));
    }
  }
  if (tokens.empty()) return;
  const Slots slots(call, std::move(tokens), all);
  slots.add_some(0.0, "slots_left_out", "left out", list);
  slots.add_some(2.0, "slots_twice", "added twice", list);
  add_slot_fraction(slots, list);
  const std::size_t before = list.size();
  add_slot_map(slots, list);
  if (list.size() == before && n > 1) add_permuted_weights(slots, list);
  slots.add_if(
      "divided", "weights are divided by their sum once more",
      [](const Token& t, std::size_t s) {
        float sum = 0.0f;
        for (const double g : t.given) sum += static_cast<float>(g);
        return static_cast<double>(static_cast<float>(t.given[s]) / sum);
      },
      list);
  for (Index by = 1; by <= kMostTokens; ++by) {
    for (const Index d : {-by, by}) {
      slots.add_if_of(
          "other_token",
          "weights are those of the token " + std::to_string(by) + (d < 0 ? " before" : " after"),
          [](const Token& t) { return t.rank; }, d, list);
    }
  }
  for (const Output& o : outputs) {
    const std::string rank = rank_of(o.name);
    slots.add_if_of(
        "other_rank", "weights are those of " + rank.substr(0, rank.size() - 1),
        [&rank](const Token&) { return rank; }, 0, list);
  }
}

}  // namespace mxo
