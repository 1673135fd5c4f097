// How codes came about: what x became before it was rounded, and how it was rounded.
#include <bitset>
#include <limits>

#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser.h"

namespace mxo {
namespace {

constexpr Index kSampled = 16384;        ///< codes that are looked at before all are
constexpr std::size_t kLeastPairs = 32;  ///< of value and code that tell a rule
constexpr Index kLeastRandom = 64;       ///< codes that differ by chance

using Of = const QuantiserCall&;

// ---- Codes beside values.

/// Codes that are not explained, spread evenly.
std::vector<Index> spread(const Output& codes) {
  std::vector<Index> found;
  const Index n = compared(codes);
  for (Index i = 0; i < n; i += std::max<Index>(1, n / kSampled) | 1)
    if (nth(codes.marks, i) != Mark::explained) found.push_back(i);
  return found;
}

/// The same, and as many of those that are left.
std::vector<Index> spread_and_left(const Output& codes) {
  std::vector<Index> found = spread(codes);
  const Index step = std::max<Index>(1, codes.left / kSampled);
  Index seen = 0;
  const Index end = std::ssize(codes.marks);
  for (Index i = codes.next_difference(0, end); i < end; i = codes.next_difference(i + 1, end))
    if (seen++ % step == 0) found.push_back(i);
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
  /// Takes for `rule` what came as NaN or infinity: zeros with a sign, or from a least magnitude
  /// on; none if one below the largest code did.
  void take_lost(CodeRule& rule) const {
    const double top = grid.value(grid.top());
    double least = HUGE_VAL;
    double kept = 0.0;
    for (Index i = 0; i < codes.compared_rows * codes.columns; ++i) {
      if (nth(codes.marks, i) == Mark::explained) continue;
      const double v = value(i);
      if (!std::isfinite(v)) continue;
      if (!grid.no_number(codes.actual_bits(i))) {
        kept = std::max(kept, std::abs(v));
      } else if (grid.fnuz() && rule.code(grid, v) == 0) {
        rule.zero_signed = true;
      } else {
        least = std::min(least, std::abs(v));
      }
    }
    if (least <= top || least == HUGE_VAL) return;
    rule.lost = least;
    rule.lost_early = least < grid.end() && kept <= top;
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
    const std::vector<CodePair> some = pairs(spread(codes));
    for (const bool carry_lost : {false, true}) {
      if (!rounds_at_random(grid, some, carry_lost)) continue;
      CodeRule away{Rounding::away, grid.top()};
      away.carry_lost = carry_lost;
      return claim({{Rounding::zero, grid.top()}, away}, "codes.random",
                   "codes are" + std::string(kAtRandom) +
                       (carry_lost ? "; and " + std::string(kCarryLost) : ""),
                   kLeastRandom);
    }
    return std::nullopt;
  }
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
  for (const ValueCast& cast : value_casts()) {
    if (cast.is_own() || !cast.applies(q)) continue;
    if (coded_by(codes, q, grid, cast).gives(asked, sample))
      return std::string("; equivalently, ") + cast.words;
  }
  return {};
}

/// Whether a value lies beyond what rounds to the largest code.
bool has_too_large(const Grid& grid, const std::vector<CodePair>& pairs) {
  return std::ranges::any_of(pairs, [&](const CodePair& p) { return std::abs(p.v) > grid.end(); });
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

/// Codes that are those of scales that are all so many times the stored ones.
std::optional<Claim> claim_factor(Output& codes, Of q, const std::vector<Index>& sample) {
  const Grid grid(q.format);
  const ValueCast cast{"", [](Of) { return true; },
                       [](Of of, Index s) { return scale_value(*of.scales.actual, s); }};
  double least = 0.0;  // of what x over its scale is multiplied by
  double most = HUGE_VAL;
  for (const CodePair& p : coded_by(codes, q, grid, cast).pairs(sample)) {
    if (p.code == 0 || p.code >= grid.top() || p.v == 0.0) continue;
    const double v = 2.0 * std::abs(p.v);
    least = std::max(least, (grid.value(p.code - 1) + grid.value(p.code)) / v);
    most = std::min(most, (grid.value(p.code) + grid.value(p.code + 1)) / v);
  }
  const double factor = 0.5 * (least + most);
  if (least >= most || most > (1.0 + 0x1p-10) * least) return std::nullopt;
  // Right codes, x itself and x multiplied where it is to be divided have names of their own.
  const double scale = scale_value(*q.scales.actual, 0);
  for (const double other : {1.0, scale, scale * scale})
    if (std::abs(factor - other) < 8.0 * (most - least)) return std::nullopt;
  Coded coded = coded_by(codes, q, grid, cast);
  coded.value = [value = coded.value, factor](Index i) { return value(i) * factor; };
  auto claim = coded.claim({rule_asked(q, grid)}, "codes.factor",
                           filled("codes are those of scales that are {} times the stored ones",
                                  number(1.0 / factor, 3)),
                           kLeastRandom);
  if (claim) claim->yields = true;
  return claim;
}

/// Codes of another format, of values that were made for this one.
std::optional<Claim> claim_format(Output& codes, const QuantiserCall& q,
                                  const std::vector<Index>& sample) {
  const std::span<const ValueCast> casts = value_casts();
  const auto own =
      std::ranges::find_if(casts, [&](const ValueCast& c) { return c.is_own() && c.applies(q); });
  if (own == casts.end()) return std::nullopt;
  const double max = largest(q.format);
  for (const Dtype format : {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz}) {
    if (format == q.format) continue;
    const Grid grid(format);
    const std::size_t clamp = grid.round(max, Rounding::zero);
    const Coded coded = coded_by(codes, q, grid, *own);
    if (!coded.gives({Rounding::even, clamp}, sample)) continue;
    return coded.claim({{Rounding::even, clamp}}, "codes.format",
                       filled("the codes are {} rather than {}, under scales of {}",
                              name_of(format), name_of(q.format), name_of(q.format)),
                       kLeastRandom);
  }
  return std::nullopt;
}

/// The same as claim_rule() of rows, columns or a tile that are a part of the codes.
std::optional<Claim> claim_rule_of_place(Output& codes, const QuantiserCall& q) {
  if (codes.left != codes.differing) return std::nullopt;
  const Place place = place_of(codes, [&](Index i) { return codes.differs(i); });
  const Index n = std::ssize(place.rows) * std::ssize(place.columns);
  if (n * 4 > compared(codes) * 3 || !is_pattern(place.rows) || !is_pattern(place.columns))
    return std::nullopt;
  std::vector<Index> elements;
  for (const Index r : place.rows)
    for (const Index c : place.columns) elements.push_back(r * codes.columns + c);
  const Grid grid(q.format);
  const CodeRule asked = rule_asked(q, grid);
  for (const ValueCast& cast : value_casts()) {
    if (!cast.applies(q)) continue;
    const Coded coded = coded_by(codes, q, grid, cast);
    if (!fit(grid, coded.pairs(evenly_spread(elements, kSampled)))) continue;
    const std::vector<CodePair> pairs = coded.pairs(elements);
    if (pairs.size() < kLeastPairs) return std::nullopt;
    const std::optional<CodeRule> rule = fit(grid, pairs);
    const auto is_told = [&](Index i) {
      return !codes.differs(i) || std::isfinite(coded.value(i));
    };
    if (!rule || !coded.gives(*rule, elements) || !std::ranges::all_of(elements, is_told)) continue;
    std::string words = cast.words;
    if (const std::string more = rule->words(grid, asked); !more.empty())
      list_words(words, more, "; ");
    if (words.empty()) continue;
    Claims claims = claim_place(codes, {"codes.rule", FindingKind::cause, true},
                                [&](const Place& where) { return where.words + ": " + words; });
    return std::move(claims.front());
  }
  return std::nullopt;
}

/// Whether all of one code, with both signs, came as others, and no other code did: one pair.
bool is_one_pair(const Output& codes) {
  std::bitset<128> magnitudes[2];  // of codes that are right, and of those that are not
  for (Index i = 0; i < codes.compared_rows * codes.columns; ++i)
    magnitudes[codes.differs(i)].set(codes.expected_bits(i) & 0x7F);
  return magnitudes[1].count() == 1 && (magnitudes[0] & magnitudes[1]).none();
}

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
  for (const ValueCast& cast : value_casts()) {
    if (!cast.applies(q)) continue;
    const Coded coded = coded_by(codes, q, grid, cast);
    const std::vector<CodePair> pairs = coded.pairs(sample);
    if (pairs.size() < kLeastPairs) return std::nullopt;
    std::string words = cast.words;
    std::optional<CodeRule> rule = fit(grid, pairs);
    if (!rule && words.empty())
      if (auto found = coded.claim_at_random()) return found;
    if (!rule) continue;
    coded.take_lost(*rule);
    if (const std::string more = rule->words(grid, asked); !more.empty())
      list_words(words, more, "; ");
    if (asked.lost > 0 && rule->lost == 0 && has_too_large(grid, pairs))
      list_words(words, "what is too large for a code is clamped, rather than NaN or infinity",
                 "; ");
    if (words.empty() && !scales_differ) return std::nullopt;
    if (!cast.is_own() || !words.empty())
      if (auto found = claim_format(codes, q, sample)) return found;
    if (cast.is_own() && !words.empty() && q.own && rule->rounding != asked.rounding)
      words += cast_that_does_the_same(codes, q, grid, asked, sample);
    if (!words.empty() && !scales_differ && is_one_pair(codes)) return std::nullopt;
    auto found = words.empty() ? following(coded.claim({*rule}, "codes.follow", kFollow))
                               : coded.claim({*rule}, "codes.rule", words);
    if (found) return found;
  }
  if (auto found = claim_format(codes, q, sample)) return found;
  return scales_differ ? std::nullopt : claim_factor(codes, q, sample);
}

}  // namespace

std::optional<Claim> claim_codes(Output& codes, const QuantiserCall& q) {
  const auto is_zero = [&](Index i) { return (codes.actual_bits(i) & 0x7F) == 0; };
  if (std::ranges::all_of(range_of(compared(codes)), is_zero)) return std::nullopt;  // of any rule
  auto claim = claim_rule(codes, q);
  if (!claim) claim = claim_part_of_blocks(codes, q);
  return claim ? claim : claim_rule_of_place(codes, q);
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
    coded.take_lost(*rule);
    // What is too large is a parameter, if nothing else is another.
    CodeRule asked{Rounding::even, grid.top()};
    asked.lost = rule->lost;
    if (rule->words(grid, asked).empty()) return {};
    if (call.set.text("overflow", "saturate") != "nonfinite") asked.lost = 0;
    claim = coded.claim({*rule}, "codes.rule", rule->words(grid, asked));
    // All values above the largest code and no others: seen, however few.
    if (claim && rule->lost_early) claim->kind = FindingKind::symptom;
  } else {
    claim = coded.claim_at_random();
  }
  return claim ? Claims{*std::move(claim)} : Claims{};
}

}  // namespace mxo
