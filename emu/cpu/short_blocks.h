// Short blocks of neighbours: max magnitudes, scale bytes, and products nudged off ties.
#pragma once

#include "formats/dtype.h"
#include "formats/mx_block.h"

namespace mxo::cpu {

/// The bytes of an e8m0 rule by the exponent field of amax: within a binade they change once at
/// most.  (Held against the rule itself by tests/emu/stack_rules_test.cc.)
class ScaleSteps {
 public:
  template <typename ByteOf>
  explicit ScaleSteps(ByteOf byte_of) {
    for (std::uint32_t field = 0; field < 0xFF; ++field) {
      const std::uint32_t first = field << 23;
      const std::uint32_t last = first + 0x7FFFFFu;
      Step& step = steps_[field];
      step = {last, byte_of(first), byte_of(last)};
      if (step.below == step.above) continue;
      std::uint32_t same = first;
      while (step.from - same > 1) {
        const std::uint32_t middle = same + (step.from - same) / 2;
        (byte_of(middle) == step.below ? same : step.from) = middle;
      }
    }
  }
  /// Of a finite amax.
  std::uint8_t operator()(std::uint32_t amax) const {
    const Step& step = steps_[amax >> 23];
    return amax < step.from ? step.below : step.above;
  }

 private:
  struct Step {
    std::uint32_t from;
    std::uint8_t below, above;
  };
  Step steps_[0xFF];
};

/// The largest magnitude of neighbours, NaN above infinity.
template <typename X>
std::uint32_t amax_of_run(const void* x, Index n) {
  if constexpr (std::is_same_v<X, BF16>) {
    // Magnitudes of bf16 order as integers.
    const auto* words = static_cast<const std::int16_t*>(x);
    std::int16_t top = 0;
    for (Index i = 0; i < n; ++i) {
      const auto magnitude = static_cast<std::int16_t>(words[i] & 0x7FFF);
      top = magnitude > top ? magnitude : top;
    }
    return static_cast<std::uint32_t>(top) << 16;
  } else {
    const auto* from = static_cast<const X*>(x);
    std::int32_t top = 0;
    for (Index i = 0; i < n; ++i) {
      const auto word = bit_cast<std::uint32_t>(to_float(from[i])) & 0x7FFFFFFFu;
      const auto magnitude = static_cast<std::int32_t>(word);
      top = magnitude > top ? magnitude : top;
    }
    return static_cast<std::uint32_t>(top);
  }
}

/// v = x * factors[i], with its last bit set: to nearest even, what was a tie goes away from zero,
/// and nothing else changes, since no code and no tie has that bit.
/// Where signs of zeros are lost, a zero is +0.
template <typename X>
void scale_off_ties(const void* x, Index n, const float* factors, ZeroSign zero, float* v) {
  const auto* from = static_cast<const X*>(x);
  for (Index i = 0; i < n; ++i) {
    float wide = 0.0f;
    if constexpr (std::is_same_v<X, BF16>) {
      wide = bit_cast<float>(static_cast<std::uint32_t>(from[i].bits) << 16);
    } else {
      wide = to_float(from[i]);
    }
    const auto word = bit_cast<std::uint32_t>(wide * factors[i]);
    const bool lost = zero == ZeroSign::lost && (word & 0x7FFFFFFFu) == 0;
    v[i] = bit_cast<float>(lost ? 0u : word | 1u);
  }
}

}  // namespace mxo::cpu
