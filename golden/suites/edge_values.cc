// Values at which conversions and scales change.
#include "golden/suites/edge_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/mx_block.h"
#include "golden/suites/case_list.h"

namespace mxo {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::size_t kBlock = static_cast<std::size_t>(kMxBlock);

float bits(std::uint32_t word) { return bit_cast<float>(word); }

/// `value` and one float either side, both signs.
void push_around(std::vector<float>& values, float value) {
  for (const float v : {std::nextafter(value, 0.0f), value, std::nextafter(value, kInfinity)}) {
    values.push_back(v);
    values.push_back(-v);
  }
}

void push_special(std::vector<float>& values) {
  for (const std::uint32_t word : {0x00000000u, 0x80000000u, 0x00000001u, 0x80000001u, 0x007FFFFFu,
                                   0x00800000u, 0x7F7FFFFFu, 0xFF7FFFFFu, 0x7F800000u, 0xFF800000u,
                                   0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFFFFFFFFu}) {
    values.push_back(bits(word));
  }
}

/// amax first, the rest fractions of it with both signs.
EdgeBlock block_of(float amax, std::string flag) {
  EdgeBlock block{std::vector<float>(kBlock), std::move(flag)};
  for (std::size_t i = 0; i < kBlock; ++i) {
    const float fraction = static_cast<float>(kBlock - i) * 0x1p-5f;
    block.x[i] = amax * (i % 2 == 0 ? fraction : -fraction);
  }
  return block;
}

EdgeBlock uniform(float value, std::string flag) {
  return {std::vector<float>(kBlock, value), std::move(flag)};
}

/// `value` at place `at` among `others`.
EdgeBlock one_among(float others, float value, std::size_t at, std::string flag) {
  EdgeBlock block = uniform(others, std::move(flag));
  block.x[at] = value;
  return block;
}

/// The values, then zeros.
EdgeBlock listed(std::initializer_list<float> values, std::string flag) {
  EdgeBlock block = uniform(0, std::move(flag));
  std::copy(values.begin(), values.end(), block.x.begin());
  return block;
}

FormatSpec spec_of(Dtype format) {
  return visit_minifloat8(format, [](auto tag) { return decltype(tag)::type::spec; });
}

}  // namespace

std::vector<float> encode_boundaries(Dtype format) {
  std::vector<float> values;
  push_special(values);
  visit_minifloat8(format, [&](auto tag) {
    using Code = typename decltype(tag)::type;
    float step = 0;
    float last = 0;
    for (int code = 0; code <= Code::spec.max_finite(); ++code) {
      const float value = decode(Code{static_cast<std::uint8_t>(code)});
      if (code > 0) {
        step = value - last;
        push_around(values, value);
        push_around(values, last + step / 2);
      }
      last = value;
    }
    push_around(values, last + step / 2);  // where overflow begins
    push_around(values, last + step);
    push_around(values, 2 * last);
  });
  return values;
}

std::vector<float> e8m0_boundaries() {
  std::vector<float> values;
  push_special(values);
  for (std::uint32_t field = 0; field < 255; ++field) {
    push_around(values, bits(field << 23 | (field == 0 ? 1u : 0u)));
    push_around(values, bits(field << 23 | 0x400000u));
  }
  return values;
}

