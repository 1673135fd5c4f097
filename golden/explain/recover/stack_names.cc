// Rows that give the scales that came.
#include "golden/explain/recover/stack_names.h"

#include <cmath>
#include <optional>

#include "formats/scale_rules.h"

namespace mxo {
namespace {

bool lists(std::string_view list, std::string_view name) {
  return list.empty() ||
         ("|" + std::string(list) + "|").find("|" + std::string(name) + "|") != std::string::npos;
}

/// The rule of a row that rounds what it stores so, if its stack has it.  Where 1 / s is stored,
/// that is rounded up as s is rounded down.
std::optional<F32ScaleRule> rule_under(const ScaleRuleRow& row, std::string_view power_of_2) {
  if (row.scale != ScaleType::f32) return std::nullopt;
  if (row.rule.f32.in_x != StepsInX::none) return std::nullopt;  // of a type that is not asked here
  const bool inverse = row.rule.f32.stores == StoredScale::inverse;
  if (inverse && gives_multiplier(row.rule.f32.quotient) && power_of_2 != "none") {
    power_of_2 = power_of_2 == "up" ? "down" : power_of_2 == "down" ? "up" : power_of_2;
  }
  if (!lists(row.powers, power_of_2)) return std::nullopt;
  F32ScaleRule rule = row.rule.f32;
  rule.power_of_2 = power_of_2 == "none" ? PowerOfTwo::none
                    : power_of_2 == "up" ? row.up
                                         : row.down;
  return rule;
}

/// " or "-joined names of rows that give all of what came.  A stack's other path is not named
/// beside it: vllm stands for vllm_cuda.
class Names {
 public:
  void add(std::string_view name) {
    for (const std::string_view other : all_) {
      if (other == name || name.starts_with(std::string(other) + "_")) return;
    }
    all_.push_back(name);
  }
  std::string sentence() const {
    std::string text;
    for (const std::string_view name : all_) {
      text += (text.empty() ? ": the rule of " : " or ") + std::string(name);
    }
    return all_.size() > 1 ? text + ", which these blocks do not tell apart" : text;
  }

 private:
  std::vector<std::string_view> all_;
};

}  // namespace

std::string stacks_that_give(const std::vector<float>& amax, const std::vector<float>& scales,
                             std::string_view power_of_2, Dtype format) {
  Names names;
  for (const ScaleRuleRow& row : kScaleRules) {
    const auto rule = rule_under(row, power_of_2);
    if (!rule || !lists(row.formats, name_of(format))) continue;
    bool same = true;
    bool told = false;  // by a block at least
    visit_minifloat8(format, [&](auto tag) {
      constexpr FormatSpec kSpec = decltype(tag)::type::spec;
      for (std::size_t b = 0; b < amax.size() && same; ++b) {
        if (std::isnan(amax[b])) continue;
        const F32Scale s = f32_scale<kSpec>(amax[b], *rule, largest_finite<float>());
        same = bit_cast<std::uint32_t>(s.stored) == bit_cast<std::uint32_t>(scales[b]);
        told = true;
      }
    });
    if (same && told) names.add(row.name);
  }
  return names.sentence();
}

std::string stacks_that_give(const std::vector<float>& amax,
                             const std::vector<std::uint8_t>& scales, Dtype format) {
  Names names;
  for (const ScaleRuleRow& row : kScaleRules) {
    const ScaleProfile& profile = row.rule.e8m0;
    if (row.scale != ScaleType::e8m0 || profile.exponent == ExponentRule::by_mode) continue;
    if (profile.exponent == ExponentRule::ceil_quotient)
      continue;  // RCEIL but beside powers of two
    if (!lists(row.formats, name_of(format))) continue;
    bool same = true;
    bool told = false;  // by a block at least
    visit_minifloat8(format, [&](auto tag) {
      constexpr FormatSpec kSpec = decltype(tag)::type::spec;
      for (std::size_t b = 0; b < amax.size() && same; ++b) {
        if (std::isnan(amax[b])) continue;
        same = shared_scale<kSpec>(amax[b], row.rule.mode, profile).bits == scales[b];
        told = true;
      }
    });
    if (same && told) names.add(row.name);
  }
  return names.sentence();
}

}  // namespace mxo
