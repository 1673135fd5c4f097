// How values become codes: what x is before it is rounded, as the rule has it and in other ways;
// roundings, clamps and flushes against pairs; rounding at random.
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

// ---- What x becomes before it is rounded to a code.

using Of = const QuantiserCall&;
using Factor = double (*)(Of q, Index scale);

bool always(Of) { return true; }
bool has_bytes(Of q) { return size_of(q.scales.actual->dtype()) == 1; }
bool has_numbers(Of q) { return !has_bytes(q); }
bool is_own(Of q) { return q.own.has_value(); }
bool is_own_of_bytes(Of q) { return is_own(q) && has_bytes(q); }
bool is_own_of_numbers(Of q) { return is_own(q) && has_numbers(q); }
bool divides(Of q) { return q.own && q.own->divides(); }
bool does_not_divide(Of q) { return has_numbers(q) && !divides(q); }
bool has_neighbours(Of q) { return !q.blocks.tiled; }

float max_of(Of q) { return static_cast<float>(q.max); }
double stored_scale(Of q, Index s) { return scale_value(*q.scales.actual, s); }
double inverse(Of q, Index s) { return 1.0f / static_cast<float>(stored_scale(q, s)); }
double own_factor(Of q, Index s) {
  return q.own->factors(*q.scales.actual, s, q.amax_of(s)).front();
}
/// Of the block that is kFrom(s, blocks of a row).
template <Index (*kFrom)(Index s, Index columns)>
double of_block(Of q, Index s) {
  const Index at = kFrom(s, q.blocks.scale_columns());
  return stored_scale(q, at < 0 || at >= q.blocks.scales ? s : at);
}
// From amax, before the scale is rounded.
double quotient(Of q, Index s) { return q.amax_of(s) / max_of(q); }
double over_amax(Of q, Index s) { return max_of(q) / q.amax_of(s); }
double over_amax_in_f64(Of q, Index s) {
  return static_cast<float>(static_cast<double>(max_of(q)) / static_cast<double>(q.amax_of(s)));
}
double over_quotient(Of q, Index s) { return 1.0f / (q.amax_of(s) / max_of(q)); }
double by_reciprocal(Of q, Index s) { return max_of(q) * (1.0f / q.amax_of(s)); }
/// One unit in the last place beside.
template <Factor kOf, bool kMore>
double beside(Of q, Index s) {
  return std::nextafter(static_cast<float>(kOf(q, s)), kMore ? 1e38f : 0.0f);
}

double in_bf16_of(Of q, Index s) { return by_bf16(static_cast<float>(stored_scale(q, s))); }
double times(Of, float v, double by) { return v * static_cast<float>(by); }
double divided(Of, float v, double by) { return v / static_cast<float>(by); }
float cut_to_bf16(float v) { return bit_cast<float>(bit_cast<std::uint32_t>(v) & 0xFFFF0000); }
float cut_to_f16(float v) {
  if (std::isinf(v)) return v;
  F16 h = encode<kF16>(v, Overflow::saturate);
  if (std::fabs(decode(h)) > std::fabs(v)) --h.bits;
  return decode(h);
}
/// As the rule has it, and then rounded on the way.
template <float (*kTo)(float)>
double scaled_to(Of q, float v, double by) {
  return kTo(q.own->value(v, static_cast<float>(by)));
}
double divided_in_f64(Of, float v, double by) { return static_cast<double>(v) / by; }

