// One element of a gate and of its gradients, by the words of each activation.
#include "emu/reference/gate_elements.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/support/by_mpfr.h"

namespace mxo {
namespace {

constexpr float kSome[] = {-8.5f, -7.0f, -3.25f, -0.625f, 0.3f, 1.7f, 7.0f, 9.0f};

float sigmoid(float x) { return test::sigma_by_mpfr(x); }
float bf16(float x) { return decode(encode<kBF16>(x)); }
float f16(float x) { return decode(encode<kF16>(x)); }

/// Every element of some a and some b.
void for_some(const GateRule& gate, bool of_f16,
              const std::function<void(float, float, const GateElement&)>& check) {
  for (const float a : kSome) {
    for (const float b : kSome) check(a, b, GateElement(gate, of_f16, a, b));
  }
}

TEST(GateElements, PlainGateIsSiluTimesTheOtherHalf) {
  for_some({}, false, [](float a, float b, const GateElement& element) {
    const float s = sigmoid(a);
    EXPECT_EQ(element.gated(), (a * s) * b);
    EXPECT_EQ(swiglu_gated(a, b), (a * s) * b);
    const float slope = s * (1.0f + a * (1.0f - s));
    const SwigluGradient named = swiglu_gradient(a, b, 0.75f);
    for (const SwigluGradient& gradient : {element.gradient(0.75f), named}) {
      EXPECT_EQ(gradient.da, (0.75f * slope) * b);
      EXPECT_EQ(gradient.db, 0.75f * (a * s));
    }
  });
}

TEST(GateElements, LimitsClampAndStopTheGradient) {
  const GateRule gate{.alpha = 1.5f, .limit = 7.0f, .up_offset = 1.0f};
  for_some(gate, false, [](float a, float b, const GateElement& element) {
    const float gate_of = std::min(a, 7.0f);
    const float up = std::clamp(b, -7.0f, 7.0f) + 1.0f;
    const float angle = 1.5f * gate_of;
    const float s = sigmoid(angle);
    EXPECT_EQ(element.gated(), (gate_of * s) * up);
    const SwigluGradient gradient = element.gradient(0.75f);
    const float slope = s * (1.0f + angle * (1.0f - s));
    EXPECT_EQ(gradient.da, a <= 7.0f ? (0.75f * slope) * up : 0.0f) << a;
    EXPECT_EQ(gradient.db, std::fabs(b) <= 7.0f ? 0.75f * (gate_of * s) : 0.0f) << b;
  });
}

TEST(GateElements, MinusZeroStaysWithoutAnOffset) {
  EXPECT_TRUE(std::signbit(GateElement({.alpha = 2.0f}, false, 1.0f, -0.0f).gated()));
  EXPECT_FALSE(std::signbit(
      GateElement({.activation = Activation::relu_squared}, false, -0.0f, 1.0f).gated()));
  const GateRule squared{.activation = Activation::relu_squared};
  EXPECT_TRUE(std::signbit(GateElement(squared, false, -0.0f, 1.0f).gradient(1.0f).da));
}

/// Forward in f32, and the smooth function in double.
struct NamedActivation {
  Activation activation;
  float (*named)(float);
  double (*real)(double);
};
constexpr NamedActivation kActivations[] = {
    {Activation::gelu,
     [](float a) {
       const float inner = test::by_mpfr(a * 0.70710678118654752440f, mpfr_erf);
       return (a * 0.5f) * (1.0f + inner);
     },
     [](double a) { return 0.5 * a * (1.0 + std::erf(a * std::sqrt(0.5))); }},
    {Activation::gelu_tanh,
     [](float a) {
       const float cube = (a * a) * a;
       const float inner = 0.79788456080286535588f * (a + 0.044715f * cube);
       return (0.5f * a) * (1.0f + test::by_mpfr(inner, mpfr_tanh));
     },
     [](double a) {
       return 0.5 * a * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (a + 0.044715 * a * a * a)));
     }},
    {Activation::relu_squared, [](float a) { return a < 0.0f ? 0.0f : a * a; },
     [](double a) { return a < 0.0 ? 0.0 : a * a; }}};

double slope_of(const NamedActivation& c, double a) {
  return (c.real(a + 1e-5) - c.real(a - 1e-5)) / 2e-5;
}

