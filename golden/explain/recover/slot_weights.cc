// What every slot of a token weighed when rows came back: measured from sums over slots.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/effective.h"
#include "golden/explain/recover/slots.h"
#include "golden/explain/wide_values.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

constexpr double kFit = 0.0025;  ///< of an output that may be left: half a unit of bf16
constexpr double kAlike = 0.01;  ///< of the largest weight of a token, of weights that are the same
constexpr double kSigmas = 5.0;
constexpr Index kMostSlots = 16;
constexpr Index kMostTokens = 8;  ///< by which weights may be those of another token

/// A token whose sum is not the expected one, and what its slots weighed.
struct Token {
  std::string rank;
  Index row;
  std::vector<double> given;
  std::vector<double> seen;
  std::vector<double> sigma;
};

std::string rank_of(const std::string& name) { return name.substr(0, name.find('.') + 1); }

const Tensor* find(const Call& call, const std::string& name) {
  return call.has(name) ? &call.input(name) : nullptr;
}

double weight(const Call& call, const std::string& rank, Index row, Index slot, Index slots) {
  const Tensor* w = find(call, rank + "weights");
  return w == nullptr ? 1.0 : static_cast<double>(w->as<float>()[row * slots + slot]);
}

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

/// Weights of the tokens that were measured, each a function of (token, slot).
using Weights = std::function<double(const Token&, std::size_t)>;

class Slots {
 public:
  Slots(const Call& call, std::vector<Token> tokens, Index tokens_in_all)
      : call_(call), tokens_(std::move(tokens)), all_(tokens_in_all) {}

  bool fits(const Weights& weights) const {
    return std::all_of(tokens_.begin(), tokens_.end(), [&](const Token& t) {
      double most = 0.0;
      for (const double g : t.given) most = std::max(most, std::abs(g));
      for (std::size_t s = 0; s < t.given.size(); ++s) {
        const double off = std::abs(weights(t, s) - t.seen[s]);
        if (!(off <= kAlike * most + kSigmas * t.sigma[s])) return false;
      }
      return true;
    });
  }
  /// "slot 2 is left out", where every slot has its own weight but some that have `times` as much.
  void add_some(double times, const char* id, const std::string& what,
                std::vector<Hypothesis>& list) const {
    const auto hit = [times](const Token& t, std::size_t s) {
      return std::abs(t.seen[s] - times * t.given[s]) < std::abs(t.seen[s] - t.given[s]);
    };
    const Weights weights = [hit, times](const Token& t, std::size_t s) {
      return hit(t, s) ? times * t.given[s] : t.given[s];
    };
    if (!fits(weights)) return;
    std::vector<Index> slots;
    std::vector<Index> experts;
    for (const Token& t : tokens_) {
      for (std::size_t s = 0; s < t.given.size(); ++s) {
        if (!hit(t, s)) continue;
        slots.push_back(static_cast<Index>(s));
        experts.push_back(expert(t, s));
      }
    }
    if (slots.empty()) return;  // all are within a hundredth of their own
    for (std::vector<Index>* v : {&slots, &experts}) {
      std::sort(v->begin(), v->end());
      v->erase(std::unique(v->begin(), v->end()), v->end());
    }
    const bool by_expert = experts.size() == 1 && tokens_.size() > 1;
    const std::string which = by_expert ? "rows of expert " + std::to_string(experts.front())
                                        : ranges_in_words("slot", slots);
    const bool one = !by_expert && slots.size() == 1;
    add(id, which + (one ? " is " : " are ") + what, weights, list);
  }
  void add_if(const char* id, const std::string& words, const Weights& weights,
              std::vector<Hypothesis>& list) const {
    if (fits(weights)) add(id, words, weights, list);
  }
  /// The same of weights that the token `further` of rank(t) has.  Where there is none, nobody
  /// knows what was read; but most have to be there.
  void add_if_of(const char* id, const std::string& words,
                 const std::function<std::string(const Token&)>& rank, Index further,
                 std::vector<Hypothesis>& list) const {
    const auto is_there = [&](const Token& t) {
      const Index row = t.row + further;
      return row >= 0 && row < call_.input(rank(t) + "experts").extent(0);
    };
    const auto there = std::count_if(tokens_.begin(), tokens_.end(), is_there);
    if (there * 2 < static_cast<std::ptrdiff_t>(tokens_.size())) return;
    add_if(
        id, words,
        [&](const Token& t, std::size_t s) {
          return is_there(t) ? weight(call_, rank(t), t.row + further, static_cast<Index>(s),
                                      static_cast<Index>(slots()))
                             : t.seen[s];
        },
        list);
  }
  /// How far, in sigmas, weights of slot `from` are from what slot `s` weighed.
  double misfit(std::size_t s, std::size_t from) const {
    double sum = 0.0;
    for (const Token& t : tokens_) {
      const double off = (t.given[from] - t.seen[s]) / (t.sigma[s] + 1e-9);
      sum += off * off;
    }
    return sum;
  }
  std::size_t slots() const { return tokens_.front().given.size(); }

 private:
  Index expert(const Token& t, std::size_t s) const {
    const Index at = t.row * static_cast<Index>(t.given.size()) + static_cast<Index>(s);
    return call_.input(t.rank + "experts").as<std::int32_t>()[at];
  }
  /// The tokens, where not nearly all are meant.
  std::string where() const {
    const auto n = static_cast<Index>(tokens_.size());
    if (n * 4 >= all_ * 3) return "";
    std::map<std::string, std::vector<Index>> rows;
    for (const Token& t : tokens_) rows[t.rank].push_back(t.row);
    std::string text;
    for (const auto& [rank, list] : rows) {
      text += (text.empty() ? ", in " : " and ") + ranges_in_words("token", list) +
              (rank.empty() ? "" : " of " + rank.substr(0, rank.size() - 1));
    }
    return text;
  }
  void add(const char* id, const std::string& words, const Weights& weights,
           std::vector<Hypothesis>& list) const {
    std::map<std::string, Tensor> made;
    for (const auto& [name, tensor] : call_.inputs) {
      if (!name.ends_with("experts")) continue;
      const std::string rank = name.substr(0, name.size() - 7);
      Tensor w(Dtype::f32, tensor->shape());
      const auto n = static_cast<Index>(slots());
      for (Index i = 0; i < w.elements(); ++i) {
        w.as<float>()[i] = static_cast<float>(weight(call_, rank, i / n, i % n, n));
      }
      made.emplace(rank, std::move(w));
    }
    for (const Token& t : tokens_) {
      for (std::size_t s = 0; s < slots(); ++s) {
        made.at(t.rank).as<float>()[t.row * static_cast<Index>(slots()) + static_cast<Index>(s)] =
            static_cast<float>(weights(t, s));
      }
    }
    Hypothesis h{std::string("weights=") + id, words + where(), Stage::input};
    h.run = [made = std::move(made)](Backend& backend, const Call& call) {
      Call altered = call;
      for (const auto& [rank, w] : made) altered.replace(rank + "weights", w);
      return combined(backend, std::move(altered));
    };
    list.push_back(std::move(h));
  }

  const Call& call_;
  std::vector<Token> tokens_;
  Index all_;
};

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
      for (Index s = 0; s < n; ++s) t->given.push_back(weight(call, rank, r, s, n));
      tokens.push_back(std::move(*t));
    }
  }
  if (tokens.empty()) return;
  const Slots slots(call, std::move(tokens), all);
  slots.add_some(0.0, "slots_left_out", "left out", list);
  slots.add_some(2.0, "slots_twice", "added twice", list);
  add_slot_map(slots, list);
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
