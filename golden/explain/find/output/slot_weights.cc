// What every slot of a token weighed when rows came back, measured from sums over slots, and the
// weights that this may have been.
#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/case/wide_values.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/output/slots.h"
#include "golden/explain/words/places.h"

namespace mxo {
namespace {

constexpr Index kMostSlots = 16;
constexpr Index kMostTokens = 8;  ///< by which weights may be those of another token
constexpr double kAlike = 0.01;  ///< of the largest weight of a token, of weights that are the same
constexpr double kSigmas = 5.0;
constexpr std::size_t kLeastTokens = 3;  ///< of an order that is another in each

/// A token whose sum is not the expected one, and what its slots weighed.
struct Token {
  std::string rank;
  Index row;
  std::vector<double> given;
  std::vector<double> seen;
  std::vector<double> sigma;

  /// Whether slot s may have weighed that, as far as anyone can tell.
  bool is_candidate(std::size_t s, double weight) const {
    double most = 0.0;
    for (const double g : given) most = std::max(most, std::abs(g));
    return std::abs(weight - seen[s]) <= kAlike * most + kSigmas * sigma[s];
  }
};

/// Of each token that was measured and each of its slots.
using Weights = std::function<double(const Token&, std::size_t)>;
using IsMeant = std::function<bool(const Token&, std::size_t)>;

/// Least squares of one row, from the first element that differs to the last, over the rows of its
/// slots; of a row of zeros none of them weighed.
std::optional<Token> measured(const Output& o, Index row, const std::vector<NamedTensors>& slots) {
  const std::size_t n = slots.size();
  std::vector<Index> elements = elements_of_row(o, row);
  while (!o.differs(elements.back())) elements.pop_back();
  std::erase_if(elements,
                [&, any = false](Index i) mutable { return !(any = any || o.differs(i)); });
  if (elements.size() < 2 * n + 8) return std::nullopt;
  const std::string rank = rank_of(o.name);
  const ActualNumbers got = actual_numbers(o, elements);
  if (std::all_of(got.values.begin(), got.values.end(), [](double v) { return v == 0.0; }))
    return Token{rank, row, {}, std::vector<double>(n), std::vector<double>(n)};
  LeastSquares equations(n);
  std::vector<double> features(n);
  for (std::size_t c = 0; c < elements.size(); ++c) {
    for (std::size_t s = 0; s < n; ++s)
      features[s] = static_cast<double>(wide_value(slots[s].at(rank + "out"), elements[c]));
    equations.add(features, got.values[c], got.weight(c));
  }
  auto fit = equations.solved();
  // The misfit of rows of zeros, or with NaN or infinities, is no number.
  if (!fit || !(fit->misfit <= kFit)) return std::nullopt;
  for (double& v : fit->sigma) v = std::isinf(v) ? fit->misfit : v * fit->misfit;
  return Token{rank, row, {}, std::move(fit->x), std::move(fit->sigma)};
}

/// The tokens that fail, and hypotheses of the weights that they were given.
class SlotWeights {
 public:
  SlotWeights(const Call& call, std::vector<Token> tokens, Index all, std::vector<Hypothesis>& list)
      : call_(call),
        tokens_(std::move(tokens)),
        all_(all),
        slots_(tokens_.front().given.size()),
        list_(list) {}

