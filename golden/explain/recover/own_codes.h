// Codes by the arithmetic of the rule that a call asks for, whatever scales came.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "formats/scale_rules.h"
#include "golden/explain/call.h"
#include "golden/explain/output.h"
#include "golden/explain/find/product/blocks.h"

namespace mxo {

/// What x may have been multiplied or divided by, in the order to be tried.
struct Factors {
  std::array<float, 8> list{};
  int n = 0;
  void add(float factor) {
    if (n < static_cast<int>(list.size())) list[static_cast<std::size_t>(n++)] = factor;
  }
};

/// The rule of a call of quantize.
class OwnCodes {
 public:
  /// None where the call names no rule that gives `codes` as they are expected from `scales`.
  static std::optional<OwnCodes> of(const Call& call, const Output& codes, const Blocks& blocks,
                                    const Output& scales, const std::vector<float>& amax);

  /// The scale of a block with this amax.
  float stored(float amax) const;
  /// What a block was scaled by whose scale is element `s` of `scales`: of `amax`, if that gives
  /// this scale; and every multiplier that is stored so.
  Factors factors(const Tensor& scales, Index s, float amax) const;
  /// The value that is rounded.
  float value(float x, float factor) const;
  std::uint8_t code(float x, float factor) const;
  const ElementRule& element() const { return rule_.element; }
  /// Whether x is divided by the stored scale, or multiplied by its inverse.
  bool divides() const;
  /// Whether x is multiplied by what the stored scale alone does not tell.
  bool has_own_factor() const;

 private:
  OwnCodes(const ScaleRule& rule, Dtype format, Dtype scales, Dtype x)
      : rule_(rule), format_(format), scales_(scales), x_(x) {}
  F32Scale f32(float amax) const;

  ScaleRule rule_;
  Dtype format_;
  Dtype scales_;
  Dtype x_;
};

}  // namespace mxo
