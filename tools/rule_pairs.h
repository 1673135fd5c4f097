// Where two scale rules part: amaxes that they scale differently, and elements that they cast so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/scale_rules.h"

namespace mxo::tools {

/// Consecutive amaxes, as f32 bits, for which the stored scales differ.
struct AmaxRange {
  std::uint32_t first;
  std::uint32_t last;
};

/// Two rows asked the same: e4m3, scale_mode=rceil or one power of two.
struct RulePair {
  const ScaleRuleRow* a;
  const ScaleRuleRow* b;
  std::string_view power_of_2;  ///< empty: e8m0 scales
  std::uint64_t amaxes = 0;     ///< whose scales differ
  std::uint64_t of_amaxes = 0;
  std::vector<AmaxRange> ranges = {};
  std::uint64_t elements = 0;  ///< whose codes differ under equal scales
  std::uint64_t of_elements = 0;
  float amax = 0.0f;  ///< the first of these
  float x = 0.0f;
};

/// e8m0 scales: every f32 amax from 0 to infinity.  f32 scales: every amax of bf16 from 0 to
/// infinity, and pairs of an amax from 1 to 2 and an element from 2^-18 to it, both in bf16.
std::vector<RulePair> rule_pairs(std::string_view a, std::string_view b);
/// Over all rules of one type of scale, the first row of each.
std::vector<RulePair> rule_pairs();

/// Of the pair, what each gives: "4F and 50".
std::string scales_at(const RulePair& pair, std::uint32_t amax);
std::string codes_at(const RulePair& pair, float amax, float x);

}  // namespace mxo::tools
