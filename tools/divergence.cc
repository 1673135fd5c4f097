// Where scale rules give different bytes.
#include "tools/divergence.h"

#include <algorithm>
#include <iterator>

namespace mxo::tools {
namespace {

constexpr std::uint32_t kInfinity = 0x7F800000u;

struct NamedMode {
  std::string_view name;
  ScaleMode mode;
};
constexpr NamedMode kModes[] = {{"rceil", ScaleMode::rceil},
                                {"floor", ScaleMode::floor},
                                {"ceil", ScaleMode::ceil},
                                {"even", ScaleMode::even}};

template <typename Code>
ScaleAndCode bytes_at(std::uint32_t amax, ScaleMode mode, const ScaleProfile& profile) {
  const float value = bit_cast<float>(amax);
  const E8M0 scale = shared_scale<Code::spec>(value, mode, profile);
  return {scale.bits, quantize_element<Code::spec>(value, scale).bits};
}

/// The patterns at which the scale of one rule changes, each found by bisection: every rule is
/// a chain of roundings, and a rounding never falls as its operand rises.  (A sweep over every
/// amax finds the same departures: tests/formats/captured_exhaustive_test.cc.)
template <typename Code>
void add_steps(ScaleMode mode, const ScaleProfile& profile, std::vector<std::uint32_t>& steps) {
  const auto scale = [&](std::uint32_t amax) {
    return shared_scale<Code::spec>(bit_cast<float>(amax), mode, profile).bits;
  };
  std::uint32_t at = 0;
  while (scale(at) != scale(kInfinity)) {
    std::uint32_t same = at;
    std::uint32_t other = kInfinity;
    while (other - same > 1) {
      const std::uint32_t middle = same + (other - same) / 2;
      (scale(middle) == scale(at) ? same : other) = middle;
    }
    at = other;
    steps.push_back(at);
  }
}

template <typename Code>
void add_divergences(Dtype format, const NamedMode& mode, std::vector<Divergence>& found) {
  std::vector<std::uint32_t> steps{0, kInfinity + 1};
  for (const ScaleRuleRow& row : e8m0_rules()) {
    add_steps<Code>(mode.mode, row.rule.e8m0, steps);
  }
  std::sort(steps.begin(), steps.end());
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (steps[i] == steps[i + 1]) continue;
    std::vector<ScaleAndCode> bytes;
    for (const ScaleRuleRow& row : e8m0_rules()) {
      bytes.push_back(bytes_at<Code>(steps[i], mode.mode, row.rule.e8m0));
    }
    const bool same = std::all_of(bytes.begin(), bytes.end(),
                                  [&](ScaleAndCode b) { return b.scale == bytes[0].scale; });
    if (!same) found.push_back({mode.name, format, steps[i], steps[i + 1] - 1, std::move(bytes)});
  }
}

}  // namespace

std::vector<ScaleRuleRow> e8m0_rules() {
  std::vector<ScaleRuleRow> rows;
  for (const ScaleRuleRow& row : kScaleRules) {
    if (row.scale == ScaleType::e8m0 && is_regular(row.rule)) rows.push_back(row);
  }
  return rows;
}

std::vector<Divergence> divergences() {
  std::vector<Divergence> found;
  for (const NamedMode& mode : kModes) {
    for (const Dtype format : {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz}) {
      visit_minifloat8(format, [&](auto tag) {
        add_divergences<typename decltype(tag)::type>(format, mode, found);
      });
    }
  }
  return found;
}

SpecialBlock odd_block(float odd) {
  SpecialBlock block;
  for (const ScaleRuleRow& row : e8m0_rules()) {
    const ScaleProfile& profile = row.rule.e8m0;
    const std::uint32_t amax = join_amax(join_amax(0, 1.0f, profile.nan), odd, profile.nan);
    const E8M0 scale = shared_scale<kE4M3>(bit_cast<float>(amax), ScaleMode::rceil, profile);
    block.odd.push_back({scale.bits, quantize_element<kE4M3>(odd, scale).bits});
    block.one.push_back({scale.bits, quantize_element<kE4M3>(1.0f, scale).bits});
  }
  return block;
}

}  // namespace mxo::tools
