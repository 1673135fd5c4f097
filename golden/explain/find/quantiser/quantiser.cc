// A call of a quantiser, one block at a time: amax to scale, scale to factors, value to code; then
// its scales and codes, one after the other; blocks of zeros, and what else is seen.
#include "golden/explain/find/quantiser/quantiser.h"

#include <cstdio>
#include <limits>

#include "formats/error.h"
#include "golden/explain/alter/alterations.h"
#include "golden/explain/find/finding.h"
#include "golden/explain/find/output/recover.h"

namespace mxo {
namespace {

bool same_bits(float a, float b) {
  return bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b);
}

std::optional<OwnRule> rule_asked(const Call& call, Dtype x, Dtype format, Dtype scales) {
  try {
    const ScaleChoice choice = scale_choice(call.op, call.set);
    if (choice.scale != scales) return std::nullopt;
    ScaleRule rule = choice.rule;
    rule.element.rounding = rounding_of(call.op, call.set, rule.element.rounding);
    rule.element.overflow = overflow_of(call.op, call.set, rule.element.overflow);
    return OwnRule(rule_for(rule, x, format), format, scales, x);
  } catch (const Error&) {
    return std::nullopt;  // a call of another kind, or one that is refused
  }
}

/// Whether a rule gives codes as they are expected from the scales that are expected.
bool gives_expected(const OwnRule& own, const QuantiserCall& q) {
  const Index n = q.codes.compared_rows * q.codes.columns;
  for (Index i = 0; i < n; i += std::max<Index>(1, n / 4096) | 1) {
    const Index s = q.blocks.scale_of(i);
    const float x = s < 0 ? 0.0f : q.blocks.value(i);
    if (s < 0 || !std::isfinite(x)) continue;
    const std::vector<float> factors = own.factors(*q.scales.expected, s, q.amax_of(s));
    const auto gives = [&](float factor) {
      return own.code(x, factor) == q.codes.expected_bits(i);
    };
    if (std::none_of(factors.begin(), factors.end(), gives)) return false;
  }
  return true;
}

constexpr Index kLeastOthers = 8;  ///< blocks that are not such, beside those that are

/// Blocks whose amax no rule may have been made for.
struct Degenerate {
  const char* id;
  const char* words;
  bool (*holds)(const QuantiserCall& q, Index scale);
  bool zero = false;
};
bool is_least(const QuantiserCall& q, Index s) {
  return size_of(q.scales.expected->dtype()) == 1 && q.amax_of(s) > 0.0f &&
         q.scales.expected_bits(s) == 0;
}
constexpr Degenerate kDegenerate[] = {
    {"zero", "that are all zero",
     [](const QuantiserCall& q, Index s) { return q.amax_of(s) == 0.0f; }, true},
    {"tiny", "whose scale is the least, 2^-127, but that are not zero", is_least},
    {"tiny", "whose scale lies below the least, 2^-127, but that are not zero",
     [](const QuantiserCall& q, Index s) {
       return is_least(q, s) && static_cast<double>(q.amax_of(s)) <= q.max * 0x1p-128;
     }},
    {"nan", "that hold a NaN or an infinity",
     [](const QuantiserCall& q, Index s) { return std::isnan(q.amax_of(s)); }},
};

}  // namespace

F32Scale OwnRule::f32(float amax) const {
  const float most = x_ == Dtype::bf16  ? largest_finite<BF16>()
                     : x_ == Dtype::f16 ? largest_finite<F16>()
                                        : largest_finite<float>();
  return visit_minifloat8(format_, [&](auto tag) {
    return f32_scale<decltype(tag)::type::spec>(amax, rule_.f32, most);
  });
}

float OwnRule::stored(float amax) const {
  if (scales_ == Dtype::f32) return f32(amax).stored;
  return visit_minifloat8(format_, [&](auto tag) {
    return decode(shared_scale<decltype(tag)::type::spec>(amax, rule_.mode, rule_.e8m0));
  });
}

float OwnRule::factor(float amax) const {
  if (scales_ == Dtype::f32) return f32(amax).factor;
  return visit_minifloat8(format_, [&](auto tag) {
    return factor_of(shared_scale<decltype(tag)::type::spec>(amax, rule_.mode, rule_.e8m0),
                     rule_.e8m0.infinity);
  });
}

std::vector<float> OwnRule::factors(const Tensor& scales, Index s, float amax) const {
  if (scales_ == Dtype::e8m0) {
    const E8M0 scale{static_cast<std::uint8_t>(bits_at(scales, s))};
    return {factor_of(scale, rule_.e8m0.infinity)};
  }
  std::vector<float> found;
  const float stored = scales.as<float>()[s];
  if (const F32Scale own = f32(amax); same_bits(own.stored, stored)) found.push_back(own.factor);
  if (!gives_multiplier(rule_.f32.quotient)) {
    const float factor = given_scale(stored, rule_.f32).factor;
    found.push_back(factor);
    if (rule_.f32.code == CodeScaling::own_quotient ||
        rule_.f32.code == CodeScaling::own_reciprocal) {
      // x is multiplied by what the stored scale alone does not tell.
      found.push_back(std::nextafter(factor, HUGE_VALF));
      found.push_back(std::nextafter(factor, 0.0f));
    }
    return found;
  }
  // Several multipliers may have one inverse; without one, its own.
  const float inverse = reciprocal_of(stored);
  float m = std::nextafter(std::nextafter(inverse, 0.0f), 0.0f);
  for (int step = 0; step < 5; ++step, m = std::nextafter(m, HUGE_VALF))
    if (same_bits(given_scale(m, rule_.f32).stored, stored)) found.push_back(m);
  if (found.empty()) found.push_back(inverse);
  return found;
}

