// Where rules for e8m0 scales give different bytes in each mode, found by asking them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "formats/scale_rules.h"

namespace mxo::tools {

/// The scale byte of a block and the code of one of its elements.
struct ScaleAndCode {
  std::uint8_t scale;
  std::uint8_t code;
  friend bool operator==(const ScaleAndCode&, const ScaleAndCode&) = default;
};

/// Consecutive f32 bit patterns of amax for which the rules disagree.
struct Divergence {
  std::string_view mode;
  Dtype format;
  std::uint32_t first;
  std::uint32_t last;
  std::vector<ScaleAndCode> bytes;  ///< of amax = first, one per row of e8m0_rules()
};

/// The rows for e8m0 scales that leave the exponent to scale_mode, in every format.
std::vector<ScaleRuleRow> e8m0_rules();

/// Every disagreement over amax = 0 to infinity, for every mode and 8-bit format.
std::vector<Divergence> divergences();

/// What the rules make of a block of 1.0 with one `odd` element: bytes of `odd`, and of a 1.0.
struct SpecialBlock {
  std::vector<ScaleAndCode> odd;
  std::vector<ScaleAndCode> one;
};
SpecialBlock odd_block(float odd);  ///< rceil, e4m3

}  // namespace mxo::tools
