// Known orders, and any other.
#include "golden/explain/words/permutation.h"

#include "golden/explain/find/finding.h"

namespace mxo {
namespace {

constexpr Index kListed = 16;  ///< places that a sentence names one by one

/// An order of a run, and what it is called.
struct Known {
  std::string name;
  Permutation order;
};

/// Those that kernels are known to confuse; of two that are one the first has the better name.
std::vector<Known> known_orders(Index n) {
  std::vector<Known> list;
  const auto add = [&](std::string name, const auto& source) {
    list.push_back({std::move(name), {}});
    for (Index i = 0; i < n; ++i) list.back().order.source.push_back(source(i));
  };
  add("reversed", [n](Index i) { return n - 1 - i; });
  for (Index by = 1; by < n; by *= 2)
    add(by * 2 == n ? "halves exchanged" : "exchanged with those " + std::to_string(by) + " away",
        [by](Index i) { return i ^ by; });
  for (Index rows = 2; rows < n; rows *= 2)
    add(std::to_string(rows) + " x " + std::to_string(n / rows) + " transposed",
        [n, rows](Index i) { return i % rows * (n / rows) + i / rows; });
  for (Index by = 1; by < n; ++by)
    add(by * 2 < n ? "rolled by " + std::to_string(by) : "rolled back by " + std::to_string(n - by),
        [n, by](Index i) { return (i + by) % n; });
  add("the first of each run for all of it", [](Index) { return Index{0}; });
  add("the last of each run for all of it", [n](Index) { return n - 1; });
  return list;
}

/// What the order is called; empty if it has no name.
std::string name_of(const Permutation& p) {
  for (const Known& known : known_orders(p.period()))
    if (known.order.source == p.source) return known.name;
  return {};
}

std::string span(Index first, Index last) {
  return std::to_string(first) + (last > first ? " to " + std::to_string(last) : "");
}

/// Which places take others, the first runs of them: "64 to 127 are 0 to 63".
std::string moved(const Permutation& p) {
  std::string text;
  int runs = 0;
  for (Index i = 0; i < p.period();) {
    const Index first = i++;
    const Index from = p.from(first);
    while (i < p.period() && p.from(i) - i == from - first) ++i;
    if (from == first) continue;
    if (++runs > 2) continue;
    text += (text.empty() ? "" : ", ") + span(first, i - 1) + " are " +
            span(from, from + i - 1 - first);
  }
  if (runs > 2) text += " and " + std::to_string(runs - 2) + " more";
  return text;
}

}  // namespace

bool Permutation::identity() const { return source == range_of(period()); }

bool Permutation::has_name() const { return !name_of(*this).empty(); }

bool Permutation::is_rolled() const {
  const Index by = source.front();
  return by > 0 && 2 * by != period() && std::ranges::all_of(range_of(period()), [&](Index i) {
           return nth(source, i) == (i + by) % period();
         });
}

std::string Permutation::words() const {
  std::string text = "in runs of " + std::to_string(period()) + " in the order ";
  // A long one from where it begins to be another.
  Index first = 0;
  while (period() > kListed && first < period() && from(first) == first) ++first;
  if (first > 0) text += span(0, first - 1) + ", then ";
  const Index end = std::min(period(), first + kListed);
  for (Index i = first; i < end; ++i)
    text += (i > first ? ", " : "") + std::to_string(nth(source, i));
  if (end < period()) text += ", ...";
  std::string name = name_of(*this);
  if (name.empty() && period() > kListed) name = moved(*this);
  return name.empty() ? text : text + " (" + name + ")";
}

std::vector<Permutation> permutations_of(
    const std::function<bool(Index period, Index i, Index j)>& fits) {
  for (const Index n : kPermutationPeriods) {
    std::vector<std::vector<Index>> from;  // of each place, as far as all have one
    for (Index i = 0; i < n && (i == 0 || !from.back().empty()); ++i) {
      from.emplace_back(range_of(n));
      std::erase_if(from.back(), [&](Index j) { return !fits(n, i, j); });
    }
    if (from.back().empty()) continue;
    std::vector<Permutation> found;
    for (Known& known : known_orders(n)) {
      const bool holds = std::ranges::all_of(range_of(n), [&](Index i) {
        return std::ranges::binary_search(nth(from, i), known.order.from(i));
      });
      if (holds && found.size() < 3) found.push_back(std::move(known.order));
    }
    if (!found.empty()) return found;
    // Any other: each place once, as far as that goes; its own first.
    std::vector<bool> taken(static_cast<std::size_t>(n));
    Permutation p{range_of(n)};
    for (Index i = 0; i < n; ++i) {
      Index best = nth(from, i).front();
      for (const Index j : nth(from, i)) {
        if (nth(taken, j)) continue;
        if (nth(taken, best) || std::abs(j - i) < std::abs(best - i)) best = j;
      }
      nth(taken, best) = true;
      nth(p.source, i) = best;
    }
    if (!p.identity()) return {p};
  }
  return {};
}

}  // namespace mxo
