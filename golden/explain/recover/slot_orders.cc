// Slots that weigh a part of their weight, and weights that went to other slots of their token.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "golden/explain/recover/weighed_slots.h"

namespace mxo {
namespace {

constexpr double kRatio = 0.002;         ///< by which a measured factor may be off
constexpr std::size_t kLeastTokens = 3;  ///< of an order that is another in each

/// Which slot comes before which.
using Before = std::function<bool(const Token&, std::size_t, std::size_t)>;

std::vector<std::size_t> order_of(const Token& t, const Before& before) {
  std::vector<std::size_t> order(t.given.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return before(t, a, b); });
  return order;
}

/// The factor of the weights that are not their own; 0 if all are.
double factor_of(const Slots& slots) {
  double sum = 0.0;
  double weight = 0.0;
  for (const Token& t : slots.tokens()) {
    for (std::size_t s = 0; s < t.given.size(); ++s) {
      if (slots.is_own(t, s) || t.given[s] == 0.0) continue;
      const double certain = t.given[s] / (t.sigma[s] + 1e-9);
      sum += certain * certain * t.seen[s] / t.given[s];
      weight += certain * certain;
    }
  }
  return weight > 0.0 ? sum / weight : 0.0;
}

std::string short_number(double value) {
  std::string text = std::to_string(value);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text;
}

/// The given weight of the token that is nearest to what a slot weighed.
double nearest(const Token& t, std::size_t s) {
  return *std::min_element(t.given.begin(), t.given.end(), [&](double a, double b) {
    return std::abs(a - t.seen[s]) < std::abs(b - t.seen[s]);
  });
}

bool takes_each_once(const Token& t) {
  std::vector<double> taken;
  for (std::size_t s = 0; s < t.given.size(); ++s) taken.push_back(nearest(t, s));
  return std::is_permutation(taken.begin(), taken.end(), t.given.begin());
}

}  // namespace

void add_slot_fraction(const Slots& slots, std::vector<Hypothesis>& list) {
  const double factor = factor_of(slots);
  // The shortest number: by its denominator.
  for (const double parts : {1.0, 2.0, 4.0, 8.0, 10.0, 3.0, 20.0, 6.0, 100.0}) {
    const double times = std::round(factor * parts) / parts;
    if (!(std::abs(times - factor) <= kRatio * std::abs(factor))) continue;
    if (times == 0.0 || times == 1.0 || times == 2.0) return;
    return slots.add_some(times, "slots_fraction",
                          "weighed by " + short_number(times) + " times the weight", list);
  }
}

void add_permuted_weights(const Slots& slots, std::vector<Hypothesis>& list) {
  struct Named {
    const char* id;
    const char* words;
    Before before;
  };
  const Named orders[] = {
      {"by_expert", "in the order of experts",
       [&](const Token& t, std::size_t a, std::size_t b) {
         return slots.expert(t, a) < slots.expert(t, b);
       }},
      {"permuted", "the largest first",
       [](const Token& t, std::size_t a, std::size_t b) { return t.given[a] > t.given[b]; }},
      {"permuted", "the smallest first",
       [](const Token& t, std::size_t a, std::size_t b) { return t.given[a] < t.given[b]; }}};
  for (const Named& n : orders) {
    // Slots take weights in that order, or weights in their order go to slots in that order.
    for (const bool inverse : {false, true}) {
      const Weights weights = [&](const Token& t, std::size_t s) {
        const std::vector<std::size_t> order = order_of(t, n.before);
        const auto place = std::find(order.begin(), order.end(), s) - order.begin();
        return t.given[inverse ? static_cast<std::size_t>(place) : order[s]];
      };
      if (!slots.fits(weights)) continue;
      return slots.add_if(
          n.id, std::string("weights of a token are permuted among its slots: ") + n.words, weights,
          list);
    }
  }
  const std::vector<Token>& tokens = slots.tokens();
  if (tokens.size() < kLeastTokens || !std::all_of(tokens.begin(), tokens.end(), takes_each_once))
    return;
  slots.add_if("permuted",
               "weights of a token are permuted among its slots, in each token another way",
               nearest, list);
}

}  // namespace mxo