bool OwnRule::rounds_to_powers() const {
  return scales_ == Dtype::f32 && rule_.f32.power_of_2 != PowerOfTwo::none;
}

std::vector<std::pair<std::string, OwnRule>> OwnRule::other_limits() const {
  std::vector<std::pair<std::string, OwnRule>> list;
  if (scales_ != Dtype::f32) return list;
  if (rule_.f32.amax_max > 0.0) {
    list.emplace_back("the upper bound of amax is left out", *this);
    list.back().second.rule_.f32.amax_max = 0.0;
  }
  for (const double floor : {0.0, 1e-12, 1e-10}) {
    if (rule_.f32.epsilon <= floor) continue;
    list.emplace_back(floor == 0.0 ? "the floor of amax, epsilon, is left out"
                                   : "the floor of amax, epsilon, is " + number(floor, 3),
                      *this);
    list.back().second.rule_.f32.epsilon = floor;
  }
  return list;
}

bool OwnRule::divides() const {
  return scales_ == Dtype::f32 && !gives_multiplier(rule_.f32.quotient) &&
         rule_.f32.code == CodeScaling::divide;
}

float OwnRule::value(float x, float factor) const {
  return scales_ == Dtype::e8m0 ? x * factor : scaled(x, factor, rule_.f32.code);
}

std::uint8_t OwnRule::code(float x, float factor) const {
  return visit_minifloat8(format_, [&](auto tag) {
    return encode_element<decltype(tag)::type::spec>(value(x, factor), rule_.element).bits;
  });
}

std::string number(double v, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*g", digits, v);
  return text;
}

std::string scale_in_words(const Tensor& scales, Index i) {
  const double s = scale_value(scales, i);
  if (std::isnan(s)) return "NaN";
  if (std::isinf(s)) return "infinity";
  int e = 0;
  const bool power = std::frexp(s, &e) == 0.5;
  const std::string text = !power ? number(s, 9) : e == 1 ? "1" : "2^" + std::to_string(e - 1);
  if (size_of(scales.dtype()) != 1) return text;
  return text + " (byte " + std::to_string(bits_at(scales, i)) + ")";
}

std::optional<QuantiserCall> QuantiserCall::of(const Call& call,
                                               const std::vector<Output>& outputs) {
  const Output* codes = output_named(outputs, "codes");
  const Output* scales = output_named(outputs, "scales");
  if (codes == nullptr || scales == nullptr || codes->left + scales->left == 0) return std::nullopt;
  const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
  const Dtype format = call.set.format("format", "e4m3");
  if (!blocks || !is_minifloat8(format)) return std::nullopt;
  QuantiserCall q{*codes,      *scales, format, *blocks, largest(format), mxo::amax_of(*blocks),
                  std::nullopt};
  // Scales that are not compared tell nothing.
  for (Index s = scales->compared_rows * scales->columns; s < std::ssize(q.amax); ++s)
    nth(q.amax, s) = std::numeric_limits<float>::quiet_NaN();
  const bool bytes = size_of(scales->expected->dtype()) == 1;
  q.own = rule_asked(call, blocks->x->dtype(), format, bytes ? Dtype::e8m0 : Dtype::f32);
  if (q.own && !gives_expected(*q.own, q)) q.own.reset();
  return q;
}

void mark_what_follows(const Call& call, std::vector<Output>& outputs) {
  const Output* scales = output_named(outputs, "scales");
  Output* codes = output_named(outputs, "codes");
  if (scales == nullptr || codes == nullptr || scales->left == 0 || codes->left == 0) return;
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (q && q->own) codes->follows = codes_follow(*q);
}

Claims recover_quantiser(const Call& call, std::vector<Output>& outputs) {
  std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (!q) return {};
  Output& codes = *output_named(outputs, "codes");
  Output& scales = *output_named(outputs, "scales");
  const Snapshot before(outputs);
  Claims claims;
  if (scales.left > 0) {
    auto claim = claim_scales(scales, *q);
    if (claim) claims.push_back(std::move(*claim));
    const std::string seen = claim || !codes.follows ? "" : scales_in_words(*q, true);
    if (!seen.empty())
      claims = claim_place(scales, {"scale.seen", FindingKind::symptom},
                           [&](const Place&) { return seen; });
  }
  if (codes.left == 0) return claims;
  std::optional<Claim> claim = claim_codes(codes, *q);
  if (!claim) {
    // One scale beside codes of other values is the scale of these values.
    const bool one = !claims.empty() && claims.front().id == "scale.one";
    if (!one || 2 * codes.left <= compared(codes)) return claims;
    before.restore(outputs);
    return {};
  }
  if (claim->kind != FindingKind::follows) {
    claims.push_back(std::move(*claim));
  } else if (claims.empty()) {
    // Codes that follow from scales nobody can explain: the scales are what is wrong.
    claim->sentence = "codes follow from the scales that came, and these are not the ones expected";
    claims.push_back(std::move(*claim));
  } else {
    claims.front().elements += claim->elements;
    claims.front().where.tensor = "scales, codes";
  }
  return claims;
}

