// SwiGLU and its gradients: named products of a sigma through 200 bits, slopes in double.
#include "ops/swiglu.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/by_mpfr.h"
#include "tests/support/named_calls.h"

namespace mxo::test {
namespace {

TEST(Swiglu, IsTheNamedProductsOfTheCorrectlyRoundedSigma) {
  NamedTensors in;
  in.emplace("x", normal_floats({37, 2 * 19}, 1, 4.0f));
  in.emplace("probs", normal_floats({37}, 2, 1.0f));
  const NamedTensors out = call("reference", "swiglu", in, {});
  const float* x = in.at("x").as<float>();
  for (Index r = 0; r < 37; ++r) {
    for (Index f = 0; f < 19; ++f) {
      const float a = x[r * 38 + f];
      const float b = x[r * 38 + 19 + f];
      volatile float silu = a * sigma_by_mpfr(a);
      volatile float gated = silu * b;
      EXPECT_EQ(out.at("y").as<float>()[r * 19 + f], gated * in.at("probs").as<float>()[r]);
    }
  }
  EXPECT_TRUE(same_bytes(out, call("cpu", "swiglu", in, {})));
  for (const char* narrow : {"bf16", "f16"}) {
    EXPECT_TRUE(same_bytes(call("reference", "swiglu", in, {{"rounding", narrow}}),
                           call("cpu", "swiglu", in, {{"rounding", narrow}})));
  }
}

/// swiglu of one element in double.
double swiglu_real(double a, double b, double p) { return a / (1.0 + std::exp(-a)) * b * p; }

TEST(SwigluBackward, AgreesWithFiniteDifferencesInDouble) {
  NamedTensors in;
  in.emplace("x", normal_floats({11, 2 * 6}, 3, 2.0f));
  in.emplace("dy", normal_floats({11, 6}, 4, 1.0f));
  in.emplace("probs", normal_floats({11}, 5, 1.0f));
  const NamedTensors out = call("reference", "swiglu_backward", in, {});
  const double h = 1e-5;
  for (Index r = 0; r < 11; ++r) {
    const double p = in.at("probs").as<float>()[r];
    double dprob = 0.0;
    for (Index f = 0; f < 6; ++f) {
      const double a = in.at("x").as<float>()[r * 12 + f];
      const double b = in.at("x").as<float>()[r * 12 + 6 + f];
      const double d = in.at("dy").as<float>()[r * 6 + f];
      const double da = d * (swiglu_real(a + h, b, p) - swiglu_real(a - h, b, p)) / (2 * h);
      const double db = d * (swiglu_real(a, b + h, p) - swiglu_real(a, b - h, p)) / (2 * h);
      dprob += d * (swiglu_real(a, b, p + h) - swiglu_real(a, b, p - h)) / (2 * h);
      EXPECT_NEAR(out.at("dx").as<float>()[r * 12 + f], da, 1e-5 * (1 + std::fabs(da)));
      EXPECT_NEAR(out.at("dx").as<float>()[r * 12 + 6 + f], db, 1e-5 * (1 + std::fabs(db)));
    }
    EXPECT_NEAR(out.at("dprobs").as<float>()[r], dprob, 1e-5 * (1 + std::fabs(dprob)));
  }
  EXPECT_TRUE(same_bytes(out, call("cpu", "swiglu_backward", in, {})));
}

}  // namespace
}  // namespace mxo::test
