// How codes came about: what x became before it was rounded, and how it was rounded.
#include <limits>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"
#include "golden/explain/find/quantiser/quantiser_call.h"

namespace mxo {
namespace {

constexpr Index kSampled = 16384;        ///< codes that are looked at before all are
constexpr std::size_t kLeastPairs = 32;  ///< of value and code that tell a rule
constexpr Index kLeastRandom = 64;       ///< codes that differ by chance

// ---- Codes beside values.

/// Codes that are not explained, spread evenly.
std::vector<Index> spread(const Output& codes) {
  std::vector<Index> found;
  const Index n = compared(codes);
  for (Index i = 0; i < n; i += std::max<Index>(1, n / kSampled) | 1) {
    if (nth(codes.marks, i) != Mark::explained) found.push_back(i);
  }
  return found;
}

/// The same, and as many of those that are left.
std::vector<Index> spread_and_left(const Output& codes) {
  std::vector<Index> found = spread(codes);
  const Index step = std::max<Index>(1, codes.left / kSampled);
  Index seen = 0;
  for (std::size_t i = 0; i < codes.marks.size(); ++i) {
    if (codes.marks[i] == Mark::differs && seen++ % step == 0)
      found.push_back(static_cast<Index>(i));
  }
  return found;
}

/// Codes beside the values that they may have been made of.
struct Coded {
  Output& codes;
  const Grid& grid;
  std::function<double(Index)> value;  ///< no finite number where it says nothing