  /// The hypothesis, if these are the weights that were measured.
  bool add(const std::string& id, const std::string& words, const Weights& weights) {
    for (const Token& t : tokens_) {
      for (std::size_t s = 0; s < slots_; ++s) {
        if (!t.is_candidate(s, weights(t, s))) return false;
      }
    }
    std::map<std::string, Tensor> made;
    const auto n = static_cast<Index>(slots_);
    for (const std::string& name : names_ending(call_.inputs, ".experts")) {
      made[rank_of(name)] =
          with_values(Tensor(Dtype::f32, call_.input(name).shape()), [&](Index i) {
            return static_cast<float>(given_weight(call_, rank_of(name), i / n, i % n));
          });
    }
    for (const Token& t : tokens_) {
      for (std::size_t s = 0; s < slots_; ++s) {
        made.at(t.rank).as<float>()[t.row * n + static_cast<Index>(s)] =
            static_cast<float>(weights(t, s));
      }
    }
    add_run(
        list_, "weights=" + id, words + where(),
        [made = std::move(made)](Backend& backend, const Call& call) {
          Call altered = call;
          for (const auto& [rank, w] : made) altered.replace(rank + "weights", w);
          return combined(backend, std::move(altered));
        },
        Stage::input);
    return true;
  }
  /// "slot 2 is left out", where every slot has its own weight but some that have `times` as much.
  void add_some(double times, const std::string& id, const std::string& what) {
    const auto is_meant = [times](const Token& t, std::size_t s) {
      return std::abs(t.seen[s] - times * t.given[s]) < std::abs(t.seen[s] - t.given[s]);
    };
    const std::string slots = which(is_meant);
    if (slots.empty()) return;  // all are within a hundredth of their own
    bool one = times != 0.0;    // is what they are all weighed by
    for (const Token& t : tokens_) {
      for (std::size_t s = 0; s < slots_; ++s)
        one = one && (!is_meant(t, s) || times * t.given[s] == 1.0);
    }
    const char* also = one ? "; equivalently, their weights are 1" : "";
    add(id, slots + " " + what + also, [&](const Token& t, std::size_t s) {
      const auto given = static_cast<float>(t.given[s]);
      return static_cast<double>(is_meant(t, s) ? static_cast<float>(times) * given : given);
    });
  }
  /// The same of the shortest number that fits.
  void add_fraction() {
    // The factor of the weights that are not their own.
    double sum = 0.0;
    double certainty = 0.0;
    for (const Token& t : tokens_) {
      for (std::size_t s = 0; s < slots_; ++s) {
        if (t.is_candidate(s, t.given[s]) || t.given[s] == 0.0) continue;
        const double certain = t.given[s] / (t.sigma[s] + 1e-9);
        sum += certain * certain * t.seen[s] / t.given[s];
        certainty += certain * certain;
      }
    }
    const auto [times, words] = short_factor(certainty > 0.0 ? sum / certainty : 0.0);
    if (times == 0.0 || times == 1.0 || times == 2.0) return;
    add_some(times, "slots_fraction", filled("weighted by {} times the weight", words));
  }
  /// Weights that went to other slots of their token: the same in all, or by a rule in each.
  void add_other_slots() {
    if (add_map() || slots_ == 1) return;
    struct Rule {
      const char* id;
      const char* words;
      std::function<double(const Token&, std::size_t)> key;  ///< ascending
    };
    const Rule rules[] = {
        {"by_expert", "in the order of experts",
         [&](const Token& t, std::size_t s) { return static_cast<double>(expert(t, s)); }},
        {"permuted", "the largest first",
         [](const Token& t, std::size_t s) { return -t.given[s]; }},
        {"permuted", "the smallest first",
         [](const Token& t, std::size_t s) { return t.given[s]; }}};
    const std::string permuted = "weights of a token are permuted among its slots";
    for (const Rule& rule : rules) {
      // Slots take weights in that order, or weights in their order go to slots in that order.
      for (const bool inverse : {false, true}) {
        const auto weights = [&](const Token& t, std::size_t s) {
          std::vector<std::size_t> order(slots_);
          std::iota(order.begin(), order.end(), std::size_t{0});
          std::ranges::stable_sort(order, {}, [&](std::size_t a) { return rule.key(t, a); });
          const auto place = std::ranges::find(order, s) - order.begin();
          return t.given[inverse ? static_cast<std::size_t>(place) : order[s]];
        };
        if (add(rule.id, permuted + ": " + rule.words, weights)) return;
      }
    }
    // The given weight of the token that is nearest to what a slot weighed.
    const auto nearest = [](const Token& t, std::size_t s) {
      return *std::ranges::min_element(t.given, {},
                                       [&](double g) { return std::abs(g - t.seen[s]); });
    };
    const auto takes_each_once = [&](const Token& t) {
      std::vector<double> taken;
      for (std::size_t s = 0; s < slots_; ++s) taken.push_back(nearest(t, s));
      return std::ranges::is_permutation(taken, t.given);
    };
    // What is free in every token says less than what is listed.
    if (tokens_.size() >= kLeastTokens && std::ranges::all_of(tokens_, takes_each_once) &&
        add("permuted", permuted + ", in each token another way", nearest))
      list_.back().last = true;
  }
  /// Weights that the token `further` of a rank has.  Where there is none, nobody knows what was
  /// read; but most have to be there.
  void add_others(const std::string& id, const std::string& words,
                  const std::function<std::string(const Token&)>& rank, Index further) {
    const auto is_there = [&](const Token& t) {
      const Index row = t.row + further;
      return row >= 0 && row < call_.input(rank(t) + "experts").extent(0);
    };
    const auto there = std::count_if(tokens_.begin(), tokens_.end(), is_there);
    if (there * 2 < static_cast<std::ptrdiff_t>(tokens_.size())) return;
    add(id, words, [&](const Token& t, std::size_t s) {
      return is_there(t) ? given_weight(call_, rank(t), t.row + further, static_cast<Index>(s))
                         : t.seen[s];
    });
  }

