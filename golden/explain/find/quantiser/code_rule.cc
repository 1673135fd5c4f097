// How numbers were rounded: roundings, clamps and flushes against pairs, and rounding at random.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"
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

constexpr Index kLeastNeighbours = 128;  ///< bf16 numbers that differ by one step
constexpr double kMostWork = 1e9;        ///< multiply-adds of a product that is computed once more

/// An output of f32 numbers that were rounded, where it is cheap to have.
std::optional<Tensor> wide_output(Backend& backend, const Call& call, const std::string& name) {
  Call wide = call;
  const bool out_given = parameter_of(call, "out") != nullptr;
  if (!out_given && parameter_of(call, "rounding") == nullptr) return std::nullopt;
  wide.set.set(out_given ? "out" : "rounding", out_given ? "f32" : "none");
  if (const auto p = product_of(call)) {
    const auto product = static_cast<double>(p->a_lines) * static_cast<double>(p->n);
    if (product * static_cast<double>(p->k) > kMostWork) return std::nullopt;
  }
  NamedTensors out = run_call(backend, wide);
  if (!out.contains(name) || out.at(name).dtype() != Dtype::f32) return std::nullopt;
  return std::move(out.at(name));
}

bool is_at_random(const Output& o, const Tensor& wide) {
  AtRandom random;
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    const std::uint32_t bits = bit_cast<std::uint32_t>(wide.as<float>()[i]);
    const std::uint64_t low = bits >> 16;
    const std::uint64_t got = o.actual_bits(i);
    const bool exact = (bits & 0xFFFF) == 0 || !std::isfinite(wide.as<float>()[i]);
    if (exact ? o.differs(i) : got != low && got != low + 1) return false;
    if (!exact) random.add((bits & 0xFFFF) / 65536.0, got != low);
  }
  return random.told();
}

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

/// Whether a code is a power of two that the codes below it may be rounded up to.
bool is_carry(const Grid& g, std::size_t code) {
  return code % g.fractions() == 0 && code > g.fractions();
}

std::size_t CodeRule::code(const Grid& g, double v) const {
  if (jump > 0 && std::abs(v) > jump) return g.top();
  const bool is_below = std::abs(v) < g.least_normal();
  if (is_below && flush == Flush::values) return 0;
  const bool is_low = low && is_below;
  const double counted = is_below ? std::ldexp(v, -low_step) : v;
  std::size_t c = std::min(g.round(counted, is_low ? *low : rounding), clamp);
  if (carry_lost && is_carry(g, c) && g.value(c) > std::abs(v)) c -= g.fractions();
  return flush == Flush::codes && g.value(c) < g.least_normal() ? 0 : c;
}

bool CodeRule::gives(const Grid& g, double v, std::uint64_t got) const {
  if (lost > 0 && std::abs(v) >= lost) return g.no_number(got);
  const std::size_t c = code(g, v);
  if (c == 0 && (got & 0x7F) == 0 && flush != Flush::none && !g.fnuz()) return true;
  const std::uint64_t sign = std::signbit(v) ? 0x80 : 0;
  return got == (c == 0 && g.fnuz() && !zero_signed ? 0 : c | sign);
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
    add("what is too large for a code is not clamped: it becomes NaN or infinity");
  if (lost_early && rounding == Rounding::even) {
    const std::string largest = number(g.value(g.top()), 8);
    add("overflow is decided before rounding: all above " + largest +
        " becomes NaN or infinity, though up to " + number(g.end(), 8) + " it rounds to " +
        largest);
  }
  if (flush == Flush::codes) add("subnormal codes are flushed to zero");
  if (flush == Flush::values)
    add("values below the normal codes are flushed to zero before they are rounded");
  if (carry_lost) add(kCarryLost);
  if (zero_signed)
    add("negative values that round to zero keep their sign: code 80, which is NaN here");
  if (low)
    add("what is below the normal codes is rounded " +
        std::string(kRoundingWords[static_cast<int>(*low)]));
  if (low_step != 0) {
    const int own_step = std::ilogb(g.value(1));
    add("subnormal codes are counted in steps of 2^" + std::to_string(own_step + low_step) +
        " rather than 2^" + std::to_string(own_step));
  }
  return text;
}