namespace {

/// Blocks of a kind, where all of these and no others came as NaN, or under one scale.
Claims claim_degenerate(const QuantiserCall& q, const Degenerate& kind,
                        std::vector<Output>& outputs) {
  Output& codes = *output_named(outputs, "codes");
  Output& scales = *output_named(outputs, "scales");
  const std::vector<BlockPlace> places = places_of(q.blocks);
  const auto is_such = [&](Index s) {
    return s >= 0 && nth(places, s).rows > 0 && kind.holds(q, s);
  };
  const std::vector<Index> all = range_of(std::ssize(places));
  const auto first = std::ranges::find_if(all, is_such);
  const Index others =
      std::ranges::count_if(all, [&](Index s) { return nth(places, s).rows > 0 && !is_such(s); });
  if (first == all.end() || others < kLeastOthers) return {};
  // One scale of all of them, where no other differs; if they are no numbers, that of zeros.
  const double one = scale_value(*scales.actual, *first);
  const bool told = !std::isnan(q.amax_of(*first)) || scales.actual_bits(*first) == 0;
  const bool scale = scales.left > 0 && told && std::ranges::all_of(all, [&](Index s) {
                       const double here = scale_value(*scales.actual, s);
                       return is_such(s) ? here == one || (std::isnan(here) && std::isnan(one))
                                         : !scales.differs(s);
                     });
  const ElementReader read(q.format);
  const Index n = codes.expected->elements();
  bool nan = true;
  for (Index i = 0; i < n && nan; ++i)
    nan = is_such(q.blocks.scale_of(i)) == (codes.differs(i) && read(codes.actual_bits(i)).nan);
  if (!scale && !nan) return {};
  const bool nan_scale = scale && std::isnan(one);
  Claim claim{std::string(kind.id) + "_blocks." + (nan || nan_scale ? "nan" : "scale"),
              filled("blocks of x {}, and no others, have ", kind.words),
              {}};
  claim.where.tensor = !scale ? "codes" : nan ? "scales, codes" : "scales";
  claim.kind = FindingKind::symptom;
  if (nan) claim.sentence += std::string("codes that are NaN") + (scale ? " and " : "");
  if (scale)
    claim.sentence += "a scale of " + scale_in_words(*scales.actual, *first) + " rather than " +
                      scale_in_words(*scales.expected, *first);
  if (kind.zero && (nan || nan_scale)) {
    claim.sentence += ": 0 / 0, for amax has no floor";
    // Neighbouring rows as a whole are padding, which nobody may write.
    Index end = 0;
    Index zeros = 0;
    for (const Index s : all) {
      const BlockPlace& place = nth(places, s);
      if (!is_such(s)) continue;
      end = std::max(end, place.row + place.rows);
      zeros += place.rows * place.columns;
    }
    if (zeros == (end - nth(places, *first).row) * q.blocks.columns)
      claim.sentence += ", or rows that were never written";
  } else if (const auto rule =
                 kind.zero ? rule_of(q.amax, *scales.actual, q.format) : std::nullopt) {
    claim.sentence += rule->stacks;
  }
  const Index before = left_of(outputs);
  if (scale) scales.mark_all();
  for (Index i = 0; i < n && nan; ++i)
    if (is_such(q.blocks.scale_of(i))) codes.mark_explained(i);
  claim.elements = static_cast<double>(before - left_of(outputs));
  return {claim};
}

}  // namespace

Claims recover_degenerate_blocks(const Call& call, std::vector<Output>& outputs) {
  const Output* codes = output_named(outputs, "codes");
  const Output* scales = output_named(outputs, "scales");
  const Dtype format = call.set.format("format", "e4m3");
  if (codes == nullptr || scales == nullptr || !is_minifloat8(format)) return {};
  // Beside scales that are right, codes that are NaN are all that differs.
  const Index end = codes->compared_rows * codes->columns;
  const Index first = codes->next_difference(0, end);
  const bool nan = first < end && ElementReader(format)(codes->actual_bits(first)).nan;
  if (scales->left == 0 && !nan) return {};
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  if (!q) return {};
  for (const Degenerate& kind : kDegenerate)
    if (Claims claims = claim_degenerate(*q, kind, outputs); !claims.empty()) return claims;
  return {};
}

std::string scales_seen(const Call& call, const std::vector<Output>& outputs) {
  const Output* scales = output_named(outputs, "scales");
  if (scales == nullptr || scales->left == 0) return {};
  const std::optional<QuantiserCall> q = QuantiserCall::of(call, outputs);
  return q ? scales_in_words(*q, false) : std::string();
}

}  // namespace mxo
