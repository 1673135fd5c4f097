// Pairs to rules.
#include "golden/explain/recover/quantiser.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "golden/explain/product.h"
#include "golden/explain/recover/amax_parts.h"
#include "golden/explain/find/product/blocks.h"
#include "golden/explain/recover/casts.h"
#include "golden/explain/recover/code_rule.h"
#include "golden/explain/recover/degenerate_scales.h"
#include "golden/explain/recover/model.h"
#include "golden/explain/recover/own_codes.h"
#include "golden/explain/recover/scale_rule.h"
#include "golden/explain/recover/seen_scales.h"
#include "golden/judge/elements.h"

namespace mxo {
namespace {

/// Elements from blocks in which codes are left, and from some others.
std::vector<Index> sample_of(const Output& codes, Index most) {
  const Index n = codes.rows * codes.columns;
  std::vector<Index> found;
  const Index step = std::max<Index>(1, codes.left / most);
  Index seen = 0;
  for (Index i = 0; i < n; ++i) {
    if (codes.marks[static_cast<std::size_t>(i)] == Mark::differs && seen++ % step == 0)
      found.push_back(i);
  }
  const Index stride = std::max<Index>(1, n / most);
  for (Index i = 0; i < n; i += stride) {
    if (codes.marks[static_cast<std::size_t>(i)] != Mark::settled) found.push_back(i);
  }
  return found;
}

Output* named(std::vector<Output>& outputs, std::string_view name) {
  for (Output& o : outputs) {
    if (o.name == name) return &o;
  }
  return nullptr;
}

/// The bits of a scale; those owed where it is no number, of which a rule says nothing.
std::uint64_t scale_bits(const Output& scales, Index i, float s) {
  if (std::isnan(s)) return scales.wanted(i);
  if (size_of(scales.expected->dtype()) != 1) return bit_cast<std::uint32_t>(s);
  return static_cast<std::uint64_t>(
      std::clamp(std::log2(static_cast<double>(s)) + 127.0, 0.0, 254.0));
}

/// The scales of all blocks by a measured rule.  Where they are those of another amax, `amax`
/// becomes that.
std::optional<Claim> claim_scales(Output& scales, const Blocks& blocks, std::vector<float>& amax,
                                  Dtype format, const std::optional<OwnCodes>& own) {
  if (const auto rule = rule_of(amax, *scales.actual, format)) {
    return claim_model(
        scales,
        [&](Index i) {
          return scale_bits(scales, i, rule->stored(amax[static_cast<std::size_t>(i)]));
        },
        "scale.rule", rule->words + rule->stacks);
  }
  // The rule is the one that was asked for, of another amax.
  std::optional<ScaleRuleFound> owed = rule_of(amax, *scales.expected, format);
  if (own) owed = ScaleRuleFound{"", "", [&own](float a) { return own->stored(a); }};
  if (!owed) return claim_one_scale(scales, amax, nullptr);
  // A scale of 1 says that there is none sooner than whose amax it is.
  if (auto claim = claim_one_scale(scales, amax, &*owed)) return claim;
  if (auto claim = claim_one_scale_in_part(scales, amax, *owed, true)) return claim;
  const auto of_another = [&](const std::string& words, const std::vector<float>& other) {
    auto claim = claim_model(
        scales,
        [&](Index i) {
          return scale_bits(scales, i, owed->stored(other[static_cast<std::size_t>(i)]));
        },
        "scale.amax", "amax is that of " + words, 8);
    for (std::size_t s = 0; claim && s < amax.size(); ++s) {
      const auto at = static_cast<Index>(s);
      if (scales.came(at) != scales.wanted(at)) amax[s] = other[s];
    }
    return claim;
  };
  // A running amax is that of the tensor, but for what comes before its largest value: what gives
  // every scale goes first.
  const auto gives_all = [&](const AmaxWindow& w) {
    for (std::size_t s = 0; s < amax.size(); ++s) {
      const auto at = static_cast<Index>(s);
      if (scale_bits(scales, at, owed->stored(w.amax[s])) != scales.came(at)) return false;
    }
    return true;
  };
  const std::vector<AmaxWindow> windows = other_windows(blocks, amax);
  for (const bool all : {true, false}) {
    for (const AmaxWindow& window : windows) {
      if (all && !gives_all(window)) continue;
      if (auto claim = of_another(window.words, window.amax)) return claim;
    }
  }
  if (own) {
    if (const auto part = amax_part_of(scales, blocks, *own)) {
      if (auto claim = of_another(part->words, part->amax)) return claim;
    }
  }
  return claim_one_scale_in_part(scales, amax, *owed, false);
}

/// How the codes of a row fit one of some rules.
RowFit fit_of_row(const Output& codes, Index row, const Blocks& blocks, const ValueCast& cast,
                  std::initializer_list<const CodeRule*> rules, const Grid& grid) {
  RowFit found;
  std::vector<double> values(static_cast<std::size_t>(blocks.block_columns));
  const auto* came = codes.actual->as<std::uint8_t>();
  for (Index c = 0; c < codes.columns; c += blocks.block_columns) {
    const Index first = row * codes.columns + c;
    const Index count = std::min(blocks.block_columns, codes.columns - c);
    const Index scale = blocks.scale_of(first);
    if (scale >= 0) cast.run({first, count, scale}, values.data());
    for (Index i = 0; i < count; ++i) {
      const Mark mark = codes.marks[static_cast<std::size_t>(first + i)];
      if (mark == Mark::settled) continue;
      const double v = values[static_cast<std::size_t>(i)];
      const std::uint64_t code = came[first + i];
      const bool fits = scale < 0 || !std::isfinite(v)
                            ? mark == Mark::same
                            : std::any_of(rules.begin(), rules.end(), [&](const CodeRule* r) {
                                return r->gives(grid, v, code);
                              });
      if (!fits) return {false, 0};
      found.fixed += mark == Mark::differs;
    }
  }
  return found;
}

/// Elements that are not settled, whether they differ or not.
std::vector<Index> every(const Output& codes, Index most) {
  std::vector<Index> found;
  const Index n = codes.owed * codes.columns;
  for (Index i = 0; i < n; i += std::max<Index>(1, n / most) | 1) {
    if (codes.marks[static_cast<std::size_t>(i)] != Mark::settled) found.push_back(i);
  }
  return found;
}

std::vector<CodePair> pairs_of(const Output& codes, const Blocks& blocks, const ValueCast& cast,
                               const std::vector<Index>& elements, Dtype format) {
  const ElementReader read(format);
  std::vector<CodePair> pairs;
  for (const Index i : elements) {
    const Index s = blocks.scale_of(i);
    if (s < 0) continue;
    const double v = cast.value(i, s);
    const Element c = read(codes.came(i));
    if (!std::isfinite(v) || c.nan || c.infinite) continue;
    pairs.push_back({v, static_cast<std::size_t>(codes.came(i) & 0x7F)});
  }
  return pairs;
}

/// The least magnitude that came as NaN or infinity; 0 if none did, or one below the largest code.
double least_lost(const Output& codes, const Blocks& blocks, const ValueCast& cast,
                  const Grid& grid) {
  double least = 0.0;
  for (Index i = 0; i < codes.owed * codes.columns; ++i) {
    if (codes.marks[static_cast<std::size_t>(i)] == Mark::settled) continue;
    if (!grid.no_number(codes.came(i)) || blocks.scale_of(i) < 0) continue;
    const double v = std::abs(cast.value(i, blocks.scale_of(i)));
    if (!std::isfinite(v)) continue;
    if (v <= grid.value(grid.top())) return 0.0;
    least = least == 0.0 ? v : std::min(least, v);
  }
  return least;
}

/// Codes that are neighbours of their values, the nearer as often as it is nearer.
std::optional<Claim> claim_random_codes(Output& codes, const Blocks& blocks, const ValueCast& cast,
                                        const Grid& grid) {
  CodeRule down{CodeRounding::zero, grid.top(), 0, false};
  CodeRule up{CodeRounding::away, grid.top(), 0, false};
  const std::string words =
      "codes are rounded at random (stochastic rounding): each to one of the "
      "two neighbours of its value, the nearer as often as it is nearer";
  return claim_fits(
      codes,
      [&](Index row) {
        return fit_of_row(codes, row, blocks, cast, {&down, &up}, grid);
      },
      "codes.random", words, 64);
}

/// Whether a row holds the codes that the rule asked for makes under the scales that came.
RowFit own_fit(const Output& codes, Index row, const Blocks& blocks, const Tensor& scales,
               const std::vector<float>& amax, const OwnCodes& own) {
  RowFit found;
  const auto* came = codes.actual->as<std::uint8_t>();
  for (Index c = 0; c < codes.columns; c += blocks.block_columns) {
    const Index first = row * codes.columns + c;
    const Index end = first + std::min(blocks.block_columns, codes.columns - c);
    const Index s = blocks.scale_of(first);
    if (s < 0) continue;
    const Factors factors = own.factors(scales, s, amax[static_cast<std::size_t>(s)]);
    const auto holds = [&](float factor) {
      for (Index i = first; i < end; ++i) {
        const Mark mark = codes.marks[static_cast<std::size_t>(i)];
        if (mark == Mark::settled) continue;
        const float v = blocks.value(i);
        // Under another scale an infinity may be another code, as the rule says, or what it was.
        const bool kept = !std::isfinite(v) && mark == Mark::same;
        if (!kept && own.code(v, factor) != came[i]) return false;
      }
      return true;
    };
    if (!std::any_of(factors.list.begin(), factors.list.begin() + factors.n, holds))
      return {false, 0};
    for (Index i = first; i < end; ++i) {
      found.fixed += codes.marks[static_cast<std::size_t>(i)] == Mark::differs;
    }
  }
  return found;
}

/// What the rule asked for does to a value once it is scaled.
CodeRule own_rule(const Grid& grid, const std::optional<OwnCodes>& own, Dtype format) {
  CodeRule rule{CodeRounding::even, grid.top(), 0, false};
  if (!own) return rule;
  const ElementRule& element = own->element();
  switch (element.rounding) {
    case Rounding::ties_away: rule.rounding = CodeRounding::away_ties; break;
    case Rounding::ties_zero: rule.rounding = CodeRounding::zero_ties; break;
    case Rounding::zero: rule.rounding = CodeRounding::zero; break;
    case Rounding::away: rule.rounding = CodeRounding::away; break;
    case Rounding::down: rule.rounding = CodeRounding::down; break;
    case Rounding::up: rule.rounding = CodeRounding::up; break;
    default: break;
  }
  if (format == Dtype::e4m3fnuz && element.fnuz_max > 0)
    rule.clamp = grid.round(element.fnuz_max, CodeRounding::zero);
  if (element.overflow == Overflow::nonfinite) rule.lost = grid.value(grid.top());
  return rule;
}

struct Asked {
  const Grid& grid;
  const CodeRule& rule;
};

/// Whether a multiplier one step off does what another rounding does, as it may where all that
/// differ are ties.
std::string step_that_does_the_same(const Output& codes, const Blocks& blocks, const Tensor& scales,
                                    const std::vector<float>& amax, const OwnCodes& own,
                                    const std::vector<Index>& sample, const Asked& asked) {
  if (size_of(scales.dtype()) == 1 || own.divides()) return {};
  for (const bool more : {true, false}) {
    const bool all = std::all_of(sample.begin(), sample.end(), [&](Index i) {
      const Index s = blocks.scale_of(i);
      const float x = s < 0 ? 0.0f : blocks.value(i);
      if (s < 0 || !std::isfinite(x)) return true;
      const float factor = own.factors(scales, s, amax[static_cast<std::size_t>(s)]).list[0];
      const auto v =
          static_cast<double>(own.value(x, std::nextafter(factor, more ? HUGE_VALF : 0.0f)));
      return asked.rule.gives(asked.grid, v, codes.came(i));
    });
    if (all) {
      return std::string("x is multiplied by one unit in the last place ") +
             (more ? "more" : "less") + " than 1 / scale";
    }
  }
  return {};
}

/// Whether a value lies beyond what rounds to the largest code.
bool has_too_large(const Grid& grid, const std::vector<CodePair>& pairs) {
  const double top = grid.value(grid.top());
  const double end = top + 0.5 * (top - grid.value(grid.top() - 1));
  return std::any_of(pairs.begin(), pairs.end(),
                     [end](const CodePair& p) { return std::abs(p.v) > end; });
}

std::optional<Claim> claim_codes(Output& codes, const Blocks& blocks, const Output& scales,
                                 const std::vector<float>& amax, Dtype format,
                                 const std::optional<OwnCodes>& own) {
  const Tensor& came = *scales.actual;
  const bool scales_differ = scales.differing > 0;
  if (own && scales_differ) {
    auto claim = claim_fits(
        codes, [&](Index row) { return own_fit(codes, row, blocks, came, amax, *own); },
        "codes.follow", "codes follow from the scales", 2);
    if (claim) claim->kind = Kind::follows;
    if (claim) return claim;
  }
  const Grid grid(format);
  const CodeRule asked = own_rule(grid, own, format);
  const std::vector<Index> sample = sample_of(codes, 16384);
  for (const ValueCast& cast : casts_of(blocks, came, amax, format, own)) {
    const std::vector<CodePair> pairs = pairs_of(codes, blocks, cast, sample, format);
    if (pairs.size() < 32) return std::nullopt;
    std::optional<CodeRule> rule = fit(grid, pairs);
    if (rule) rule->lost = least_lost(codes, blocks, cast, grid);
    if (!rule && cast.words.empty() &&
        rounds_at_random(grid, pairs_of(codes, blocks, cast, every(codes, 16384), format))) {
      if (auto claim = claim_random_codes(codes, blocks, cast, grid)) return claim;
    }
    if (!rule) continue;
    std::string words = cast.words;
    const std::string more = rule->words(grid, asked);
    if (!more.empty()) words += (words.empty() ? "" : "; ") + more;
    if (asked.lost > 0 && rule->lost == 0 && has_too_large(grid, pairs)) {
      words += (words.empty() ? "" : "; ") +
               std::string("what is too large for a code is clamped, rather than NaN or infinity");
    }
    const bool usual = words.empty();
    if (usual && !scales_differ) return std::nullopt;
    if (own && cast.words.empty() && rule->rounding != asked.rounding) {
      const std::string step =
          step_that_does_the_same(codes, blocks, came, amax, *own, sample, {grid, asked});
      if (!step.empty()) words += "; as well if " + step;
    }
    auto claim = claim_fits(
        codes, [&](Index row) { return fit_of_row(codes, row, blocks, cast, {&*rule}, grid); },
        usual ? "codes.follow" : "codes.rule", usual ? "codes follow from the scales" : words, 2);
    if (claim && usual) claim->kind = Kind::follows;
    if (claim) return claim;
  }
  return std::nullopt;
}

}  // namespace

void mark_what_follows(const Call& call, std::vector<Output>& outputs) {
  Output* codes = named(outputs, "codes");
  const Output* scales = named(outputs, "scales");
  const Dtype format = call.set.format("format", "e4m3");
  if (codes == nullptr || scales == nullptr || codes->left == 0 || scales->left == 0) return;
  const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
  if (!blocks || !is_minifloat8(format)) return;
  const std::vector<float> amax = amax_of(*blocks);
  const std::optional<OwnCodes> own = OwnCodes::of(call, *codes, *blocks, *scales, amax);
  if (!own) return;
  codes->follows = true;
  for (Index row = 0; row < codes->owed && codes->follows; ++row)
    codes->follows = own_fit(*codes, row, *blocks, *scales->actual, amax, *own).fits;
}

std::vector<Claim> recover_quantiser(const Call& call, std::vector<Output>& outputs) {
  Output* codes = named(outputs, "codes");
  Output* scales = named(outputs, "scales");
  if (codes == nullptr || scales == nullptr || codes->left + scales->left == 0) return {};
  const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
  if (!blocks) return {};
  const Dtype format = call.set.format("format", "e4m3");
  if (!is_minifloat8(format)) return {};
  std::vector<float> amax = amax_of(*blocks);
  const std::optional<OwnCodes> own = OwnCodes::of(call, *codes, *blocks, *scales, amax);
  std::vector<Claim> claims;
  if (scales->left > 0) {
    auto claim = claim_scales(*scales, *blocks, amax, format, own);
    if (!claim && own && codes->follows) claim = claim_seen_scales(*scales, *blocks, *own);
    if (claim) claims.push_back(std::move(*claim));
  }
  if (codes->left > 0) {
    if (auto claim = claim_codes(*codes, *blocks, *scales, amax, format, own)) {
      const bool follows = claim->kind == Kind::follows;
      if (follows && claims.empty()) {
        // Codes that follow from scales nobody can explain: the scales are what is wrong.
        claim->sentence =
            "codes follow from the scales that came, and these are not the ones expected";
      }
      if (follows && !claims.empty()) {
        claims.front().elements += claim->elements;
        claims.front().where.tensor = "scales, codes";
      } else {
        claims.push_back(std::move(*claim));
      }
    }
  }
  return claims;
}

}  // namespace mxo
