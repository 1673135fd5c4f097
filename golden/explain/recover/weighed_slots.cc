// Weights of slots held against what was measured, and put into words.
#include "golden/explain/recover/weighed_slots.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "golden/explain/name/places.h"
#include "golden/explain/recover/slots.h"

namespace mxo {
namespace {

constexpr double kAlike = 0.01;  ///< of the largest weight of a token, of weights that are the same
constexpr double kSigmas = 5.0;

bool near(const Token& t, std::size_t s, double weight) {
  double most = 0.0;
  for (const double g : t.given) most = std::max(most, std::abs(g));
  return std::abs(weight - t.seen[s]) <= kAlike * most + kSigmas * t.sigma[s];
}

}  // namespace

double given_weight(const Call& call, const std::string& rank, Index row, Index slot, Index slots) {
  const std::string name = rank + "weights";
  if (!call.has(name)) return 1.0;
  return static_cast<double>(call.input(name).as<float>()[row * slots + slot]);
}

Index Slots::expert(const Token& t, std::size_t s) const {
  const Index at = t.row * static_cast<Index>(t.given.size()) + static_cast<Index>(s);
  return call_.input(t.rank + "experts").as<std::int32_t>()[at];
}

bool Slots::is_own(const Token& t, std::size_t s) const { return near(t, s, t.given[s]); }

bool Slots::fits(const Weights& weights) const {
  return std::all_of(tokens_.begin(), tokens_.end(), [&](const Token& t) {
    for (std::size_t s = 0; s < t.given.size(); ++s) {
      if (!near(t, s, weights(t, s))) return false;
    }
    return true;
  });
}

void Slots::add_some(double times, const char* id, const std::string& what,
                     std::vector<Hypothesis>& list) const {
  const auto hit = [times](const Token& t, std::size_t s) {
    return std::abs(t.seen[s] - times * t.given[s]) < std::abs(t.seen[s] - t.given[s]);
  };
  const Weights weights = [hit, times](const Token& t, std::size_t s) {
    const auto given = static_cast<float>(t.given[s]);
    return static_cast<double>(hit(t, s) ? static_cast<float>(times) * given : given);
  };
  if (!fits(weights)) return;
  std::set<Index> slots;
  std::set<Index> experts;
  std::set<Index> others;  // whose slots have their own weights
  for (const Token& t : tokens_) {
    for (std::size_t s = 0; s < t.given.size(); ++s) {
      (hit(t, s) ? experts : others).insert(expert(t, s));
      if (hit(t, s)) slots.insert(static_cast<Index>(s));
    }
  }
  if (slots.empty()) return;  // all are within a hundredth of their own
  const std::string of_rank = rank_of_all(experts, others);
  const bool by_expert = tokens_.size() > 1 && (experts.size() == 1 || !of_rank.empty());
  std::string which = of_slots(slots, hit);
  if (by_expert) {
    which = of_rank.empty() ? "rows of expert " + std::to_string(*experts.begin())
                            : "rows of the experts of " + of_rank;
  }
  const bool one = !by_expert && slots.size() == 1 && which.starts_with("slot ");
  add(id, which + (one ? " is " : " are ") + what, weights, list);
}

std::string Slots::of_slots(const std::set<Index>& slots,
                            const std::function<bool(const Token&, std::size_t)>& hit) const {
  const Index own = std::max<Index>(1, call_.set.integer("experts", 0) / ranks());
  bool later_on_rank = ranks() > 1;  // all of the slots that have one before them on their rank
  bool all = true;                   // of the slots, in every token
  std::string counts;
  for (const Index slot : slots) {
    Index n = 0;
    for (const Token& t : tokens_) n += hit(t, static_cast<std::size_t>(slot));
    all = all && n == static_cast<Index>(tokens_.size());
    counts += (counts.empty() ? "slot " : ", slot ") + std::to_string(slot) + " of " +
              std::to_string(n) + (n == 1 ? " token" : " tokens");
  }
  for (const Token& t : tokens_) {
    std::set<Index> seen;
    for (std::size_t s = 0; s < t.given.size(); ++s) {
      const bool first = expert(t, s) < 0 || seen.insert(expert(t, s) / own).second;
      later_on_rank = later_on_rank && hit(t, s) == !first;
    }
  }
  if (all) return ranges_in_words("slot", {slots.begin(), slots.end()});
  return later_on_rank ? "slots whose rank has an earlier slot of the token" : counts;
}

void Slots::add_if_of(const char* id, const std::string& words,
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
        return is_there(t) ? given_weight(call_, rank(t), t.row + further, static_cast<Index>(s),
                                          static_cast<Index>(slots()))
                           : t.seen[s];
      },
      list);
}

double Slots::misfit(std::size_t s, std::size_t from) const {
  double sum = 0.0;
  for (const Token& t : tokens_) {
    const double off = (t.given[from] - t.seen[s]) / (t.sigma[s] + 1e-9);
    sum += off * off;
  }
  return sum;
}

Index Slots::ranks() const {
  return std::count_if(call_.inputs.begin(), call_.inputs.end(),
                       [](const auto& input) { return input.first.ends_with(".experts"); });
}

std::string Slots::rank_of_all(const std::set<Index>& experts,
                               const std::set<Index>& others) const {
  const Index all = call_.set.integer("experts", 0);
  if (ranks() < 2 || all < ranks()) return "";
  const Index own = all / ranks();
  const Index rank = *experts.begin() / own;
  const auto is_of_rank = [&](Index e) { return e / own == rank; };
  const bool these = std::all_of(experts.begin(), experts.end(), is_of_rank) &&
                     std::none_of(others.begin(), others.end(), is_of_rank);
  return these && experts.size() > 1 ? "rank" + std::to_string(rank) : "";
}

std::string Slots::where() const {
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

void Slots::add(const char* id, const std::string& words, const Weights& weights,
                std::vector<Hypothesis>& list) const {
  std::map<std::string, Tensor> made;
  for (const auto& [name, tensor] : call_.inputs) {
    if (!name.ends_with("experts")) continue;
    const std::string rank = name.substr(0, name.size() - 7);
    Tensor w(Dtype::f32, tensor->shape());
    const auto n = static_cast<Index>(slots());
    for (Index i = 0; i < w.elements(); ++i) {
      w.as<float>()[i] = static_cast<float>(given_weight(call_, rank, i / n, i % n, n));
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

}  // namespace mxo