constexpr ValueCast kCasts[] = {
    {"", is_own, own_factor,
     [](Of q, float v, double by) -> double { return q.own->value(v, static_cast<float>(by)); }},
    {"", [](Of q) { return has_bytes(q) && !q.own; }, stored_scale},
    {"x is rounded to bf16 before the cast", has_bytes, stored_scale,
     [](Of q, float v, double by) { return divided_in_f64(q, by_bf16(v), by); }},
    {"x is multiplied by 1 / scale rather than divided by it", divides, inverse, times},
    {"x is multiplied by 1 / scale, of the stored scale",
     [](Of q) { return does_not_divide(q) && q.own; }, inverse, times},
    {"", [](Of q) { return has_numbers(q) && !q.own; }, inverse, times},
    {"", divides, stored_scale, divided},
    {"x is divided by the stored scale rather than multiplied", does_not_divide, stored_scale,
     divided},
    {"x is multiplied by the stored number rather than by its inverse", has_numbers, stored_scale,
     times},
    {"x is multiplied by one unit in the last place more than 1 / scale", has_numbers,
     beside<inverse, true>, times},
    {"x is multiplied by one unit in the last place less than 1 / scale", has_numbers,
     beside<inverse, false>, times},
    {"x is rounded to bf16 before the cast", has_numbers, inverse,
     [](Of q, float v, double by) { return times(q, by_bf16(v), by); }},
    {"x is scaled and rounded to bf16 before it is rounded to a code", is_own_of_numbers,
     own_factor, scaled_to<by_bf16>},
    {"x is scaled and truncated to bf16 before it is rounded to a code", is_own_of_numbers,
     own_factor, scaled_to<cut_to_bf16>},
    {"x is scaled and rounded to f16 before it is rounded to a code", is_own_of_numbers, own_factor,
     scaled_to<by_f16>},
    {"x is scaled and truncated to f16 before it is rounded to a code", is_own_of_numbers,
     own_factor, scaled_to<cut_to_f16>},
    {"x is scaled and rounded to a whole number before it is rounded to a code", is_own, own_factor,
     scaled_to<std::rint>},
    // Powers of two may come before or after.
    {"x is rounded to f16 before the cast", is_own_of_bytes, own_factor, scaled_to<by_f16>},
    {"x is truncated to bf16 before the cast", is_own_of_bytes, own_factor, scaled_to<cut_to_bf16>},
    {"x is truncated to f16 before the cast", is_own_of_bytes, own_factor, scaled_to<cut_to_f16>},
    {"codes are made with the scale of the block before", has_neighbours,
     of_block<[](Index s, Index) { return s - 1; }>},
    {"codes are made with the scale of the block after", has_neighbours,
     of_block<[](Index s, Index) { return s + 1; }>},
    {"codes are made with the scale of the row before", has_neighbours,
     of_block<[](Index s, Index n) { return s - n; }>},
    {"codes are made with the scale of the row after", has_neighbours,
     of_block<[](Index s, Index n) { return s + n; }>},
    {"codes are made with the first scale", has_neighbours,
     of_block<[](Index, Index) { return Index{0}; }>},
    {"codes are made with the scale of the first row", has_neighbours,
     of_block<[](Index s, Index n) { return s % n; }>},
    {"codes are made with the scale of the first block of their row", has_neighbours,
     of_block<[](Index s, Index n) { return s - s % n; }>},
    {"codes are made with the scale rounded up to a power of two, which it is not", has_numbers,
     [](Of q, Index s) { return std::exp2(std::ceil(std::log2(stored_scale(q, s)))); }},
    {"codes are made with the scale truncated to a power of two, which it is not", has_numbers,
     [](Of q, Index s) { return std::exp2(std::floor(std::log2(stored_scale(q, s)))); }},
    {"x is divided by the scale rounded to bf16, which it is not", has_numbers, in_bf16_of,
     divided},
    {"x is multiplied by 1 / the scale rounded to bf16, which it is not", has_numbers,
     [](Of q, Index s) -> double { return 1.0f / static_cast<float>(in_bf16_of(q, s)); }, times},
    {"codes are made with half of the scale that came: values are twice theirs", always,
     [](Of q, Index s) { return stored_scale(q, s) / 2.0; }},
    {"codes are made with twice the scale that came: values are half of theirs", always,
     [](Of q, Index s) { return stored_scale(q, s) * 2.0; }},
    {"codes are made with x / fl(amax / max), before the scale was rounded", always, quotient,
     divided},
    {"codes are made with max / amax, before the scale was rounded", always, over_amax, times},
    {"codes are made with one unit in the last place more than max / amax", always,
     beside<over_amax, true>, times},
    {"codes are made with max / amax from f64, before the scale was rounded", always,
     over_amax_in_f64, times},
    {"codes are made with one unit in the last place more than max / amax from f64", always,
     beside<over_amax_in_f64, true>, times},
    {"codes are made with 1 / fl(amax / max), before the scale was rounded", always, over_quotient,
     times},
    {"codes are made with one unit in the last place more than 1 / fl(amax / max)", always,
     beside<over_quotient, true>, times},
    {"codes are made with max * fl(1 / amax), before the scale was rounded", always, by_reciprocal,
     times},
    {"codes are made with one unit in the last place more than max * fl(1 / amax)", always,
     beside<by_reciprocal, true>, times},
};

}  // namespace

std::span<const ValueCast> value_casts() { return kCasts; }

// ---- How it is rounded.

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
  for (const CodePair& p : pairs)
    if (std::abs(p.v) > kept) above = std::min(above, std::abs(p.v));
  // A jump begins at a number that has a code, where one lies between.
  double jump = kept;
  for (std::size_t c = g.top() + 1; c-- > 0;)
    if (g.value(c) >= kept && g.value(c) < above) jump = g.value(c);
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