  std::vector<CodePair> pairs(const std::vector<Index>& elements) const {
    std::vector<CodePair> list;
    for (const Index i : elements) {
      const double v = value(i);
      const std::uint64_t code = codes.actual_bits(i);
      if (std::isfinite(v) && !grid.no_number(code))
        list.push_back({v, static_cast<std::size_t>(code & 0x7F)});
    }
    return list;
  }
  /// Whether a rule gives some codes.
  bool gives(const CodeRule& rule, const std::vector<Index>& elements) const {
    return std::ranges::all_of(elements, [&](Index i) {
      const double v = value(i);
      return !std::isfinite(v) || rule.gives(grid, v, codes.actual_bits(i));
    });
  }
  /// The least magnitude that came as NaN or infinity; 0 if none did, or one below the largest
  /// code.
  double least_lost() const {
    double least = HUGE_VAL;
    for (Index i = 0; i < codes.compared_rows * codes.columns; ++i) {
      if (!grid.no_number(codes.actual_bits(i)) || nth(codes.marks, i) == Mark::explained) continue;
      const double v = std::abs(value(i));
      if (std::isfinite(v)) least = std::min(least, v);
    }
    return least <= grid.value(grid.top()) || least == HUGE_VAL ? 0.0 : least;
  }
  /// Every code, or those of whole rows, by one of some rules.
  std::optional<Claim> claim(const std::vector<CodeRule>& rules, const char* id,
                             const std::string& words, Index least = 2) const {
    const auto fit_of = [&](Index row) {
      RowFit found;
      for (Index i = row * codes.columns; i < (row + 1) * codes.columns; ++i) {
        if (nth(codes.marks, i) == Mark::explained) continue;
        const double v = value(i);
        const auto gives = [&](const CodeRule& r) {
          return r.gives(grid, v, codes.actual_bits(i));
        };
        if (std::isfinite(v) ? std::ranges::none_of(rules, gives) : codes.differs(i))
          return RowFit{false, 0};
        found.fixed += codes.differs(i);
      }
      return found;
    };
    return claim_fits(codes, fit_of, id, words, least);
  }
  std::optional<Claim> claim_at_random() const {
    if (!rounds_at_random(grid, pairs(spread(codes)))) return std::nullopt;
    return claim({{Rounding::zero, grid.top()}, {Rounding::away, grid.top()}}, "codes.random",
                 "codes are" + std::string(kAtRandom), kLeastRandom);
  }
};

// ---- What x becomes before it is rounded.

using Of = const QuantiserCall&;
using Factor = double (*)(Of q, Index scale);

bool always(Of) { return true; }
bool has_bytes(Of q) { return size_of(q.scales.actual->dtype()) == 1; }
bool has_numbers(Of q) { return !has_bytes(q); }
bool divides(Of q) { return q.own && q.own->divides(); }
bool does_not_divide(Of q) { return has_numbers(q) && !divides(q); }
bool has_neighbours(Of q) { return !q.blocks.tiled; }

float max_of(Of q) { return static_cast<float>(q.max); }
double stored_scale(Of q, Index s) { return scale_value(*q.scales.actual, s); }
double inverse(Of q, Index s) { return 1.0f / static_cast<float>(stored_scale(q, s)); }
double own_factor(Of q, Index s) {
  return q.own->factors(*q.scales.actual, s, q.amax_of(s)).front();
}
template <int kRows, int kColumns>
double neighbour(Of q, Index s) {
  const Index at = s + kRows * q.blocks.scale_columns() + kColumns;
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

float in_bf16(float v) { return decode(encode<kBF16>(v)); }
double times(Of, float v, double by) { return v * static_cast<float>(by); }
double divided(Of, float v, double by) { return v / static_cast<float>(by); }
double divided_in_f64(Of, float v, double by) { return static_cast<double>(v) / by; }

/// What x becomes before it is rounded.
struct ValueCast {
  const char* words;  ///< empty: as the operator has it
  bool (*applies)(Of q);
  Factor factor;
  double (*made)(Of q, float x, double factor) = divided_in_f64;
  bool is_own() const { return *words == '\0'; }
};

constexpr ValueCast kCasts[] = {
    {"", [](Of q) { return q.own.has_value(); }, own_factor,
     [](Of q, float v, double by) -> double { return q.own->value(v, static_cast<float>(by)); }},
    {"", [](Of q) { return has_bytes(q) && !q.own; }, stored_scale},
    {"x is rounded to bf16 before the cast", has_bytes, stored_scale,
     [](Of q, float v, double by) { return divided_in_f64(q, in_bf16(v), by); }},
    {"x is multiplied by 1 / scale rather than divided by it", divides, inverse, times},
    {"x is multiplied by 1 / scale, of the stored scale",
     [](Of q) { return does_not_divide(q) && q.own; }, inverse, times},
    {"", [](Of q) { return has_numbers(q) && !q.own; }, inverse, times},
    {"", divides, stored_scale, divided},
    {"x is divided by the stored scale rather than multiplied", does_not_divide, stored_scale,
     divided},
    {"x is multiplied by the stored number, which is no scale but its inverse", has_numbers,
     stored_scale, times},
    {"x is multiplied by one unit in the last place more than 1 / scale", has_numbers,
     beside<inverse, true>, times},
    {"x is multiplied by one unit in the last place less than 1 / scale", has_numbers,
     beside<inverse, false>, times},
    {"x is rounded to bf16 before the cast", has_numbers, inverse,
     [](Of q, float v, double by) { return times(q, in_bf16(v), by); }},
    {"codes are made with the scale of the block before", has_neighbours, neighbour<0, -1>},
    {"codes are made with the scale of the block after", has_neighbours, neighbour<0, 1>},
    {"codes are made with the scale of the row before", has_neighbours, neighbour<-1, 0>},
    {"codes are made with the scale of the row after", has_neighbours, neighbour<1, 0>},
    {"codes are made with the scale rounded up to a power of two, which it is not", has_numbers,
     [](Of q, Index s) { return std::exp2(std::ceil(std::log2(stored_scale(q, s)))); }},
    {"codes are made with the scale cut to a power of two, which it is not", has_numbers,
     [](Of q, Index s) { return std::exp2(std::floor(std::log2(stored_scale(q, s)))); }},
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

/// The codes beside what a cast makes of x.
Coded coded_by(Output& codes, Of q, const Grid& grid, const ValueCast& cast) {
  return {
      codes, grid,
      [&q, &cast, first = Index{0}, end = Index{0}, s = Index{-1}, factor = 0.0](Index i) mutable {
        if (i < first || i >= end) {
          s = q.blocks.scale_of(i);
          first = i;
          end = i + q.blocks.map.run(i);
          if (s >= 0) factor = cast.factor(q, s);
        }
        if (s < 0) return std::numeric_limits<double>::quiet_NaN();
        return cast.made(q, q.blocks.value(i), factor);
      }};
}

// ---- The rule that was asked for.

/// Whether a row holds the codes that the rule asked for makes under the actual scales.
RowFit own_fit(Of q, Index row) {
  const Output& codes = q.codes;
  RowFit found;
  const Index end = (row + 1) * codes.columns;
  for (Index first = row * codes.columns; first < end; first += q.blocks.block_columns) {
    const Index last = std::min(first + q.blocks.block_columns, end);
    const auto gives = [&](float factor) {
      for (Index i = first; i < last; ++i) {
        const Mark mark = nth(codes.marks, i);
        const float v = q.blocks.value(i);
        // Under another scale an infinity may be another code, as the rule says, or what it was.
        const bool kept = mark == Mark::explained || (!std::isfinite(v) && mark == Mark::same);
        if (!kept && q.own->code(v, factor) != codes.actual_bits(i)) return false;
      }
      return true;
    };
    const Index s = q.blocks.scale_of(first);
    if (s < 0 ? codes.differs_in(first, last - first)
              : std::ranges::none_of(q.own->factors(*q.scales.actual, s, q.amax_of(s)), gives))
      return {false, 0};
    for (Index i = first; i < last; ++i) found.fixed += codes.differs(i);
  }
  return found;
}

/// What the rule asked for does to a value once it is scaled.
CodeRule rule_asked(Of q, const Grid& grid) {
  CodeRule rule{Rounding::even, grid.top()};
  if (!q.own) return rule;
  const ElementRule& element = q.own->element();
  rule.rounding = element.rounding;
  if (q.format == Dtype::e4m3fnuz && element.fnuz_max > 0)
    rule.clamp = grid.round(element.fnuz_max, Rounding::zero);
  if (element.overflow == Overflow::nonfinite) rule.lost = grid.value(grid.top());
  return rule;
}

/// "; equivalently, x is multiplied by one unit in the last place more than 1 / scale": what does
/// with the rounding that was asked for what another one does, as it may where only ties differ.
std::string cast_that_does_the_same(Output& codes, Of q, const Grid& grid, const CodeRule& asked,
                                    const std::vector<Index>& sample) {
  for (const ValueCast& cast : kCasts) {
    if (cast.is_own() || !cast.applies(q)) continue;
    if (coded_by(codes, q, grid, cast).gives(asked, sample))
      return std::string("; equivalently, ") + cast.words;
  }
  return {};
}

/// Whether a value lies beyond what rounds to the largest code.
bool has_too_large(const Grid& grid, const std::vector<CodePair>& pairs) {
  const double end = 1.5 * grid.value(grid.top()) - 0.5 * grid.value(grid.top() - 1);
  return std::ranges::any_of(pairs, [end](const CodePair& p) { return std::abs(p.v) > end; });
}

std::optional<Claim> following(std::optional<Claim> claim) {
  if (claim) claim->kind = FindingKind::follows;
  return claim;
}

constexpr const char* kFollow = "codes follow from the scales";

}  // namespace

bool codes_follow(const QuantiserCall& q) {
  return std::ranges::all_of(range_of(q.codes.compared_rows),
                             [&](Index row) { return own_fit(q, row).fits; });
}

namespace {

/// Of all blocks, by one way in which x met its scale and one rule of rounding.
std::optional<Claim> claim_rule(Output& codes, const QuantiserCall& q) {
  const bool scales_differ = q.scales.differing > 0;
  if (q.own && scales_differ) {
    const auto fit_of = [&](Index row) { return own_fit(q, row); };
    if (auto found = following(claim_fits(codes, fit_of, "codes.follow", kFollow, 2))) return found;
  }
  const Grid grid(q.format);
  const CodeRule asked = rule_asked(q, grid);
  const std::vector<Index> sample = spread_and_left(codes);
  for (const ValueCast& cast : kCasts) {
    if (!cast.applies(q)) continue;
    const Coded coded = coded_by(codes, q, grid, cast);
    const std::vector<CodePair> pairs = coded.pairs(sample);
    if (pairs.size() < kLeastPairs) return std::nullopt;
    std::string words = cast.words;
    std::optional<CodeRule> rule = fit(grid, pairs);
    if (!rule && words.empty()) {
      if (auto found = coded.claim_at_random()) return found;
    }
    if (!rule) continue;
    rule->lost = coded.least_lost();
    if (const std::string more = rule->words(grid, asked); !more.empty())
      list_words(words, more, "; ");
    if (asked.lost > 0 && rule->lost == 0 && has_too_large(grid, pairs))
      list_words(words, "what is too large for a code is clamped, rather than NaN or infinity",
                 "; ");
    if (words.empty() && !scales_differ) return std::nullopt;
    if (cast.is_own() && !words.empty() && q.own && rule->rounding != asked.rounding)
      words += cast_that_does_the_same(codes, q, grid, asked, sample);
    auto found = words.empty() ? following(coded.claim({*rule}, "codes.follow", kFollow))
                               : coded.claim({*rule}, "codes.rule", words);
    if (found) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Claim> claim_codes(Output& codes, const QuantiserCall& q) {
  auto claim = claim_rule(codes, q);
  return claim ? claim : claim_part_of_blocks(codes, q);
}

Claims recover_encoded(const Call& call, Output& codes) {
  const Dtype format = call.set.format("format", "e4m3");
  if (call.op != "encode" || codes.left == 0 || !is_minifloat8(format)) return {};
  const Grid grid(format);
  const Tensor& x = call.input("x");
  const Coded coded{codes, grid, [&x](Index i) -> double { return wide_value(x, i); }};
  std::optional<CodeRule> rule = fit(grid, coded.pairs(spread_and_left(codes)));
  std::optional<Claim> claim;
  if (rule) {
    rule->lost = coded.least_lost();
    // What is too large is a parameter, if nothing else is another.
    CodeRule asked{Rounding::even, grid.top()};
    asked.lost = rule->lost;
    if (rule->words(grid, asked).empty()) return {};
    if (call.set.text("overflow", "saturate") != "nonfinite") asked.lost = 0;
    claim = coded.claim({*rule}, "codes.rule", rule->words(grid, asked));
  } else {
    claim = coded.claim_at_random();
  }
  return claim ? Claims{*std::move(claim)} : Claims{};
}

}  // namespace mxo
