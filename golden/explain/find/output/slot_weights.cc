// What every slot of a token weighed when rows came back, measured from sums over slots, and the
// weights that this may have been.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/output/slots.h"

namespace mxo {
namespace {

constexpr Index kMostSlots = 16;
constexpr Index kMostTokens = 8;  ///< by which weights may be those of another token
constexpr double kAlike = 0.01;  ///< of the largest weight of a token, of weights that are the same
constexpr double kSigmas = 5.0;
constexpr Index kLeastTokens = 3;  ///< of an order that is another in each

/// A slot of a token whose sum is not the expected one: what it was given, and what it weighed.
struct Slot {
  std::string rank;
  Index row;
  Index number;
  double given;
  double seen = 0.0;
  double sigma = 0.0;
};

using Weights = std::function<double(const Slot&)>;
using IsMeant = std::function<bool(const Slot&)>;

/// The slots of a token, by least squares of its row, from the first element that differs to the
/// last, over the rows that they brought; of a row of zeros none of them weighed.
std::vector<Slot> measured(const Call& call, const Output& o, Index row,
                           const std::vector<NamedTensors>& rows) {
  const std::size_t n = rows.size();
  std::vector<Index> elements = elements_of_row(o, row);
  while (!o.differs(elements.back())) elements.pop_back();
  std::erase_if(elements,
                [&, any = false](Index i) mutable { return !(any = any || o.differs(i)); });
  if (elements.size() < 2 * n + 8) return {};
  const std::string rank = rank_of(o.name);
  std::vector<Slot> token;
  for (Index s = 0; s < std::ssize(rows); ++s)
    token.push_back({rank, row, s, given_weight(call, rank, row, s)});
  const ActualNumbers got = actual_numbers(o, elements);
  if (std::ranges::all_of(got.values, [](double v) { return v == 0.0; })) return token;
  LeastSquares equations(n);
  std::vector<double> features(n);
  for (std::size_t c = 0; c < elements.size(); ++c) {
    for (std::size_t s = 0; s < n; ++s)
      features[s] = static_cast<double>(wide_value(rows[s].at(rank + "out"), elements[c]));
    equations.add(features, got.values[c], got.weight(c));
  }
  const auto fit = equations.solved();
  // The misfit of rows of zeros, or with NaN or infinities, is no number.
  if (!fit || !(fit->misfit <= kFit)) return {};
  for (Slot& s : token) {
    const double sigma = nth(fit->sigma, s.number);
    s.seen = nth(fit->x, s.number);
    s.sigma = std::isinf(sigma) ? fit->misfit : sigma * fit->misfit;
  }
  return token;
}

/// Slots of the tokens that fail, those of a token side by side, and hypotheses of the weights that
/// they were given.
class SlotWeights {
 public:
  SlotWeights(const Call& call, std::vector<Slot> slots, Index n, Index all, List& list)
      : call_(call), slots_(std::move(slots)), n_(n), all_(all), list_(list) {}

