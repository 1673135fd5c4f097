// Rounding cells, and gate bound of swiglu and of codes, against their twins: rational numbers, and
// MPFR at 400 bits.
#include <gtest/gtest.h>
#include <mpfr.h>

#include <bit>
#include <random>

#include "emu/backends.h"
#include "golden/judge/element_bounds.h"
#include "golden/judge/quantized_pair.h"
#include "golden/judge/rounding_cell.h"
#include "golden/museum/operands.h"
#include "tests/golden/expected.h"
#include "tests/golden/rational.h"
#include "tests/golden/tensors.h"

namespace mxo::gate_twin_elements_test {
namespace {

using twin::Rational;

TEST(GateTwin, CellsEndHalfwayToBothNeighbours) {
  std::mt19937_64 random(1);
  for (const Dtype out : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    const twin::Layout layout = twin::layout_of(out);
    const ElementReader read(out);
    for (std::uint32_t n = 0; n <= 0x8000; ++n) {
      std::uint32_t pattern = n;
      if (out == Dtype::f32 && n > 64) pattern = static_cast<std::uint32_t>(random());
      if (out == Dtype::f32 && n > 64 && n % 4 == 0) pattern &= 0x7F800000;  // powers of two
      pattern &= layout.sign() - 1;
      if (pattern > layout.infinity()) continue;
      const RoundingCell cell = rounding_cell(out, read(pattern).value);
      const RoundingCell other = rounding_cell(out, read(pattern | layout.sign()).value);
      const Rational low =
          pattern == 0 ? Rational(0) - twin::middle(layout, 0) : twin::middle(layout, pattern - 1);
      ASSERT_TRUE(Rational(cell.low) == low) << name_of(out) << " " << pattern;
      ASSERT_EQ(other.high, -cell.low);
      ASSERT_EQ(other.low, -cell.high);
      ASSERT_EQ(std::isinf(cell.high), pattern == layout.infinity());
      if (std::isinf(cell.high)) continue;
      ASSERT_TRUE(Rational(cell.high) == twin::middle(layout, pattern)) << name_of(out) << pattern;
    }
  }
}

/// a / (1 + exp(-a)) to 400 bits.
Rational silu(double a) {
  mpfr_t s;
  mpfr_t exp;
  mpfr_init2(s, 400);
  mpfr_init2(exp, 400);
  mpfr_set_d(exp, -a, MPFR_RNDN);
  mpfr_exp(exp, exp, MPFR_RNDN);
  mpfr_add_ui(exp, exp, 1, MPFR_RNDN);
  mpfr_set_d(s, a, MPFR_RNDN);
  mpfr_div(s, s, exp, MPFR_RNDN);
  Rational value;
  for (int part = 0; part < 8; ++part) {  // doubles that add up to it
    const double head = mpfr_get_d(s, MPFR_RNDN);
    value = value + Rational(head);
    mpfr_sub_d(s, s, head, MPFR_RNDN);
  }
  mpfr_clears(s, exp, nullptr);
  return value;
}

TEST(GateTwin, HoldsSwiglu) {
  std::mt19937_64 random(3);
  const auto drawn = [&](int least, int most) {
    const double significand = 1 + static_cast<double>(random() >> 11) * 0x1p-53;
    const int exponent = least + static_cast<int>(random() % static_cast<unsigned>(most - least));
    return static_cast<float>(std::ldexp(random() % 2 == 0 ? significand : -significand, exponent));
  };
  Index passed = 0;
  Index refused = 0;
  Index open = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const bool wide = trial % 3 == 0;
    const float a = wide ? drawn(-149, 127) : drawn(-8, 7);
    const float b = wide ? drawn(-149, 127) : drawn(-6, 6);
    const float p = wide ? drawn(-60, 20) : drawn(-6, 0);
    NamedTensors in{{"x", floats({1, 2}, {a, b})}, {"probs", floats({1}, {p})}};
    const ErrorBound bound = swiglu_bound(in);
    const Rational s = silu(static_cast<double>(a));
    const Rational rb(static_cast<double>(b));
    const Rational rp(static_cast<double>(p));
    const Rational y = s * rb * rp;
    const Rational one(1);
    const Rational stray =
        Rational(12) * twin::power(-24) * y.magnitude() +
        twin::power(-125) * (Rational(static_cast<double>(a)) * rb * rp).magnitude() +
        twin::power(-147) * (one + s.magnitude()) * (one + rb.magnitude()) * (one + rp.magnitude());
    if (!bound.promises(0)) {
      const Rational most(static_cast<double>(std::numeric_limits<float>::max()));
      const Rational reach = twin::larger(twin::larger((s * rb).magnitude(), (s * rp).magnitude()),
                                          twin::larger((rb * rp).magnitude(), y.magnitude()));
      ASSERT_TRUE(most < reach * (one + twin::power(-20)) + stray) << a << " " << b << " " << p;
      ++open;
      continue;
    }
    // The double's own error may let pass what is beyond by as much.
    const Rational more = stray * (one + twin::power(-38)) + twin::power(-49) * y.magnitude();
    for (const Dtype out : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
      const twin::Layout layout = twin::layout_of(out);
      const ElementReader read(out);
      for (const double end : {-1.0, 0.0, 1.0}) {
        const auto near = static_cast<float>(bound.exact[0] + end * bound.stray[0]);
        const std::uint32_t middle = out == Dtype::bf16  ? encode<kBF16>(near).bits
                                     : out == Dtype::f16 ? encode<kF16>(near).bits
                                                         : std::bit_cast<std::uint32_t>(near);
        for (std::uint32_t step = 0; step < 5; ++step) {
          const std::uint32_t pattern = (middle & (layout.sign() - 1)) + step;
          if (pattern < 2) continue;
          const std::uint32_t bits = (middle & layout.sign()) | (pattern - 2);
          const bool passes = bound.admits(0, out, read(bits).value);
          ASSERT_TRUE(passes || !twin::admits(y, stray, out, bits))
              << a << " " << b << " " << p << " " << bits;
          ASSERT_TRUE(!passes || twin::admits(y, more, out, bits))
              << a << " " << b << " " << p << " " << bits;
          ++(passes ? passed : refused);
        }
      }
    }
  }
  EXPECT_GT(passed, 3000);
  EXPECT_GT(refused, 5000);
  EXPECT_GT(open, 10);
}

/// |code s - x| <= |nearest s - x| + 4 u |x| for every code of a format.
void hold_codes(const char* format, const char* scale, const Tensor& x, Index& passed,
                Index& refused) {
  NamedTensors in{{"x", x}};
  Parameters set = with({{"format", format}, {"scale", scale}});
  const bool powers = std::string(scale) == "e8m0";
  if (!powers) set.set("block", "1x128");
  const NamedTensors outputs = call_operator(*make_reference_backend(), "quantize", in, set);
  const Tensor& codes = outputs.at("codes");
  const Tensor& scales = outputs.at("scales");
  ExpectedOutput expected_output = owe(codes, dtype_named(format));
  const Dtype scale_type = powers ? Dtype::e8m0 : Dtype::f32;
  const QuantizedPair pair(
      expected_output.format, scale_type,
      *ScaleMap::of(codes.shape(), scales.shape(), scale_type, scale_hints("quantize", in, set)),
      scales, scales);
  expected_output.pair = &pair;
  const auto bound = quantize_bound(in, set, expected_output, codes);
  ASSERT_TRUE(bound);
  const ElementReader read(expected_output.format);
  const ElementReader read_scale(scale_type);
  for (Index i = 0; i < codes.elements(); ++i) {
    const double s = read_scale(bits_at(scales, pair.scale_of(i))).value;
    const Rational value(ElementReader(x.dtype())(bits_at(x, i)).value);
    const auto distance = [&](std::uint64_t code) {
      return (Rational(read(code).value) * Rational(s) - value).magnitude();
    };
    Rational nearest = distance(0);
    for (std::uint64_t code = 0; code < 256; ++code) {
      if (!std::isfinite(read(code).value)) continue;
      if (distance(code) < nearest) nearest = distance(code);
    }
    const Rational room = nearest + twin::power(-22) * value.magnitude();
    for (std::uint64_t code = 0; code < 256; ++code) {
      if (!std::isfinite(read(code).value)) continue;
      const bool passes = bound->admits(i, expected_output.format, read(code).value * s);
      ASSERT_TRUE(passes || !(distance(code) <= room)) << format << " " << i << " " << code;
      ASSERT_TRUE(!passes || distance(code) <= room * (Rational(1) + twin::power(-50)))
          << format << " " << i << " " << code;
      ++(passes ? passed : refused);
    }
  }
}

TEST(GateTwin, HoldsCodes) {
  std::mt19937_64 random(9);
  for (const char* format : {"e4m3", "e5m2"}) {
    for (const char* scale : {"e8m0", "f32"}) {
      Tensor x = random_floats({1, 128}, 11);
      for (Index i = 0; i < 64; ++i) {  // ties, and what is next to them
        const double tie = std::ldexp(2 * static_cast<double>(random() % 16) + 1, -6);
        x.as<float>()[i] = static_cast<float>(tie * (1 + static_cast<double>(i % 7 - 3) * 0x1p-23));
      }
      x.as<float>()[64] = 1e-30f;
      x.as<float>()[65] = 0;
      Index passed = 0;
      Index refused = 0;
      hold_codes(format, scale, x, passed, refused);
      if (HasFatalFailure()) return;
      EXPECT_GE(passed, 128);
      EXPECT_GT(refused, 20000);
    }
  }
}

}  // namespace
}  // namespace mxo::gate_twin_elements_test
