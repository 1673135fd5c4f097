// Roundings, clamps and flushes against pairs.

#include <limits>

#include "golden/explain/find/finding.h"
#include "golden/explain/find/quantiser/quantiser_call.h"

namespace mxo {
namespace {

constexpr const char* kRoundingWords[] = {
    "to nearest, ties to even",
    "to nearest, ties away from zero",
    "to nearest, ties toward zero",
    "toward zero (truncated)",
    "away from zero",
    "down, toward minus infinity",
    "up, toward plus infinity",
};

}  // namespace

Grid::Grid(Dtype format) {
  const ElementReader read(format);
  for (std::uint64_t c = 0; c < 128; ++c) {
    const Element e = read(c);
    if (e.nan || e.infinite) break;
    values_.push_back(e.value);
  }
  fnuz_ = format == Dtype::e4m3fnuz || format == Dtype::e5m2fnuz;
  normal_ = format == Dtype::e4m3 || format == Dtype::e4m3fnuz ? 8 : 4;
  for (std::uint64_t key = key_of(values_[1]); key <= key_of(values_.back()); ++key) {
    const auto least = bit_cast<double>(key << kKeyShift);
    const auto above = std::upper_bound(values_.begin(), values_.end(), least);
    low_.push_back(static_cast<std::uint8_t>(above - values_.begin() - 1));
  }
}

std::size_t Grid::round(double v, Rounding rounding) const {
  const double m = std::abs(v);
  if (m >= values_.back()) return top();
  const std::size_t low = m < values_[1] ? 0 : low_[key_of(m) - key_of(values_[1])];
  if (values_[low] == m) return low;
  const double half = 0.5 * (values_[low] + values_[low + 1]);
  bool above = false;
  switch (rounding) {
    case Rounding::even: above = m > half || (m == half && low % 2 == 1); break;
    case Rounding::ties_away: above = m >= half; break;
    case Rounding::ties_zero: above = m > half; break;
    case Rounding::zero: break;
    case Rounding::away: above = true; break;
    case Rounding::down: above = v < 0; break;
    case Rounding::up: above = v > 0; break;
    case Rounding::odd: above = low % 2 == 0; break;
  }
  return above ? low + 1 : low;
}

std::size_t CodeRule::code(const Grid& g, double v) const {
  if (jump > 0 && std::abs(v) > jump) return g.top();
  const bool is_low = low && std::abs(v) < g.least_normal();
  std::size_t c = std::min(g.round(v, is_low ? *low : rounding), clamp);
  if (carry_lost && c % g.fractions() == 0 && c > g.fractions() && g.value(c) > std::abs(v))
    c -= g.fractions();
  return flush && g.value(c) < g.least_normal() ? 0 : c;
}

bool CodeRule::gives(const Grid& g, double v, std::uint64_t got) const {
  if (lost > 0 && std::abs(v) >= lost) return g.no_number(got);
  const std::size_t c = code(g, v);
  if (c == 0 && (got & 0x7F) == 0 && flush && !g.fnuz()) return true;
  const std::uint64_t sign = std::signbit(v) ? 0x80 : 0;
  return got == (c == 0 && g.fnuz() ? 0 : c | sign);
}

std::string CodeRule::words(const Grid& g, const CodeRule& own) const {
  std::string text;
  const auto add = [&text](const std::string& more) { list_words(text, more, "; "); };
  if (rounding != own.rounding)
    add("codes are rounded " + std::string(kRoundingWords[static_cast<int>(rounding)]));
  if (clamp != own.clamp) add("codes are clamped at " + number(g.value(clamp), 8));
  if (jump > 0)
    add("everything above " + number(jump, 8) + " becomes " + number(g.value(g.top()), 8));
  if (lost > 0 && own.lost == 0)
    add("what is too large for a code becomes NaN or infinity, rather than clamped");
  if (flush) add("subnormal codes are flushed to zero");
  if (carry_lost)
    add("what rounds up to a power of two becomes half of it: the carry into the exponent is lost");
  if (low)
    add("what is below the normal codes is rounded " +
        std::string(kRoundingWords[static_cast<int>(*low)]));
  return text;
}

std::optional<CodeRule> fit(const Grid& g, const std::vector<CodePair>& pairs) {
  std::size_t most = 0;
  for (const CodePair& p : pairs) most = std::max(most, p.code);
  const double normal = g.least_normal();
  for (const Rounding rounding : {Rounding::even, Rounding::ties_away, Rounding::ties_zero,
                                  Rounding::zero, Rounding::away, Rounding::down, Rounding::up}) {
    CodeRule rule{rounding, g.top(), 0, false};
    Index wrong = 0;
    double least_wrong = std::numeric_limits<double>::infinity();
    bool only_top = true;
    bool only_clamped = true;
    bool low_fits = true;
    Index low_wrong = 0;
    for (const CodePair& p : pairs) {
      const std::size_t c = g.round(p.v, rounding);
      if (c == p.code) continue;
      if (g.value(c) < normal && p.code == 0) {
        ++low_wrong;
        continue;
      }
      ++wrong;
      low_fits = low_fits && std::abs(p.v) >= 2 * normal;
      least_wrong = std::min(least_wrong, std::abs(p.v));
      only_top = only_top && p.code == g.top();
      only_clamped = only_clamped && p.code == most && c > most;
    }
    rule.flush = low_wrong > 0;
    if (wrong > 0 && low_fits && only_clamped) {
      rule.clamp = most;
    } else if (wrong > 0 && low_fits && only_top) {
      // The largest magnitude that still has its own code bounds where the jump begins.
      double kept = 0.0;
      for (const CodePair& p : pairs) {
        if (p.code != g.top() && std::abs(p.v) < least_wrong) kept = std::max(kept, std::abs(p.v));
      }
      double jump = kept;
      for (std::size_t c = 0; c <= g.top(); ++c) {
        if (g.value(c) >= kept && g.value(c) < least_wrong) {
          jump = g.value(c);
          break;
        }
      }
      rule.jump = jump;
    } else if (wrong > 0) {
      continue;
    }
    const bool all = std::all_of(pairs.begin(), pairs.end(),
                                 [&](const CodePair& p) { return rule.code(g, p.v) == p.code; });
    if (all) return rule;
  }
  for (const Rounding rounding : {Rounding::even, Rounding::ties_away}) {
    std::vector<CodeRule> rules(1, {rounding, g.top()});
    rules.front().carry_lost = true;
    for (const Rounding low :
         {Rounding::zero, Rounding::ties_away, Rounding::ties_zero, Rounding::away}) {
      rules.push_back({rounding, g.top()});
      rules.back().low = low;
    }
    for (const CodeRule& rule : rules) {
      if (std::all_of(pairs.begin(), pairs.end(),
                      [&](const CodePair& p) { return rule.code(g, p.v) == p.code; }))
        return rule;
    }
  }
  return std::nullopt;
}

void AtRandom::add(double share, bool away) {
  Bin& bin = bins_.at(static_cast<std::size_t>(share * static_cast<double>(bins_.size())));
  ++bin.n;
  bin.away += away ? 1.0 : 0.0;
  bin.expected += share;
  bin.variance += share * (1.0 - share);
}

bool AtRandom::told() const {
  return std::all_of(bins_.begin(), bins_.end(), [](const Bin& b) {
    return b.n >= 16 && std::abs(b.away - b.expected) <= 4.5 * std::sqrt(b.variance) + 1.0;
  });
}

bool rounds_at_random(const Grid& grid, const std::vector<CodePair>& pairs) {
  AtRandom random;
  for (const CodePair& p : pairs) {
    const double m = std::abs(p.v);
    const std::size_t low = grid.round(m, Rounding::zero);
    const bool exact = low == grid.top() || grid.value(low) == m;
    if (p.code != low && (exact || p.code != low + 1)) return false;
    if (exact) continue;
    random.add((m - grid.value(low)) / (grid.value(low + 1) - grid.value(low)), p.code != low);
  }
  return random.told();
}

}  // namespace mxo