  /// The hypothesis, if these are the weights that were measured.
  bool add(const std::string& id, const std::string& words, const Weights& weights) {
    if (!std::ranges::all_of(slots_, [&](const Slot& s) { return is_candidate(s, weights(s)); }))
      return false;
    std::map<std::string, Tensor> made;
    for (const std::string& name : names_ending(call_.inputs, ".experts"))
      made[rank_of(name)] =
          with_values(Tensor(Dtype::f32, call_.input(name).shape()), [&](Index i) {
            return static_cast<float>(given_weight(call_, rank_of(name), i / n_, i % n_));
          });
    for (const Slot& s : slots_)
      made.at(s.rank).as<float>()[s.row * n_ + s.number] = static_cast<float>(weights(s));
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
    const auto is_meant = [times](const Slot& s) {
      return std::abs(s.seen - times * s.given) < std::abs(s.seen - s.given);
    };
    const std::string slots = which(is_meant);
    if (slots.empty()) return;  // all are within a hundredth of their own
    const bool one = times != 0.0 && std::ranges::all_of(slots_, [&](const Slot& s) {
                       return !is_meant(s) || times * s.given == 1.0;
                     });
    const char* also = one ? "; equivalently, their weights are 1" : "";
    add(id, slots + " " + what + also, [&](const Slot& s) {
      const auto given = static_cast<float>(s.given);
      return static_cast<double>(is_meant(s) ? static_cast<float>(times) * given : given);
    });
  }
  /// The same of the shortest number that fits.
  void add_fraction() {
    // The factor of the weights that are not their own.
    double sum = 0.0;
    double certainty = 0.0;
    for (const Slot& s : slots_) {
      if (is_candidate(s, s.given) || s.given == 0.0) continue;
      const double certain = s.given / (s.sigma + 1e-9);
      sum += certain * certain * s.seen / s.given;
      certainty += certain * certain;
    }
    const auto [times, words] = short_factor(certainty > 0.0 ? sum / certainty : 0.0);
    if (times == 0.0 || times == 1.0 || times == 2.0) return;
    add_some(times, "slots_fraction", filled("weighted by {} times the weight", words));
  }
  /// Weights that went to other slots of their token: the same in all, or by a rule in each.
  void add_other_slots() {
    if (add_map() || n_ == 1) return;
    struct Rule {
      const char* id;
      const char* words;
      std::function<double(const Slot&)> key;  ///< ascending
    };
    const Rule rules[] = {
        {"by_expert", "in the order of experts",
         [&](const Slot& s) { return static_cast<double>(expert(s)); }},
        {"permuted", "the largest first", [](const Slot& s) { return -s.given; }},
        {"permuted", "the smallest first", [](const Slot& s) { return s.given; }}};
    const std::string permuted = "weights of a token are permuted among its slots";
    for (const Rule& rule : rules) {
      // Slots take weights in that order, or weights in their order go to slots in that order.
      for (const bool inverse : {false, true}) {
        const auto weights = [&](const Slot& s) {
          const std::span<const Slot> token = token_of(s);
          std::vector<Index> order = range_of(n_);
          std::ranges::stable_sort(order, {}, [&](Index i) { return rule.key(nth(token, i)); });
          const Index place = std::ranges::find(order, s.number) - order.begin();
          return nth(token, inverse ? place : nth(order, s.number)).given;
        };
        if (add(rule.id, permuted + ": " + rule.words, weights)) return;
      }
    }
    // The given weight of the token that is nearest to what a slot weighed.
    const auto nearest = [&](const Slot& s) {
      const auto off = [&](const Slot& other) { return std::abs(other.given - s.seen); };
      return std::ranges::min_element(token_of(s), {}, off)->given;
    };
    const auto takes_each_once = [&](const Slot& s) {
      const std::span<const Slot> token = token_of(s);
      return std::ranges::is_permutation(token, token, {}, nearest, &Slot::given);
    };
    // What is free in every token says less than what is listed.
    if (tokens() >= kLeastTokens && std::ranges::all_of(slots_, takes_each_once) &&
        add("permuted", permuted + ", in each token another way", nearest))
      list_.back().last = true;
  }
  /// Weights that are divided by their sum; of one slot that is 1: its weight is left out.
  void add_divided() {
    if (n_ == 1) return;
    add("divided", "weights are divided by their sum once more", [&](const Slot& slot) {
      float sum = 0.0f;
      for (const Slot& s : token_of(slot)) sum += static_cast<float>(s.given);
      return static_cast<double>(static_cast<float>(slot.given) / sum);
    });
  }
  /// Weights that the token `further` of a rank has.  Where there is none, nobody knows what was
  /// read; but most have to be there.
  void add_others(const std::string& id, const std::string& words,
                  const std::function<std::string(const Slot&)>& rank, Index further) {
    const auto is_there = [&](const Slot& s) {
      const Index row = s.row + further;
      return row >= 0 && row < call_.input(rank(s) + "experts").extent(0);
    };
    if (std::ranges::count_if(slots_, is_there) * 2 < std::ssize(slots_)) return;
    const auto weight = [&](const Slot& s) {
      return is_there(s) ? given_weight(call_, rank(s), s.row + further, s.number) : s.seen;
    };
    // One weight for all tells no place.
    std::set<double> read;
    for (const Slot& s : slots_) read.insert(weight(s));
    if (read.size() > 1 || slots_.size() == 1) add(id, words, weight);
  }

