// How the largest magnitude of a block became its scale, measured.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "golden/explain/call.h"

namespace mxo {

/// A rule that gives every scale that came.
struct ScaleRuleFound {
  std::string words;                   ///< "the scale is 2^(floor(log2 amax) - 8), ..."
  std::string stacks;                  ///< ": the rule of te"; empty: of none
  std::function<float(float)> stored;  ///< amax to the stored scale; NaN: not told
};

/// The step function of the significand that gives these bytes, if one does.
std::optional<ScaleRuleFound> e8m0_rule(const std::vector<float>& amax,
                                        const std::vector<std::uint8_t>& scales, Dtype format);
/// The quotient, floor and power of two that give these scales, if some do, and whose rule it is.
std::optional<ScaleRuleFound> f32_rule(const std::vector<float>& amax,
                                       const std::vector<float>& scales, Dtype format);
/// The one of these for the type of the scales.
std::optional<ScaleRuleFound> rule_of(const std::vector<float>& amax, const Tensor& scales,
                                      Dtype format);

/// What x may have been multiplied by, from amax; for codes made before the scale was rounded.
struct Multiplier {
  std::string words;
  std::function<float(float)> of_amax;
};
std::vector<Multiplier> multipliers(Dtype format);

/// The largest finite value of a format.
double largest(Dtype format);

}  // namespace mxo
