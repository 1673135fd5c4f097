// The gate that a call names, word by word.
#include "ops/catalogue/gate_parameters.h"

#include <gtest/gtest.h>

namespace mxo {
namespace {

GateRule gate(std::string_view key, std::string_view value) {
  Parameters set;
  set.set(key, value);
  return gate_of(set);
}

TEST(GateParameters, ActivationsHaveNames) {
  EXPECT_EQ(gate("activation", "silu").activation, Activation::silu);
  EXPECT_EQ(gate("activation", "gelu").activation, Activation::gelu);
  EXPECT_EQ(gate("activation", "gelu_tanh").activation, Activation::gelu_tanh);
  EXPECT_EQ(gate("activation", "relu_squared").activation, Activation::relu_squared);
}

TEST(GateParameters, StepsAndMachinesHaveNames) {
  EXPECT_EQ(gate("bf16_steps", "none").bf16_steps, Bf16Steps::none);
  EXPECT_EQ(gate("bf16_steps", "activation").bf16_steps, Bf16Steps::activation);
  EXPECT_EQ(gate("bf16_steps", "every").bf16_steps, Bf16Steps::every);
  EXPECT_EQ(gate("arithmetic", "rounded").arithmetic, GateArithmetic::rounded);
  EXPECT_EQ(gate("arithmetic", "triton_sm90").arithmetic, GateArithmetic::triton_sm90);
  EXPECT_EQ(gate("arithmetic", "triton_sm90_quotient").arithmetic,
            GateArithmetic::triton_sm90_quotient);
}

TEST(GateParameters, NumbersAreTakenAsTheyAre) {
  EXPECT_EQ(gate("alpha", "1.75").alpha, 1.75f);
  EXPECT_EQ(gate("limit", "7").limit, 7.0f);
  EXPECT_EQ(gate("up_offset", "-0.5").up_offset, -0.5f);
}

}  // namespace
}  // namespace mxo