std::vector<EdgeBlock> edge_blocks(Dtype format) {
  const FormatSpec spec = spec_of(format);
  const float quantum = std::ldexp(1.0f, spec.quantum_exponent());
  std::vector<EdgeBlock> blocks;
  const auto add = [&](EdgeBlock block) { blocks.push_back(std::move(block)); };

  add(uniform(0.0f, "zero_block"));
  add(uniform(-0.0f, "signed_zero"));
  add(listed({1.0f, -0.0f, 0.0f, -1.0f, -0.0f}, "signed_zero"));
  add(uniform(0.0f, "scale_byte_0"));
  for (const std::uint32_t word : {0x00000001u, 0x80000001u, 0x00010000u}) {  // f32's, bf16's
    add(uniform(bits(word), "smallest_subnormal"));
    add(one_among(1.0f, bits(word), 0, "underflow_beside_large"));
    add(one_among(bits(0x7F7F0000u), bits(word), 31, "underflow_beside_large"));
  }
  for (const std::uint32_t word : {0x007FFFFFu, 0x807FFFFFu, 0x007F0000u}) {
    add(uniform(bits(word), "largest_subnormal"));
  }
  add(uniform(0x1p-126f, "smallest_normal"));
  add(listed({0x1p-126f, -0x1p-126f, 0x1p-127f, 0x1p-140f}, "smallest_normal"));
  // Elements at the bottom of the format, under the scale 1: ties at half a quantum.
  add(listed({256.0f, quantum, quantum / 2, bits(bit_cast<std::uint32_t>(quantum / 2) + 1),
              1.5f * quantum, 2.5f * quantum, -quantum / 2, -1.5f * quantum},
             "ties"));
  add(listed({448, -448, 463.99997f, 464, 464.00003f, -464, 479.99997f, 480, 480.00003f, 464},
             "ties_448_464_480"));
  add(listed({448, 432, 440, 424, 416, 9, 10, 11, 13, 15}, "ties_448_464_480"));
  add(listed({240, -240, 247.99998f, 248, 248.00002f, -248, 255.99998f, 232, 236}, "ties_240_248"));
  for (const std::uint32_t word : {0x7F7FFFFFu, 0xFF7FFFFFu, 0x7F7F0000u, 0xFF7F0000u}) {
    add(uniform(bits(word), "max_finite"));
    add(one_among(1.0f, bits(word), 5, "saturation_with_underflow"));
  }
  add(block_of(bits(0x7F780000u), "max_finite"));  // where the even rule overflows
  add(block_of(bits(0x7F700000u), "max_finite"));
  add(one_among(1.0f, kInfinity, 0, "one_inf"));
  add(one_among(-2.5f, -kInfinity, 31, "one_inf"));
  add(one_among(0.0f, kInfinity, 7, "one_inf"));
  add(one_among(1.0f, kInfinity, 0, "scale_byte_254"));  // profile te
  for (const std::uint32_t word : {0x7FC00000u, 0xFFC00000u, 0x7F810000u}) {
    add(one_among(1.0f, bits(word), 3, "one_nan"));
    add(one_among(0.0f, bits(word), 3, "scale_byte_255"));
    add(uniform(bits(word), "all_nan"));
  }
  EdgeBlock both = one_among(1.0f, kInfinity, 0, "one_nan");
  both.x[1] = bits(0x7FC00000u);
  add(std::move(both));
  // The least amax that leaves byte 0, in each mode.
  for (const float fraction : {1.0f, 1.5f, 1.75f, 1.9999999f}) {
    add(block_of(fraction * std::ldexp(1.0f, spec.max_exponent() - 126), "scale_byte_1"));
  }
  add(block_of(bits(0x40600001u), "amax_40600001"));     // 3.5 and one ulp
  add(block_of(bits(0x43FFFFFFu), "amax_43FFFFFF"));     // 512 less one ulp
  add(block_of(bits(0x04600001u), "amax_04600001"));     // rceil: product and quotient differ
  add(block_of(bits(0x047FFFFFu), "amax_047FFFFF"));     // floor: field and product differ
  add(block_of(bits(0x07E00001u), "scale_boundaries"));  // the same two for e5m2
  add(block_of(bits(0x07FFFFFFu), "scale_boundaries"));
  return blocks;
}

std::vector<EdgeBlock> boundary_blocks(Dtype format, int step) {
  const FormatSpec spec = spec_of(format);
  const std::uint32_t m = static_cast<std::uint32_t>(spec.mantissa_bits);
  const auto top = static_cast<std::uint32_t>(spec.max_finite()) & ((1u << m) - 1);
  // Fractions of f32 at which floor and ceil, rceil, and even move to the next scale.
  const std::uint32_t fractions[] = {0u, top << (23 - m), ((2u << m) - 1) << (22 - m)};
  std::vector<EdgeBlock> blocks;
  for (int field = 0; field < 255; ++field) {
    const bool end = field < 4 || field > 250;
    if (!end && field % step != 0) continue;
    for (const std::uint32_t fraction : fractions) {
      const std::uint32_t at = static_cast<std::uint32_t>(field) << 23 | fraction;
      for (const std::uint32_t word : {at - 1, at, at + 1}) {
        if (word > 0x7F7FFFFFu) continue;
        EdgeBlock block = block_of(bits(word), "scale_boundaries");
        std::swap(block.x[0], block.x[word % kBlock]);  // amax at any place of the block
        blocks.push_back(std::move(block));
      }
    }
  }
  return blocks;
}

Tensor place_blocks(const std::vector<EdgeBlock>& blocks, Dtype dtype, BlockPlacement placement) {
  const bool rows = placement == BlockPlacement::along_rows;
  const Index across = rows ? 8 : 64;  // blocks in a line of blocks
  const Index lines = ceil_div(static_cast<Index>(blocks.size()), across);
  const std::vector<Index> shape = rows ? std::vector<Index>{lines, across * kMxBlock}
                                        : std::vector<Index>{lines * kMxBlock, across};
  std::vector<float> values(static_cast<std::size_t>(lines * across * kMxBlock));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (std::size_t i = 0; i < kBlock; ++i) {
      const auto n = static_cast<std::size_t>(across);
      const std::size_t at = rows ? b * kBlock + i : (b / n * kBlock + i) * n + b % n;
      values[at] = blocks[b].x[i];
    }
  }
  return tensor_of(values, dtype, shape);
}

std::vector<std::string> flags_of(const std::vector<EdgeBlock>& blocks) {
  std::vector<std::string> flags;
  for (const EdgeBlock& block : blocks) {
    if (std::find(flags.begin(), flags.end(), block.flag) == flags.end()) {
      flags.push_back(block.flag);
    }
  }
  return flags;
}

}  // namespace mxo
