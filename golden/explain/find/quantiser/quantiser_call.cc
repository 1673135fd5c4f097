// One block: amax to scale, scale to factors, value to code.
#include "golden/explain/find/quantiser/quantiser_call.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "formats/error.h"
#include "golden/judge/elements.h"
#include "ops/catalogue/scale_parameters.h"

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
    return OwnRule(rule_for(rule, x, format), format, scales, x);
  } catch (const Error&) {
    return std::nullopt;  // a call of another kind, or one that is refused
  }
}

/// Whether a rule gives codes as they are expected from the scales that are expected.
bool gives_expected(const OwnRule& own, const QuantiserCall& q) {
  const Index n = q.codes.owed * q.codes.columns;
  for (Index i = 0; i < n; i += std::max<Index>(1, n / 4096) | 1) {
    const Index s = q.blocks.scale_of(i);
    const float x = s < 0 ? 0.0f : q.blocks.value(i);
    if (s < 0 || !std::isfinite(x)) continue;
    const std::vector<float> factors = own.factors(*q.scales.expected, s, q.amax_of(s));
    const auto gives = [&](float factor) { return own.code(x, factor) == q.codes.wanted(i); };
    if (std::none_of(factors.begin(), factors.end(), gives)) return false;
  }
  return true;
}

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
  for (int step = 0; step < 5; ++step, m = std::nextafter(m, HUGE_VALF)) {
    if (same_bits(given_scale(m, rule_.f32).stored, stored)) found.push_back(m);
  }
  if (found.empty()) found.push_back(inverse);
  return found;
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

std::optional<QuantiserCall> QuantiserCall::of(const Call& call,
                                               const std::vector<Output>& outputs) {
  const Output* codes = output_named(outputs, "codes");
  const Output* scales = output_named(outputs, "scales");
  if (codes == nullptr || scales == nullptr || codes->left + scales->left == 0) return std::nullopt;
  const std::optional<Blocks> blocks = blocks_of(call, *codes, *scales->expected);
  const Dtype format = call.set.format("format", "e4m3");
  if (!blocks || !is_minifloat8(format)) return std::nullopt;
  QuantiserCall q{*codes, *scales, format, *blocks, mxo::amax_of(*blocks), std::nullopt};
  const bool bytes = size_of(scales->expected->dtype()) == 1;
  q.own = rule_asked(call, blocks->x->dtype(), format, bytes ? Dtype::e8m0 : Dtype::f32);
  if (q.own && !gives_expected(*q.own, q)) q.own.reset();
  return q;
}

}  // namespace mxo
