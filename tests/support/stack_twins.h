// What the quantisers of stacks compute, written a second time: their own steps in the order of
// their source, with libm's logarithms and a search for the nearest code.
#pragma once

#include <vector>

#include "formats/dtype.h"

namespace mxo::test {

/// A block of x, already in the type that it has, and how it is asked.
struct Block {
  std::vector<float> x;
  Dtype type = Dtype::f32;
  Dtype format = Dtype::e4m3;
};

struct ScaledCodes {
  std::uint32_t scale = 0;  ///< the byte, or the bits of the f32
  std::vector<std::uint8_t> codes;
};

/// One rule of one stack, by another route than formats/scale_rules.h.
struct StackTwin {
  std::string_view rule;
  std::string_view block;       ///< "1x128"
  std::string_view power_of_2;  ///< "": as the rule has it
  std::string_view scale_mode;
  std::string_view formats;  ///< "e4m3|e4m3fnuz"
  ScaledCodes (*quantize)(const Block& block);
};

/// Every stack's.
const std::vector<StackTwin>& stack_twins();
/// Those whose scales are e8m0 bytes.
std::span<const StackTwin> stack_twins_mx();

}  // namespace mxo::test