TEST(GateElements, ActivationAloneIsStoredInSixteenBits) {
  for (const bool of_f16 : {false, true}) {
    const auto narrow = of_f16 ? f16 : bf16;
    for_some({.bf16_steps = Bf16Steps::activation}, of_f16,
             [&](float a, float b, const GateElement& element) {
               const float s = sigmoid(a);
               EXPECT_EQ(element.gated(), narrow(a * s) * b);
               const float h = narrow(0.75f * b);
               const SwigluGradient gradient = element.gradient(0.75f);
               EXPECT_EQ(gradient.da, (h * s) * (1.0f + a * (1.0f - s)));
               EXPECT_EQ(gradient.db, 0.75f * narrow(a * s));
             });
    // alpha rounds nothing where the activation alone is stored.
    for_some({.bf16_steps = Bf16Steps::activation, .alpha = 1.5f}, of_f16,
             [&](float a, float b, const GateElement& element) {
               const float s = sigmoid(1.5f * a);
               EXPECT_EQ(element.gated(), narrow(a * s) * b);
               const float h = narrow(0.75f * b);
               EXPECT_EQ(element.gradient(0.75f).da, (h * s) * (1.0f + (1.5f * a) * (1.0f - s)));
             });
  }
}

TEST(GateElements, EveryStepIsStoredInSixteenBits) {
  for (const bool of_f16 : {false, true}) {
    const auto narrow = of_f16 ? f16 : bf16;
    const GateRule gate{.bf16_steps = Bf16Steps::every, .alpha = 1.702f, .up_offset = 1.0f};
    for_some(gate, of_f16, [&](float a, float b, const GateElement& element) {
      const float s = narrow(sigmoid(narrow(1.702f * a)));
      const float up = narrow(b + 1.0f);
      EXPECT_EQ(element.gated(), narrow(narrow(a * s) * up));
      const float h = narrow(0.75f * up);
      const float of_sigma = narrow((narrow(h * a) * (1.0f - s)) * s);
      const SwigluGradient gradient = element.gradient(0.75f);
      EXPECT_EQ(gradient.da, narrow(h * s) + narrow(of_sigma * 1.702f));
      EXPECT_EQ(gradient.db, 0.75f * narrow(a * s));
    });
    // Without alpha sigma is no step of its own.
    for_some({.bf16_steps = Bf16Steps::every}, of_f16,
             [&](float a, float b, const GateElement& element) {
               const float s = sigmoid(a);
               EXPECT_EQ(element.gated(), narrow(narrow(a * s) * b));
               const float h = narrow(0.75f * b);
               EXPECT_EQ(element.gradient(0.75f).da, (h * s) * (1.0f + a * (1.0f - s)));
             });
  }
}

TEST(GateElements, OtherActivationsStoreTheProductsGradient) {
  for (const NamedActivation& c : kActivations) {
    for_some({.activation = c.activation, .bf16_steps = Bf16Steps::every}, false,
             [&](float a, float b, const GateElement& element) {
               EXPECT_EQ(element.gated(), bf16(bf16(c.named(a)) * b));
               const double da = slope_of(c, a) * static_cast<double>(bf16(0.75f * b));
               EXPECT_NEAR(element.gradient(0.75f).da, da, 2e-5 * (1 + std::fabs(da)));
             });
  }
}

TEST(GateElements, TritonsSiluIsItsDivision) {
  const auto divisor = [](float a) { return 1.0f + ex2_approx(-a * 0x1.715476p+0f); };
  const GateRule sigma{.arithmetic = GateArithmetic::triton_sm90};
  const GateRule quotient{.arithmetic = GateArithmetic::triton_sm90_quotient};
  for (const float a : {-88.0f, -6.0f, -0.7f, 0.4f, 5.0f}) {
    EXPECT_EQ(GateElement(sigma, false, a, 3.0f).gated(), (a * div_full(1.0f, divisor(a))) * 3.0f);
    EXPECT_EQ(GateElement(quotient, false, a, 3.0f).gated(), div_full(a, divisor(a)) * 3.0f);
  }
  // 1 over 2^127 and more is subnormal, -88 and a little over it is not.
  EXPECT_NE(GateElement(sigma, false, -88.6f, 3.0f).gated(),
            GateElement(quotient, false, -88.6f, 3.0f).gated());
}

}  // namespace
}  // namespace mxo
