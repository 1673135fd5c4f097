// Known orders, and any other.
#include "golden/explain/words/permutation.h"

#include <algorithm>
#include <numeric>

namespace mxo {
namespace {

constexpr Index kListed = 16;  ///< places that a sentence names one by one

Permutation made(Index period, const std::function<Index(Index)>& source) {
  Permutation p;
  for (Index i = 0; i < period; ++i) p.source.push_back(source(i));
  return p;
}

bool alike(const Permutation& p, const std::function<Index(Index)>& source) {
  return p.source == made(p.period(), source).source;
}

/// What the order is called; empty if it has no name.
std::string name_of(const Permutation& p) {
  const Index n = p.period();
  if (alike(p, [n](Index i) { return n - 1 - i; })) return "reversed";
  if (alike(p, [](Index) { return Index{0}; })) return "the first of each run for all of it";
  if (alike(p, [n](Index) { return n - 1; })) return "the last of each run for all of it";
  if (alike(p, [n](Index i) { return (i + n / 2) % n; })) return "halves exchanged";
  for (Index by = 1; by < n; ++by) {
    if (alike(p, [n, by](Index i) { return (i + by) % n; })) {
      return by * 2 < n ? "rolled by " + std::to_string(by)
                        : "rolled back by " + std::to_string(n - by);
    }
  }
  for (Index by = 1; by < n; by *= 2) {
    if (alike(p, [by](Index i) { return i ^ by; }))
      return "exchanged with those " + std::to_string(by) + " away";
  }
  for (Index rows = 2; rows < n; rows *= 2) {
    if (alike(p, [n, rows](Index i) { return i % rows * (n / rows) + i / rows; })) {
      return std::to_string(rows) + " x " + std::to_string(n / rows) + " transposed";
    }
  }
  return {};
}

std::string span(Index first, Index last) {
  return std::to_string(first) + (last > first ? " to " + std::to_string(last) : "");
}

/// Which places take others, where these are one run or two: "64 to 127 are 0 to 63".
std::string moved(const Permutation& p) {
  std::string text;
  int runs = 0;
  for (Index i = 0; i < p.period();) {
    const Index first = i++;
    const Index from = p.from(first);
    while (i < p.period() && p.from(i) - i == from - first) ++i;
    if (from == first) continue;
    if (++runs > 2) return {};
    text += (text.empty() ? "" : ", ") + span(first, i - 1) + " are " +
            span(from, from + i - 1 - first);
  }
  return text;
}

}  // namespace

bool Permutation::identity() const {
  return alike(*this, [](Index i) { return i; });
}

bool Permutation::has_name() const { return !name_of(*this).empty(); }

std::string Permutation::words() const {
  std::string text = "in runs of " + std::to_string(period()) + " in the order ";
  for (Index i = 0; i < std::min(period(), kListed); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(source[static_cast<std::size_t>(i)]);
  }
  if (period() > kListed) text += ", ...";
  std::string name = name_of(*this);
  if (name.empty() && period() > kListed) name = moved(*this);
  return name.empty() ? text : text + " (" + name + ")";
}

std::vector<Permutation> known_permutations(Index n) {
  std::vector<Permutation> list;
  const auto add = [&](const std::function<Index(Index)>& source) {
    Permutation p = made(n, source);
    if (!p.identity()) list.push_back(std::move(p));
  };
  add([n](Index i) { return n - 1 - i; });
  for (Index by = 1; by < n; by *= 2) add([by](Index i) { return i ^ by; });
  for (Index rows = 2; rows < n; rows *= 2) {
    add([n, rows](Index i) { return i % rows * (n / rows) + i / rows; });
  }
  for (Index by = 1; by < n; ++by) add([n, by](Index i) { return (i + by) % n; });
  add([](Index) { return Index{0}; });
  add([n](Index) { return n - 1; });
  return list;
}

std::vector<Permutation> permutations_of(
    const std::function<bool(Index period, Index i, Index j)>& fits) {
  for (const Index n : kPermutationPeriods) {
    std::vector<std::vector<Index>> from(static_cast<std::size_t>(n));
    bool all = true;
    for (Index i = 0; i < n && all; ++i) {
      for (Index j = 0; j < n; ++j) {
        if (fits(n, i, j)) from[static_cast<std::size_t>(i)].push_back(j);
      }
      all = !from[static_cast<std::size_t>(i)].empty();
    }
    if (!all) continue;
    std::vector<Permutation> found;
    for (Permutation& p : known_permutations(n)) {
      bool holds = true;
      for (Index i = 0; i < n && holds; ++i) {
        const std::vector<Index>& of = from[static_cast<std::size_t>(i)];
        holds = std::find(of.begin(), of.end(), p.source[static_cast<std::size_t>(i)]) != of.end();
      }
      if (holds && found.size() < 3) found.push_back(std::move(p));
    }
    if (!found.empty()) return found;
    // Any other: each place once, as far as that goes; its own first.
    std::vector<bool> taken(static_cast<std::size_t>(n));
    Permutation p = made(n, [](Index i) { return i; });
    for (Index i = 0; i < n; ++i) {
      const std::vector<Index>& of = from[static_cast<std::size_t>(i)];
      Index best = of.front();
      for (const Index j : of) {
        if (taken[static_cast<std::size_t>(j)]) continue;
        if (taken[static_cast<std::size_t>(best)] || std::abs(j - i) < std::abs(best - i)) best = j;
      }
      taken[static_cast<std::size_t>(best)] = true;
      p.source[static_cast<std::size_t>(i)] = best;
    }
    if (!p.identity()) return {p};
  }
  return {};
}

}  // namespace mxo
