// Where two scale rules part.
#include "tools/rule_pairs.h"

#include <fmt/core.h>

#include "formats/error.h"

namespace mxo::tools {
namespace {

constexpr std::uint32_t kInfinity = 0x7F800000u;
constexpr std::uint32_t kBf16Step = 0x10000u;

bool has_power(const ScaleRuleRow& row, std::string_view power) {
  return row.powers.find(power) != std::string_view::npos;
}

ScaleRule asked(const ScaleRuleRow& row, std::string_view power) {
  ScaleRule rule = rule_for(row.rule, Dtype::bf16, Dtype::e4m3);
  rule.mode = ScaleMode::rceil;
  if (power == "none") rule.f32.power_of_2 = PowerOfTwo::none;
  if (power == "up") rule.f32.power_of_2 = row.up;
  if (row.scale == ScaleType::e8m0) rule.e8m0 = row.rule.e8m0;
  return rule;
}

F32Scale f32_of(const ScaleRule& rule, float amax) {
  return f32_scale<kE4M3>(amax, rule.f32, largest_finite<BF16>());
}
std::uint8_t byte_of(const ScaleRule& rule, std::uint32_t amax) {
  return shared_scale<kE4M3>(bit_cast<float>(amax), rule.mode, rule.e8m0).bits;
}
std::uint8_t code_of(const ScaleRule& rule, float factor, float x) {
  return encode_element<kE4M3>(scaled(x, factor, rule.f32.code), rule.element).bits;
}

void add_range(RulePair& pair, std::uint32_t first, std::uint32_t last, std::uint32_t step) {
  pair.amaxes += (last - first) / step + 1;
  if (!pair.ranges.empty() && pair.ranges.back().last + step == first) {
    pair.ranges.back().last = last;
  } else {
    pair.ranges.push_back({first, last});
  }
}

/// Adds where the byte of a rule changes within a binade; there is one such place at most, and one
/// more where a quotient becomes 0.
void add_steps(const ScaleRule& rule, std::uint32_t first, std::uint32_t last,
               std::vector<std::uint32_t>& steps) {
  if (byte_of(rule, first) == byte_of(rule, last)) return;
  std::uint32_t same = first;
  std::uint32_t other = last;
  while (other - same > 1) {
    const std::uint32_t middle = same + (other - same) / 2;
    (byte_of(rule, middle) == byte_of(rule, first) ? same : other) = middle;
  }
  steps.push_back(other);
}

void compare_bytes(RulePair& pair, const ScaleRule& a, const ScaleRule& b) {
  pair.of_amaxes = std::uint64_t{kInfinity} + 1;
  for (std::uint32_t field = 0; field <= 0xFF; ++field) {
    const std::uint32_t begin = field << 23;
    const std::uint32_t past = field == 0xFF ? kInfinity + 1 : begin + 0x800000u;
    std::vector<std::uint32_t> steps;
    add_steps(a, begin, past - 1, steps);
    add_steps(b, begin, past - 1, steps);
    if (steps.size() == 2 && steps[0] > steps[1]) std::swap(steps[0], steps[1]);
    std::uint32_t from = begin;
    steps.push_back(past);
    for (const std::uint32_t step : steps) {
      if (from < step && byte_of(a, from) != byte_of(b, from)) add_range(pair, from, step - 1, 1);
      from = step;
    }
  }
}

void compare_f32(RulePair& pair, const ScaleRule& a, const ScaleRule& b) {
  const auto same = [](float x, float y) {
    return bit_cast<std::uint32_t>(x) == bit_cast<std::uint32_t>(y);
  };
  for (std::uint32_t amax = 0; amax <= kInfinity; amax += kBf16Step) {
    ++pair.of_amaxes;
    const float value = bit_cast<float>(amax);
    if (!same(f32_of(a, value).stored, f32_of(b, value).stored)) {
      add_range(pair, amax, amax, kBf16Step);
    }
  }
  for (std::uint32_t amax = 0x3F800000u; amax < 0x40000000u; amax += kBf16Step) {
    const F32Scale by_a = f32_of(a, bit_cast<float>(amax));
    const F32Scale by_b = f32_of(b, bit_cast<float>(amax));
    if (!same(by_a.stored, by_b.stored)) continue;
    for (std::uint32_t x = 0x36800000u; x <= amax; x += kBf16Step) {
      ++pair.of_elements;
      const float value = bit_cast<float>(x);
      if (code_of(a, by_a.factor, value) == code_of(b, by_b.factor, value)) continue;
      if (pair.elements++ > 0) continue;
      pair.amax = bit_cast<float>(amax);
      pair.x = value;
    }
  }
}

void add_pairs(const ScaleRuleRow& a, const ScaleRuleRow& b, std::vector<RulePair>& pairs) {
  if (a.scale != b.scale) return;
  if (a.scale == ScaleType::e8m0) {
    pairs.push_back({&a, &b, {}});
    compare_bytes(pairs.back(), asked(a, {}), asked(b, {}));
    return;
  }
  for (const std::string_view power : {"none", "up"}) {
    if (!has_power(a, power) || !has_power(b, power)) continue;
    pairs.push_back({&a, &b, power});
    compare_f32(pairs.back(), asked(a, power), asked(b, power));
  }
}

/// The first row of each name and type of scale.
std::vector<const ScaleRuleRow*> first_rows() {
  std::vector<const ScaleRuleRow*> rows;
  for (const ScaleRuleRow& row : kScaleRules) {
    bool seen = false;
    for (const ScaleRuleRow* other : rows) {
      seen = seen || (other->name == row.name && other->scale == row.scale);
    }
    if (!seen) rows.push_back(&row);
  }
  return rows;
}

}  // namespace

std::vector<RulePair> rule_pairs(std::string_view a, std::string_view b) {
  std::vector<RulePair> pairs;
  for (const ScaleRuleRow& one : kScaleRules) {
    for (const ScaleRuleRow& other : kScaleRules) {
      if (one.name == a && other.name == b) add_pairs(one, other, pairs);
    }
  }
  return pairs;
}

std::vector<RulePair> rule_pairs() {
  std::vector<RulePair> pairs;
  const auto rows = first_rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) add_pairs(*rows[i], *rows[j], pairs);
  }
  return pairs;
}

std::string scales_at(const RulePair& pair, std::uint32_t amax) {
  const ScaleRule a = asked(*pair.a, pair.power_of_2);
  const ScaleRule b = asked(*pair.b, pair.power_of_2);
  if (pair.power_of_2.empty()) {
    return fmt::format("{:02X} and {:02X}", byte_of(a, amax), byte_of(b, amax));
  }
  const float value = bit_cast<float>(amax);
  return fmt::format("{:08X} and {:08X}", bit_cast<std::uint32_t>(f32_of(a, value).stored),
                     bit_cast<std::uint32_t>(f32_of(b, value).stored));
}

std::string codes_at(const RulePair& pair, float amax, float x) {
  const ScaleRule a = asked(*pair.a, pair.power_of_2);
  const ScaleRule b = asked(*pair.b, pair.power_of_2);
  return fmt::format("{:02X} and {:02X}", code_of(a, f32_of(a, amax).factor, x),
                     code_of(b, f32_of(b, amax).factor, x));
}

}  // namespace mxo::tools
