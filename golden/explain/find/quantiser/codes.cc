// How codes came about: what x became before it was rounded, and how it was rounded.
#include "golden/explain/case/product.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"
#include "golden/explain/find/quantiser/quantiser_call.h"

namespace mxo {
namespace {

constexpr Index kSampled = 16384;        ///< codes that are looked at before all are
constexpr std::size_t kLeastPairs = 32;  ///< of value and code that tell a rule

/// What x becomes before it is rounded.
struct ValueCast {
  std::string words;                          ///< empty: as the operator has it
  std::function<double(Index scale)> factor;  ///< of a block
  std::function<double(float, double)> made;  ///< of x and its factor
  double value(const Blocks& b, Index i) const { return made(b.value(i), factor(b.scale_of(i))); }
};

float in_bf16(float v) { return decode(encode<kBF16>(v)); }
double times(float v, double by) { return static_cast<double>(v * static_cast<float>(by)); }
double divided(float v, double by) { return static_cast<double>(v / static_cast<float>(by)); }
double divided_in_f64(float v, double by) { return static_cast<double>(v) / by; }

/// What x may be multiplied by, from amax, before the scale is rounded.
struct Multiplier {
  const char* words;
  float (*of)(float amax, float max);
};
constexpr Multiplier kMultipliers[] = {
    {"max / amax", [](float a, float max) { return max / a; }},
    {"max / amax from f64",
     [](float a, float max) {
       return static_cast<float>(static_cast<double>(max) / static_cast<double>(a));
     }},
    {"1 / fl(amax / max)", [](float a, float max) { return 1.0f / (a / max); }},
    {"max * fl(1 / amax)", [](float a, float max) { return max * (1.0f / a); }},
};

/// What may be made of a scale before codes are made with it.
struct OtherScale {
  const char* words;
  double (*of)(double scale);
  bool of_numbers = false;  ///< says nothing of bytes
};
constexpr OtherScale kOtherScales[] = {
    {"the scale rounded up to a power of two, which it is not",
     [](double s) { return std::exp2(std::ceil(std::log2(s))); }, true},
    {"the scale cut to a power of two, which it is not",
     [](double s) { return std::exp2(std::floor(std::log2(s))); }, true},
    {"half of the scale that came: values are twice theirs", [](double s) { return s / 2.0; }},
    {"twice the scale that came: values are half of theirs", [](double s) { return s * 2.0; }},
};

/// Every way in which x may have met its scale; the operator's own first.
std::vector<ValueCast> casts_of(const QuantiserCall& q) {
  const Tensor& scales = *q.scales.actual;
  const auto scale = [&scales](Index s) { return scale_value(scales, s); };
  const auto inverse = [&scales](Index s) {
    return 1.0f / static_cast<float>(scale_value(scales, s));
  };
  std::vector<ValueCast> list;
  if (q.own) {
    list.push_back(
        {"", [&](Index s) { return q.own->factors(*q.scales.actual, s, q.amax_of(s)).front(); },
         [&own = *q.own](float v, double by) { return own.value(v, static_cast<float>(by)); }});
  }
  const char* const rounded = "x is rounded to bf16 before the cast";
  if (size_of(scales.dtype()) == 1) {
    if (!q.own) list.push_back({"", scale, divided_in_f64});
    list.push_back(
        {rounded, scale, [](float v, double by) { return divided_in_f64(in_bf16(v), by); }});
  } else {
    const bool divides = q.own && q.own->divides();
    const auto beside = [inverse](float end) {
      return [=](Index s) { return std::nextafter(inverse(s), end); };
    };
    const std::string ulp = "x is multiplied by one unit in the last place ";
    list.insert(
        list.end(),
        {{divides ? "x is multiplied by 1 / scale rather than divided by it"
          : q.own ? "x is multiplied by 1 / scale, of the stored scale"
                  : "",
          inverse, times},
         {divides ? "" : "x is divided by the stored scale rather than multiplied", scale, divided},
         {"x is multiplied by the stored number, which is no scale but its inverse", scale, times},
         {ulp + "more than 1 / scale", beside(1e38f), times},
         {ulp + "less than 1 / scale", beside(0.0f), times},
         {rounded, inverse, [](float v, double by) { return times(in_bf16(v), by); }}});
  }
  const std::pair<const char*, Index> neighbours[] = {{"block before", -1},
                                                      {"block after", 1},
                                                      {"row before", -q.blocks.scale_columns},
                                                      {"row after", q.blocks.scale_columns}};
  for (const auto& [name, by] : neighbours) {
    if (q.blocks.tiled) break;
    const auto beside = [scale, by = by, n = scales.elements()](Index s) {
      return scale(s + by < 0 || s + by >= n ? s : s + by);
    };
    list.push_back(
        {std::string("codes are made with the scale of the ") + name, beside, divided_in_f64});
  }
  const std::string made = "codes are made with ";
  for (const OtherScale& other : kOtherScales) {
    if (other.of_numbers && size_of(scales.dtype()) == 1) continue;
    list.push_back({made + other.words, [scale, of = other.of](Index s) { return of(scale(s)); },
                    divided_in_f64});
  }
  const auto quotient = [&q, max = static_cast<float>(largest(q.format))](Index s) {
    return static_cast<double>(q.amax_of(s) / max);
  };
  list.push_back({made + "x / fl(amax / max), before the scale was rounded", quotient, divided});
  for (const Multiplier& m : kMultipliers) {
    const auto factor = [&q, of = m.of, max = static_cast<float>(largest(q.format))](Index s) {
      return of(q.amax_of(s), max);
    };
    list.push_back({made + m.words + ", before the scale was rounded", factor, times});
    list.push_back({made + "one unit in the last place more than " + m.words,
                    [factor](Index s) { return std::nextafter(factor(s), 1e38f); }, times});
  }
  return list;
}

/// Codes that are not explained, spread evenly.
std::vector<Index> spread(const Output& codes) {
  std::vector<Index> found;
  const Index n = codes.compared_rows * codes.columns;
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

std::vector<CodePair> pairs_of(const QuantiserCall& q, const ValueCast& cast,
                               const std::vector<Index>& elements) {
  const ElementReader read(q.format);
  std::vector<CodePair> pairs;
  for (const Index i : elements) {
    if (q.blocks.scale_of(i) < 0) continue;
    const double v = cast.value(q.blocks, i);
    const Element c = read(q.codes.actual_bits(i));
    if (!std::isfinite(v) || c.nan || c.infinite) continue;
    pairs.push_back({v, static_cast<std::size_t>(q.codes.actual_bits(i) & 0x7F)});
  }
  return pairs;
}

/// How a row fits where fits(first, last, scale) says so of every block of it.
template <typename Fits>
RowFit fit_of_row(const QuantiserCall& q, Index row, const Fits& fits) {
  const Output& codes = q.codes;
  RowFit found;
  const Index end = (row + 1) * codes.columns;
  for (Index first = row * codes.columns; first < end; first += q.blocks.block_columns) {
    const Index last = std::min(first + q.blocks.block_columns, end);
    const Index scale = q.blocks.scale_of(first);
    if (scale < 0 ? codes.differs_in(first, last - first) : !fits(first, last, scale))
      return {false, 0};
    for (Index i = first; i < last; ++i) found.fixed += codes.differs(i);
  }
  return found;
}

/// Whether a row holds the codes that the rule asked for makes under the actual scales.
RowFit own_fit(const QuantiserCall& q, Index row) {
  const Output& codes = q.codes;
  return fit_of_row(q, row, [&](Index first, Index last, Index s) {
    const std::vector<float> factors = q.own->factors(*q.scales.actual, s, q.amax_of(s));
    return std::any_of(factors.begin(), factors.end(), [&](float factor) {
      for (Index i = first; i < last; ++i) {
        const Mark mark = nth(codes.marks, i);
        const float v = q.blocks.value(i);
        // Under another scale an infinity may be another code, as the rule says, or what it was.
        const bool kept = mark == Mark::explained || (!std::isfinite(v) && mark == Mark::same);
        if (!kept && q.own->code(v, factor) != codes.actual_bits(i)) return false;
      }
      return true;
    });
  });
}

/// How the codes of a row fit one of some rules.  Of values that are no number they say nothing.
RowFit rules_fit(const QuantiserCall& q, Index row, const ValueCast& cast, const Grid& grid,
                 const std::vector<CodeRule>& rules) {
  return fit_of_row(q, row, [&](Index first, Index last, Index s) {
    const double factor = cast.factor(s);
    for (Index i = first; i < last; ++i) {
      const Mark mark = nth(q.codes.marks, i);
      if (mark == Mark::explained) continue;
      const double v = cast.made(q.blocks.value(i), factor);
      const auto gives = [&](const CodeRule& r) {
        return r.gives(grid, v, q.codes.actual_bits(i));
      };
      if (!std::isfinite(v) ? mark != Mark::same : std::none_of(rules.begin(), rules.end(), gives))
        return false;
    }
    return true;
  });
}

/// The least magnitude that came as NaN or infinity; 0 if none did, or one below the largest code.
double least_lost(const QuantiserCall& q, const ValueCast& cast, const Grid& grid) {
  double least = HUGE_VAL;
  for (Index i = 0; i < q.codes.compared_rows * q.codes.columns; ++i) {
    if (nth(q.codes.marks, i) == Mark::explained) continue;
    if (!grid.no_number(q.codes.actual_bits(i)) || q.blocks.scale_of(i) < 0) continue;
    const double v = std::abs(cast.value(q.blocks, i));
    if (std::isfinite(v)) least = std::min(least, v);
  }
  return least <= grid.value(grid.top()) || least == HUGE_VAL ? 0.0 : least;
}

/// What the rule asked for does to a value once it is scaled.
CodeRule rule_asked(const QuantiserCall& q, const Grid& grid) {
  CodeRule rule{Rounding::even, grid.top()};
  if (!q.own) return rule;
  const ElementRule& element = q.own->element();
  rule.rounding = element.rounding;
  if (q.format == Dtype::e4m3fnuz && element.fnuz_max > 0)
    rule.clamp = grid.round(element.fnuz_max, Rounding::zero);
  if (element.overflow == Overflow::nonfinite) rule.lost = grid.value(grid.top());
  return rule;
}

/// "; equivalently, x is multiplied by one unit in the last place more than 1 / scale": whether
/// that does what another rounding does, as it may where all that differ are ties.
std::string step_that_does_the_same(const QuantiserCall& q, const std::vector<Index>& sample,
                                    const Grid& grid, const CodeRule& asked) {
  const Tensor& scales = *q.scales.actual;
  if (size_of(scales.dtype()) == 1 || q.own->divides()) return {};
  for (const auto& [words, end] : {std::pair{"more", HUGE_VALF}, std::pair{"less", 0.0f}}) {
    const bool all = std::all_of(sample.begin(), sample.end(), [&, end = end](Index i) {
      const Index s = q.blocks.scale_of(i);
      const float x = s < 0 ? 0.0f : q.blocks.value(i);
      if (s < 0 || !std::isfinite(x)) return true;
      const float factor = std::nextafter(q.own->factors(scales, s, q.amax_of(s)).front(), end);
      return asked.gives(grid, static_cast<double>(q.own->value(x, factor)),
                         q.codes.actual_bits(i));
    });
    if (all) {
      return std::string("; equivalently, x is multiplied by one unit in the last place ") + words +
             " than 1 / scale";
    }
  }
  return {};
}

/// Whether a value lies beyond what rounds to the largest code.
bool has_too_large(const Grid& grid, const std::vector<CodePair>& pairs) {
  const double end = 1.5 * grid.value(grid.top()) - 0.5 * grid.value(grid.top() - 1);
  return std::any_of(pairs.begin(), pairs.end(),
                     [end](const CodePair& p) { return std::abs(p.v) > end; });
}

}  // namespace

bool codes_follow(const QuantiserCall& q) {
  for (Index row = 0; row < q.codes.compared_rows; ++row) {
    if (!own_fit(q, row).fits) return false;
  }
  return true;
}

namespace {

/// Of all blocks, by one way in which x met its scale and one rule of rounding.
std::optional<Claim> claim_rule(Output& codes, const QuantiserCall& q) {
  const auto claim = [&codes](const auto& fit, const char* id, const std::string& words,
                              Index least = 2) { return claim_fits(codes, fit, id, words, least); };
  const auto claim_follows = [&](const auto& fit) {
    auto found = claim(fit, "codes.follow", "codes follow from the scales");
    if (found) found->kind = FindingKind::follows;
    return found;
  };
  const bool scales_differ = q.scales.differing > 0;
  if (q.own && scales_differ) {
    if (auto found = claim_follows([&](Index row) { return own_fit(q, row); })) return found;
  }
  const Grid grid(q.format);
  const CodeRule asked = rule_asked(q, grid);
  const std::vector<Index> sample = spread_and_left(codes);
  for (const ValueCast& cast : casts_of(q)) {
    const auto by = [&](std::vector<CodeRule> rules) {
      return
          [&, rules = std::move(rules)](Index row) { return rules_fit(q, row, cast, grid, rules); };
    };
    const std::vector<CodePair> pairs = pairs_of(q, cast, sample);
    if (pairs.size() < kLeastPairs) return std::nullopt;
    std::optional<CodeRule> rule = fit(grid, pairs);
    if (!rule && cast.words.empty() && rounds_at_random(grid, pairs_of(q, cast, spread(codes)))) {
      const auto either = by({{Rounding::zero, grid.top()}, {Rounding::away, grid.top()}});
      if (auto found = claim(either, "codes.random", "codes are" + std::string(kAtRandom), 64))
        return found;
    }
    if (!rule) continue;
    rule->lost = least_lost(q, cast, grid);
    std::string words = cast.words;
    if (const std::string more = rule->words(grid, asked); !more.empty())
      list_words(words, more, "; ");
    if (asked.lost > 0 && rule->lost == 0 && has_too_large(grid, pairs))
      list_words(words, "what is too large for a code is clamped, rather than NaN or infinity",
                 "; ");
    if (words.empty()) {
      if (!scales_differ) return std::nullopt;
      if (auto found = claim_follows(by({*rule}))) return found;
      continue;
    }
    if (q.own && cast.words.empty() && rule->rounding != asked.rounding)
      words += step_that_does_the_same(q, sample, grid, asked);
    if (auto found = claim(by({*rule}), "codes.rule", words)) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Claim> claim_codes(Output& codes, const QuantiserCall& q) {
  auto claim = claim_rule(codes, q);
  return claim ? claim : claim_part_of_blocks(codes, q);
}

}  // namespace mxo