 private:
  Index tokens() const { return std::ssize(slots_) / n_; }
  std::span<const Slot> token_of(const Slot& s) const {
    return {&s - s.number, static_cast<std::size_t>(n_)};
  }
  /// Whether a slot may have weighed that, as far as anyone can tell.
  bool is_candidate(const Slot& slot, double weight) const {
    double most = 0.0;
    for (const Slot& s : token_of(slot)) most = std::max(most, std::abs(s.given));
    return std::abs(weight - slot.seen) <= kAlike * most + kSigmas * slot.sigma;
  }
  Index expert(const Slot& s) const {
    return call_.input(s.rank + "experts").as<std::int32_t>()[s.row * n_ + s.number];
  }
  Index ranks() const { return std::ssize(names_ending(call_.inputs, ".experts")); }
  /// Whether every token fails of which a slot holds(rank, expert).
  bool all_fail(const std::function<bool(const std::string&, Index)>& holds) const {
    std::set<std::pair<std::string, Index>> failing;
    for (const Slot& s : slots_) failing.emplace(s.rank, s.row);
    for (const std::string& name : names_ending(call_.inputs, ".experts")) {
      const Tensor& chosen = call_.input(name);
      for (Index i = 0; i < chosen.elements(); ++i) {
        const std::pair token{rank_of(name), i / n_};
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
    std::set<Index> experts;           // of those that are meant
    std::map<Index, Index> tokens_of;  // of each slot
    for (const Slot& s : slots_) {
      if (!is_meant(s)) continue;
      experts.insert(expert(s));
      ++tokens_of[s.number];
    }
    if (tokens_of.empty()) return {};
    const auto are = [&](const IsMeant& holds) {
      return std::ranges::all_of(slots_, [&](const Slot& s) { return is_meant(s) == holds(s); });
    };
    const auto is_far = [own](const std::string& name, Index e) {
      return e >= 0 && filled("rank{}.", e / own) != name;
    };
    const auto is_of_experts = [&](const std::string&, Index e) { return experts.contains(e); };
    const auto is_later = [&](const Slot& s) {
      return expert(s) >= 0 && std::ranges::any_of(token_of(s), [&](const Slot& before) {
               return before.number < s.number && expert(before) >= 0 &&
                      expert(before) / own == expert(s) / own;
             });
    };
    const Index rank = *experts.begin() / own;
    if (tokens() > 1 && experts.size() == 1)
      return filled("rows of expert {}{} are", *experts.begin(),
                    tokens_of.size() == 1 && tokens_of.begin()->second == tokens()
                        ? filled(", slot {} of every token,", tokens_of.begin()->first)
                        : "");
    if (tokens() > 1 && shared && all_experts >= ranks() &&
        are([&](const Slot& s) { return expert(s) / own == rank; }))
      return filled("rows of the experts of rank{} are", rank);
    if (shared && tokens() >= kLeastTokens && all_fail(is_far) &&
        are([&](const Slot& s) { return is_far(s.rank, expert(s)); }))
      return "slots whose expert is on another rank are";
    if (experts.size() >= 2 && tokens() >= 2 * std::ssize(experts) && all_fail(is_of_experts) &&
        are([&](const Slot& s) { return experts.contains(expert(s)); }) &&
        !std::ranges::all_of(slots_, is_meant)) {
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
    for (const auto& [slot, n] : tokens_of) {
      slots.push_back(slot);
      whole = whole && n == tokens();
      list_words(counts, filled("slot {} of {}", slot, counted(n, "token")));
    }
    if (!whole && shared && are(is_later))
      return "slots whose rank has an earlier slot of the token are";
    return (whole ? ranges_in_words("slot", slots) : counts) + (slots.size() == 1 ? " is" : " are");
  }
  bool add_map() {
    std::vector<double> off(
        static_cast<std::size_t>(n_ * n_));  // of a slot, by the weight of another
    for (const Slot& s : slots_)
      for (const Slot& from : token_of(s))
        nth(off, s.number * n_ + from.number) +=
            std::pow((from.given - s.seen) / (s.sigma + 1e-9), 2);
    std::vector<Index> source = range_of(n_);
    for (Index s = 0; s < n_; ++s)
      for (Index from = 0; from < n_; ++from)
        if (nth(off, s * n_ + from) < nth(off, s * n_ + nth(source, s))) nth(source, s) = from;
    std::string text;
    for (Index s = 0; s < n_; ++s) {
      const Index from = nth(source, s);
      const bool exchanged = nth(source, from) == s;
      if (from == s || (exchanged && from < s)) continue;
      list_words(text, filled(exchanged ? "the weights of slots {} and {} change places"
                                        : "slot {} takes the weight of slot {}",
                              s, from));
    }
    return !text.empty() && add("slots", text, [&](const Slot& s) {
      const std::span<const Slot> token = token_of(s);
      return nth(token, nth(source, s.number)).given;
    });
  }
  /// The tokens, where not nearly all are meant.
  std::string where() const {
    if (tokens() * 4 >= all_ * 3) return "";
    std::map<std::string, std::vector<Index>> rows;
    for (Index i = 0; i < tokens(); ++i)
      rows[nth(slots_, i * n_).rank].push_back(nth(slots_, i * n_).row);
    return ", in " + tokens_in_words(rows);
  }

  const Call& call_;
  std::vector<Slot> slots_;
  Index n_;    ///< of a token
  Index all_;  ///< tokens
  List& list_;
};

}  // namespace

void add_measured_slots(Backend& backend, const Call& call, const std::vector<Output>& outputs,
                        List& list) {
  if (call.op != "combine" && call.op != "dispatch_backward") return;
  const Index n = slots_of(call);
  if (n < 1 || n > kMostSlots) return;
  const std::vector<NamedTensors> rows = rows_of_slots(backend, call);
  std::vector<Slot> failing;
  Index all = 0;
  for (const Output& o : outputs) {
    if (o.name.ends_with(".dweights")) continue;
    if (o.expected->dtype() != Dtype::bf16 || !(o.name.ends_with("out") || o.name.ends_with("dx")))
      return;
    all += o.compared_rows;
    for (const Index r : Lines{o}.failing()) {
      const std::vector<Slot> token = measured(call, o, r, rows);
      if (token.empty()) return;
      failing.insert(failing.end(), token.begin(), token.end());
    }
  }
  // Rows of zeros alone look like rows that were never written.
  if (std::ranges::all_of(failing, [](const Slot& s) { return s.seen == 0.0; })) return;
  SlotWeights slots(call, std::move(failing), n, all, list);
  slots.add_some(0.0, "slots_left_out", "left out");
  slots.add_some(2.0, "slots_twice", "added twice");
  slots.add_fraction();
  slots.add_other_slots();
  slots.add_divided();
  for (const Index by : both_ways(kMostTokens))
    slots.add_others(
        "other_token", "weights are those of the token " + away(by),
        [](const Slot& s) { return s.rank; }, by);
  for (const bool by_slot : {false, true})
    slots.add("flat",
              by_slot ? "weights are read as if they lay slot by slot rather than token by token"
                      : "weights are read by the number of the token alone, one for all its slots",
              [&, by_slot](const Slot& s) {
                const Index count = call.input(s.rank + "experts").extent(0);
                const Index at = (by_slot ? s.number * count : 0) + s.row;
                return given_weight(call, s.rank, at / n, at % n);
              });
  for (const Output& o : outputs) {
    const std::string rank = rank_of(o.name);
    slots.add_others(
        "other_rank", "weights are those of " + rank.substr(0, rank.size() - 1),
        [&rank](const Slot&) { return rank; }, 0);
  }
}

}  // namespace mxo