 private:
  Index expert(const Token& t, std::size_t s) const {
    return call_.input(t.rank + "experts")
        .as<std::int32_t>()[t.row * static_cast<Index>(slots_) + static_cast<Index>(s)];
  }
  Index ranks() const { return static_cast<Index>(names_ending(call_.inputs, ".experts").size()); }
  /// Whether every token fails of which a slot holds(rank, expert).
  bool all_fail(const std::function<bool(const std::string&, Index)>& holds) const {
    std::set<std::pair<std::string, Index>> failing;
    for (const Token& t : tokens_) failing.emplace(t.rank, t.row);
    for (const std::string& name : names_ending(call_.inputs, ".experts")) {
      const Tensor& chosen = call_.input(name);
      for (Index i = 0; i < chosen.elements(); ++i) {
        const std::pair token{rank_of(name), i / static_cast<Index>(slots_)};
        if (holds(token.first, chosen.as<std::int32_t>()[i]) && !failing.contains(token))
          return false;
      }
    }
    return true;
  }
  /// "slot 2 is", "rows of expert 5 are", "slots whose rank has an earlier slot of the token are".
  std::string which(const IsMeant& is_meant) const {
    const Index all_experts = call_.set.integer("experts", 0);
    const bool shared = ranks() > 1;  // by ranks, each with experts of its own
    const Index own = std::max<Index>(1, shared ? all_experts / ranks() : all_experts);
    struct Chosen {
      std::string rank;
      Index expert;
      bool later;  ///< its rank has an earlier slot of the token
      bool meant;
    };
    std::vector<Chosen> all;
    std::set<Index> experts;        // of those that are meant
    std::map<Index, Index> tokens;  // of each slot
    for (const Token& t : tokens_) {
      std::set<Index> seen;
      for (std::size_t s = 0; s < slots_; ++s) {
        const Index e = expert(t, s);
        all.push_back({t.rank, e, e >= 0 && !seen.insert(e / own).second, is_meant(t, s)});
        if (!all.back().meant) continue;
        experts.insert(e);
        ++tokens[static_cast<Index>(s)];
      }
    }
    if (tokens.empty()) return {};
    const auto are = [&](const auto& holds) {
      return std::ranges::all_of(all, [&](const Chosen& c) { return c.meant == holds(c); });
    };
    const auto is_far = [own](const std::string& name, Index e) {
      return e >= 0 && filled("rank{}.", e / own) != name;
    };
    const auto are_of_experts = [&](const std::string&, Index e) { return experts.contains(e); };
    const Index rank = *experts.begin() / own;
    if (tokens_.size() > 1 && experts.size() == 1)
      return filled("rows of expert {} are", *experts.begin());
    if (tokens_.size() > 1 && shared && all_experts >= ranks() &&
        are([&](const Chosen& c) { return c.expert / own == rank; }))
      return filled("rows of the experts of rank{} are", rank);
    if (shared && tokens_.size() >= kLeastTokens && all_fail(is_far) &&
        are([&](const Chosen& c) { return is_far(c.rank, c.expert); }))
      return "slots whose expert is on another rank are";
    if (experts.size() >= 2 && tokens_.size() >= 2 * experts.size() && all_fail(are_of_experts) &&
        are([&](const Chosen& c) { return experts.contains(c.expert); }) &&
        !std::ranges::all_of(all, &Chosen::meant)) {
      std::vector<Index> few(experts.begin(), experts.end());
      const bool most = static_cast<Index>(few.size()) * 2 > all_experts;
      if (most) {
        few = range_of(all_experts);
        std::erase_if(few, [&](Index e) { return experts.contains(e); });
      }
      const std::string list = ranges_in_words("expert", few);
      return (most ? "rows of all experts but " + list.substr(list.find(' ') + 1)
                   : "rows of " + list) +
             " are";
    }
    std::vector<Index> slots;
    std::string counts;
    bool whole = true;  // of the slots, in every token
    for (const auto& [slot, n] : tokens) {
      slots.push_back(slot);
      whole = whole && n == static_cast<Index>(tokens_.size());
      list_words(counts, filled("slot {} of {}", slot, counted(n, "token")));
    }
    if (!whole && shared && are([](const Chosen& c) { return c.later; }))
      return "slots whose rank has an earlier slot of the token are";
    return (whole ? ranges_in_words("slot", slots) : counts) + (slots.size() == 1 ? " is" : " are");
  }
  bool add_map() {
    const auto off = [&](std::size_t s, std::size_t from) {
      double sum = 0.0;
      for (const Token& t : tokens_)
        sum += std::pow((t.given[from] - t.seen[s]) / (t.sigma[s] + 1e-9), 2);
      return sum;
    };
    std::vector<std::size_t> source(slots_);
    for (std::size_t s = 0; s < slots_; ++s) {
      source[s] = s;
      for (std::size_t from = 0; from < slots_; ++from)
        if (off(s, from) < off(s, source[s])) source[s] = from;
    }
    std::string text;
    for (std::size_t s = 0; s < slots_; ++s) {
      const std::size_t from = source[s];
      const bool exchanged = source[from] == s;
      if (from == s || (exchanged && from < s)) continue;
      list_words(text, filled(exchanged ? "the weights of slots {} and {} change places"
                                        : "slot {} takes the weight of slot {}",
                              s, from));
    }
    return !text.empty() &&
           add("slots", text, [&](const Token& t, std::size_t s) { return t.given[source[s]]; });
  }
  /// The tokens, where not nearly all are meant.
  std::string where() const {
    if (static_cast<Index>(tokens_.size()) * 4 >= all_ * 3) return "";
    std::map<std::string, std::vector<Index>> rows;
    for (const Token& t : tokens_) rows[t.rank].push_back(t.row);
    return ", in " + tokens_in_words(rows);
  }

