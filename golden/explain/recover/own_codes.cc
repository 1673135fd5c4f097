// One block: amax to scale, scale to factors, value to code.
#include "golden/explain/recover/own_codes.h"

#include <algorithm>
#include <cmath>

#include "formats/error.h"
#include "golden/judge/elements.h"
#include "ops/catalogue/scale_parameters.h"

namespace mxo {
namespace {

bool same_bits(float a, float b) {
  return bit_cast<std::uint32_t>(a) == bit_cast<std::uint32_t>(b);
}

std::optional<ScaleRule> rule_asked(const Call& call, Dtype x, Dtype format, Dtype scales) {
  try {
    const ScaleChoice choice = scale_choice(call.op, call.set);
    if (choice.scale != scales) return std::nullopt;
    ScaleRule rule = choice.rule;
    rule.element.rounding = rounding_of(call.op, call.set, rule.element.rounding);
    return rule_for(rule, x, format);
  } catch (const Error&) {
    return std::nullopt;  // a call of another kind, or one that is refused
  }
}

}  // namespace

F32Scale OwnCodes::f32(float amax) const {
  F32Scale scale{};
  const float most = x_ == Dtype::bf16  ? largest_finite<BF16>()
                     : x_ == Dtype::f16 ? largest_finite<F16>()
                                        : largest_finite<float>();
  visit_minifloat8(format_, [&](auto tag) {
    constexpr FormatSpec kSpec = decltype(tag)::type::spec;
    scale = f32_scale<kSpec>(amax, rule_.f32, most);
  });
  return scale;
}

float OwnCodes::stored(float amax) const {
  if (size_of(scales_) != 1) return f32(amax).stored;
  float scale = 0.0f;
  visit_minifloat8(format_, [&](auto tag) {
    constexpr FormatSpec kSpec = decltype(tag)::type::spec;
    scale = decode(shared_scale<kSpec>(amax, rule_.mode, rule_.e8m0));
  });
  return scale;
}

Factors OwnCodes::factors(const Tensor& scales, Index s, float amax) const {
  Factors found;
  if (size_of(scales_) == 1) {
    const E8M0 scale{static_cast<std::uint8_t>(bits_at(scales, s))};
    found.add(factor_of(scale, rule_.e8m0.infinity));
    return found;
  }
  const float stored = scales.as<float>()[s];
  if (const F32Scale own = f32(amax); same_bits(own.stored, stored)) found.add(own.factor);
  if (!gives_multiplier(rule_.f32.quotient)) {
    const float factor = given_scale(stored, rule_.f32).factor;
    found.add(factor);
    if (has_own_factor()) {
      found.add(std::nextafter(factor, HUGE_VALF));
      found.add(std::nextafter(factor, 0.0f));
    }
    return found;
  }
  // Several multipliers may have one inverse; without one, its own.
  const float inverse = reciprocal_of(stored);
  float m = std::nextafter(std::nextafter(inverse, 0.0f), 0.0f);
  for (int step = 0; step < 5; ++step, m = std::nextafter(m, HUGE_VALF)) {
    if (same_bits(given_scale(m, rule_.f32).stored, stored)) found.add(m);
  }
  if (found.n == 0) found.add(inverse);
  return found;
}

bool OwnCodes::divides() const {
  return size_of(scales_) != 1 && !gives_multiplier(rule_.f32.quotient) &&
         rule_.f32.code == CodeScaling::divide;
}

bool OwnCodes::has_own_factor() const {
  return size_of(scales_) != 1 && !gives_multiplier(rule_.f32.quotient) &&
         (rule_.f32.code == CodeScaling::own_quotient ||
          rule_.f32.code == CodeScaling::own_reciprocal);
}

float OwnCodes::value(float x, float factor) const {
  return size_of(scales_) == 1 ? x * factor : scaled(x, factor, rule_.f32.code);
}

std::uint8_t OwnCodes::code(float x, float factor) const {
  std::uint8_t code = 0;
  visit_minifloat8(format_, [&](auto tag) {
    constexpr FormatSpec kSpec = decltype(tag)::type::spec;
    code = encode_element<kSpec>(value(x, factor), rule_.element).bits;
  });
  return code;
}

std::optional<OwnCodes> OwnCodes::of(const Call& call, const Output& codes, const Blocks& blocks,
                                     const Output& scales, const std::vector<float>& amax) {
  const Dtype format = call.set.format("format", "e4m3");
  const Dtype held = size_of(scales.expected->dtype()) == 1 ? Dtype::e8m0 : Dtype::f32;
  const auto rule = rule_asked(call, blocks.x->dtype(), format, held);
  if (!rule) return std::nullopt;
  OwnCodes own(*rule, format, held, blocks.x->dtype());
  const Index n = codes.owed * codes.columns;
  for (Index i = 0; i < n; i += std::max<Index>(1, n / 4096) | 1) {
    const Index s = blocks.scale_of(i);
    if (s < 0 || !std::isfinite(blocks.value(i))) continue;
    const Factors factors = own.factors(*scales.expected, s, amax[static_cast<std::size_t>(s)]);
    const bool gives =
        std::any_of(factors.list.begin(), factors.list.begin() + factors.n,
                    [&](float f) { return own.code(blocks.value(i), f) == codes.wanted(i); });
    if (!gives) return std::nullopt;
  }
  return own;
}

}  // namespace mxo