std::optional<CodeRule> fit(const Grid& g, const std::vector<CodePair>& pairs) {
  std::size_t most = 0;
  double kept = 0.0;  // the largest magnitude that has another code than the largest
  for (const CodePair& p : pairs) {
    most = std::max(most, p.code);
    if (p.code != g.top()) kept = std::max(kept, std::abs(p.v));
  }
  double above = HUGE_VAL;
  for (const CodePair& p : pairs) {
    if (std::abs(p.v) > kept) above = std::min(above, std::abs(p.v));
  }
  // A jump begins at a number that has a code, where one lies between.
  double jump = kept;
  for (std::size_t c = g.top() + 1; c-- > 0;) {
    if (g.value(c) >= kept && g.value(c) < above) jump = g.value(c);
  }
  // Both are of normal numbers.
  if (above < 2 * g.least_normal() || std::isinf(above)) jump = 0.0;
  if (g.value(most) < 2 * g.least_normal()) most = g.top();
  std::vector<CodeRule> rules;
  for (const Rounding rounding : {Rounding::even, Rounding::ties_away, Rounding::ties_zero,
                                  Rounding::zero, Rounding::away, Rounding::down, Rounding::up}) {
    for (const auto& [clamp, from] :
         {std::pair{g.top(), 0.0}, std::pair{most, 0.0}, std::pair{g.top(), jump}}) {
      for (const Flush flush : {Flush::none, Flush::codes, Flush::values})
        rules.push_back({rounding, clamp, from, flush});
    }
  }
  for (const Rounding rounding :
       {Rounding::even, Rounding::ties_away, Rounding::zero, Rounding::away}) {
    rules.push_back({rounding, g.top()});
    rules.back().carry_lost = true;
    for (const Rounding low : {Rounding::even, Rounding::zero, Rounding::ties_away,
                               Rounding::ties_zero, Rounding::away}) {
      rules.push_back({rounding, g.top()});
      rules.back().low = low;
    }
  }
  for (const Rounding rounding : {Rounding::even, Rounding::ties_away, Rounding::zero}) {
    for (const int step : {-1, 1, 2, 3}) {
      rules.push_back({rounding, g.top()});
      rules.back().low_step = step;
    }
  }
  const auto gives_all = [&](const CodeRule& rule) {
    return std::ranges::all_of(pairs,
                               [&](const CodePair& p) { return rule.code(g, p.v) == p.code; });
  };
  const auto found = std::ranges::find_if(rules, gives_all);
  return found == rules.end() ? std::nullopt : std::optional(*found);
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

bool rounds_at_random(const Grid& grid, const std::vector<CodePair>& pairs, bool carry_lost) {
  AtRandom random;
  for (const CodePair& p : pairs) {
    const double m = std::abs(p.v);
    const std::size_t low = grid.round(m, Rounding::zero);
    const bool exact = low == grid.top() || grid.value(low) == m;
    const std::size_t above =
        low + 1 - (carry_lost && is_carry(grid, low + 1) ? grid.fractions() : 0);
    if (p.code != low && (exact || p.code != above)) return false;
    if (exact) continue;
    random.add((m - grid.value(low)) / (grid.value(low + 1) - grid.value(low)), p.code != low);
  }
  return random.told();
}

Claims recover_random(Backend& backend, const Call& call, Output& o) {
  if (!is_unexplained(o, kLeastNeighbours) || o.expected->dtype() != Dtype::bf16) return {};
  for (Index i = 0; i < o.compared_rows * o.columns; ++i) {
    const auto apart = static_cast<std::int64_t>(o.actual_bits(i) - o.expected_bits(i));
    if (o.differs(i) && std::abs(apart) != 1) return {};
  }
  const std::optional<Tensor> wide = wide_output(backend, call, o.name);
  if (!wide || wide->elements() != o.expected->elements() || !is_at_random(o, *wide)) return {};
  return claim_all(o, {"value.random"}, o.name + ": values are" + kAtRandom);
}

}  // namespace mxo