  const Call& call_;
  std::vector<Token> tokens_;
  Index all_;
  std::size_t slots_;
  std::vector<Hypothesis>& list_;
};

}  // namespace

void add_measured_slots(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                        std::vector<Hypothesis>& list) {
  if (call.op != "combine" && call.op != "dispatch_backward") return;
  const Index n = slots_of(call);
  if (n < 1 || n > kMostSlots) return;
  const std::vector<NamedTensors> rows = rows_of_slots(backend, call);
  std::vector<Token> tokens;
  Index all = 0;
  for (const Output& o : outputs) {
    if (o.name.ends_with(".dweights")) continue;
    if (o.expected->dtype() != Dtype::bf16 || !(o.name.ends_with("out") || o.name.ends_with("dx")))
      return;
    all += o.compared_rows;
    for (const Index r : Lines{o}.failing()) {
      auto t = measured(o, r, rows);
      if (!t) return;
      for (Index s = 0; s < n; ++s) t->given.push_back(given_weight(call, t->rank, r, s));
      tokens.push_back(std::move(*t));
    }
  }
  // Rows of zeros alone look like rows that were never written.
  const auto is_zero = [](const Token& t) {
    return std::all_of(t.seen.begin(), t.seen.end(), [](double v) { return v == 0.0; });
  };
  if (std::all_of(tokens.begin(), tokens.end(), is_zero)) return;
  SlotWeights slots(call, std::move(tokens), all, list);
  slots.add_some(0.0, "slots_left_out", "left out");
  slots.add_some(2.0, "slots_twice", "added twice");
  slots.add_fraction();
  slots.add_other_slots();
  // Of one slot that is 1: its weight is left out.
  const auto divided = [](const Token& t, std::size_t s) {
    float sum = 0.0f;
    for (const double g : t.given) sum += static_cast<float>(g);
    return static_cast<double>(static_cast<float>(t.given[s]) / sum);
  };
  if (n > 1) slots.add("divided", "weights are divided by their sum once more", divided);
  for (const Index by : both_ways(kMostTokens)) {
    slots.add_others(
        "other_token", "weights are those of the token " + away(by),
        [](const Token& t) { return t.rank; }, by);
  }
  for (const bool by_slot : {false, true})
    slots.add("flat",
              by_slot ? "weights are read as if they lay slot by slot rather than token by token"
                      : "weights are read by the number of the token alone, one for all its slots",
              [&, by_slot](const Token& t, std::size_t s) {
                const Index count = call.input(t.rank + "experts").extent(0);
                const Index at = (by_slot ? static_cast<Index>(s) * count : 0) + t.row;
                return given_weight(call, t.rank, at / n, at % n);
              });
  for (const Output& o : outputs) {
    const std::string rank = rank_of(o.name);
    slots.add_others(
        "other_rank", "weights are those of " + rank.substr(0, rank.size() - 1),
        [&rank](const Token&) { return rank; }, 0);
  }
}

}  // namespace mxo
