// The transpose that moves exponents: every code, its tiles, and every instruction set.
#include <gtest/gtest.h>

#include "ops/scaled_tensor.h"
#include "ops/scaling_aware_transpose.h"
#include "tests/support/contestants.h"
#include "tests/support/named_calls.h"
#include "tests/support/random_tensors.h"
#include "tests/support/strided.h"

namespace mxo::test::scaling_aware_transpose_test {
namespace {

TEST(ScalingAwareTranspose, ShiftsEveryFiniteCodeByEveryAmountUnderEveryRule) {
  for (int bits = 0; bits < 256; ++bits) {
    const E4M3 code{static_cast<std::uint8_t>(bits)};
    if (is_nan(code)) continue;
    const double value = decode(code);
    const int exponent = bits >> 3 & 15;
    for (int shift = 0; shift <= 16; ++shift) {
      // round: the nearest multiple of the quantum of the result's binade, by nearbyint.
      const double real = std::ldexp(value, -shift);
      const int binade = real == 0.0 ? -6 : std::max(std::ilogb(real), -6);
      const double nearest = std::ldexp(std::nearbyint(std::ldexp(real, 3 - binade)), binade - 3);
      const E4M3 rounded = shifted_code(code, shift, Underflow::round);
      EXPECT_EQ(decode(rounded), nearest) << bits << " >> " << shift;
      EXPECT_EQ(rounded.bits >> 7, bits >> 7);
      // The released kernels: normal codes that stay normal are exact, the rest is fixed.
      const E4M3 kept = shifted_code(code, shift, Underflow::keep_mantissa);
      const E4M3 flushed = shifted_code(code, shift, Underflow::flush);
      if (exponent == 0) {
        EXPECT_EQ(kept.bits, 0);
        EXPECT_EQ(flushed.bits, 0);
      } else if (exponent - shift >= 1) {
        EXPECT_EQ(decode(kept), real);
        EXPECT_EQ(decode(flushed), real);
      } else {
        EXPECT_EQ(decode(kept), std::copysign((bits & 7) * 0x1p-9, value));
        EXPECT_EQ(flushed.bits, 0);
      }
    }
  }
}

TEST(ScalingAwareTranspose, ShiftsEveryCodeOfE4m3fnuzToTheNearest) {
  for (int bits = 0; bits < 256; ++bits) {
    for (int shift = 0; shift <= 140; ++shift) {
      const int moved =
          shifted_code(E4M3Fnuz{static_cast<std::uint8_t>(bits)}, shift, Underflow::round).bits;
      if (bits == 0x80) {  // the one NaN
        EXPECT_EQ(moved, 0x80);
        continue;
      }
      // Bias 8: fields from 1 on are (8 + m) 2^(field - 11), field 0 is m 2^-10.
      const int field = bits >> 3 & 15;
      const int digits = (bits & 7) + (field > 0 ? 8 : 0);
      // Of the codes of the same sign the nearest, of two the even.
      int nearest = 0;
      const double real = std::ldexp(digits, std::max(field, 1) - 11 - shift);
      double least = real;
      for (int code = 1; code < 128; ++code) {
        const int f = code >> 3;
        const double value = std::ldexp((code & 7) + (f > 0 ? 8 : 0), std::max(f, 1) - 11);
        const double off = std::fabs(value - real);
        if (off > least || (off == least && code % 2 != 0)) continue;
        least = off;
        nearest = code;
      }
      EXPECT_EQ(moved, nearest == 0 ? 0 : nearest | (bits & 0x80)) << bits << " >> " << shift;
    }
  }
}

TEST(ScalingAwareTranspose, TakesTheLargestScaleOfATileThatRestartsAtEachGroup) {
  const Index rows = 300;
  const Index columns = 200;
  std::mt19937 random(7);
  NamedTensors in;
  Tensor codes(Dtype::u8, {rows, columns});
  for (Index i = 0; i < codes.elements(); ++i)
    codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(random() % 0x7F);
  Tensor scales(Dtype::f32, {rows, 2});
  for (Index i = 0; i < scales.elements(); ++i)
    scales.as<float>()[i] = std::ldexp(1.0f, static_cast<int>(random() % 12) - 20);
  in.emplace("codes", codes);
  in.emplace("scales", scales);
  in.emplace("group_ends", group_ends_of({130, 130, 131, 290}));
  const NamedTensors out = call("reference", "scaling_aware_transpose", in);
  ASSERT_EQ(out.at("scales").shape(), (std::vector<Index>{2 + 0 + 1 + 2, columns}));
  const Index first[] = {0, 128, 130, 131, 259, 290};
  for (Index tile = 0; tile < 5; ++tile) {
    for (Index k = 0; k < columns; ++k) {
      float top = 0.0f;
      for (Index r = first[tile]; r < first[tile + 1]; ++r)
        top = std::max(top, scales.as<float>()[r * 2 + k / 128]);
      EXPECT_EQ(out.at("scales").as<float>()[tile * columns + k], top);
      for (Index r = first[tile]; r < first[tile + 1]; ++r) {
        const int shift = std::ilogb(top) - std::ilogb(scales.as<float>()[r * 2 + k / 128]);
        const E4M3 code{codes.as<std::uint8_t>()[r * columns + k]};
        EXPECT_EQ(out.at("codes").as<std::uint8_t>()[k * rows + r],
                  shifted_code(code, shift, Underflow::round).bits);
      }
    }
  }
  EXPECT_TRUE(same_bytes(out, call("cpu", "scaling_aware_transpose", in)));
  in.at("scales").as<float>()[5] = 3.0f;
  EXPECT_THROW(call("reference", "scaling_aware_transpose", in), Error);
}

struct Operands {
  Strided codes;
  Strided scales;
  Tensor ends;
};

/// Every byte, and scales whose exponents lie up to `spread` apart; some rows are padding.
Operands operands(Dtype format, Index rows, Index columns, const std::vector<std::int32_t>& ends,
                  int spread, const Lie& lie) {
  Operands in{{format, {rows, columns}, lie},
              {Dtype::f32, {rows, ceil_div(columns, kScaledBlock)}, lie},
              group_ends_of(ends)};
  std::mt19937 random(11);
  for (Index i = 0; i < in.codes.elements(); ++i) *in.codes.at(i) = static_cast<std::byte>(i * 5);
  for (Index i = 0; i < in.scales.elements(); ++i) {
    const bool padding = random() % 9 == 0;
    const int exponent =
        static_cast<int>(random() % static_cast<unsigned>(spread + 1)) - spread / 2;
    const float scale = padding ? 0.0f : std::ldexp(1.0f, exponent);
    std::memcpy(in.scales.at(i), &scale, sizeof scale);
  }
  return in;
}

std::vector<std::vector<std::byte>> turn(Backend& backend, const Operands& in, Underflow underflow,
                                         const Lie& lie) {
  const Operand codes = in.codes.operand();
  Strided out(codes.dtype, {codes.extent[1], codes.extent[0]}, lie);
  Strided scales(Dtype::f32, {row_blocks(in.ends.operand(), kScaledBlock), codes.extent[1]}, lie);
  scaling_aware_transpose(backend, {codes, in.scales.operand(), in.ends.operand(), out.result(),
                                    scales.result(), underflow});
  return {out.bytes(), scales.bytes()};
}

TEST(ScalingAwareTranspose, GivesTheReferencesBytesOnEveryInstructionSet) {
  const auto reference = make_reference_backend();
  const auto backends = all_backends();
  const std::vector<Lie> lies = test::lies();
  std::size_t number = 0;
  for (const int spread : {0, 3, 24, 200}) {
    for (const std::vector<std::int32_t>& ends :
         {std::vector<std::int32_t>{300}, {0, 130, 130, 131, 290}, {128, 256}, {}}) {
      for (const auto& [format, rule] : {std::pair{Dtype::e4m3, Underflow::round},
                                         {Dtype::e4m3, Underflow::keep_mantissa},
                                         {Dtype::e4m3, Underflow::flush},
                                         {Dtype::e4m3fnuz, Underflow::round}}) {
        const Lie& lie = lies[number++ % lies.size()];
        const Operands in = operands(format, 300, 200, ends, spread, lie);
        const auto want = turn(*reference, in, rule, lie);
        for (const auto& backend : backends)
          EXPECT_TRUE(want == turn(*backend, in, rule, lie))
              << backend->name() << ", spread " << spread << ", rule " << static_cast<int>(rule)
              << ", " << lie.name;
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::scaling_aware_transpose_test
