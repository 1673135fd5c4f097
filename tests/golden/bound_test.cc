// Certified bounds: how large they are, and what they let through.
#include "golden/judge/bound.h"

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "formats/error.h"
#include "golden/judge/comparator.h"
#include "tests/golden/product_inputs.h"

namespace mxo {
namespace {

TEST(Bound, IsGammaTimesTheMagnitudesAndHalfAStep) {
  const NamedTensors in = product_inputs();
  const auto bound = certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, "");
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->exact[0], 32);
  const double gamma = 32 * 0x1p-24 / (1 - 32 * 0x1p-24);
  const double allowed = gamma * 32 + 32 * (1 + gamma) * 0x1p-24;
  EXPECT_GE(bound->allowed[0], allowed);
  EXPECT_LE(bound->allowed[0], allowed * 1.0001);
  const auto exact = certified_bound("grouped_matmul", "y", in, {}, Dtype::bf16, "exact");
  EXPECT_NEAR(exact->allowed[0], 32 * 0x1p-8, 1e-6);
  EXPECT_FALSE(certified_bound("quantize", "codes", in, {}, Dtype::e4m3, ""));
  EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, "unknown"), Error);
}

TEST(Bound, HoldsForAnyOrderOfF32AdditionAndRefusesMore) {
  // Cancellation: the bound follows the magnitudes, not the small result.
  NamedTensors in = product_inputs();
  for (Index i = 0; i < 32; i += 2) in.at("x.codes").as<std::uint8_t>()[i] = 0xB9;  // -1.125
  const auto backend = make_reference_backend();
  Parameters f32;
  f32.set("out", "f32");
  const Tensor y = call_operator(*backend, "grouped_matmul", in, f32).at("y");
  const auto bound = certified_bound("grouped_matmul", "y", in, f32, Dtype::f32, "");
  Owed owed;
  owed.expected = &y;
  owed.format = Dtype::f32;
  owed.bound = &*bound;
  CompareOptions options;
  options.gate = parse_gate("bound");
  EXPECT_EQ(bound->exact[0], -2);
  Tensor near = y;
  near.as<float>()[0] += static_cast<float>(0.9 * bound->allowed[0]);
  EXPECT_NE(near.as<float>()[0], y.as<float>()[0]);
  EXPECT_EQ(compare_tensor("y", owed, near, options).outcome, Outcome::pass);
  Tensor far = y;
  far.as<float>()[0] += static_cast<float>(1.1 * bound->allowed[0]);
  EXPECT_EQ(compare_tensor("y", owed, far, options).outcome, Outcome::fail);
}

TEST(Bound, RefusesOperandsThatTheOperatorWouldRefuse) {
  const auto ends = [](Dtype type, std::vector<Index> shape) { return Tensor(type, shape); };
  const auto refuses = [](const char* name, Tensor tensor) {
    NamedTensors in = product_inputs();
    in.insert_or_assign(name, std::move(tensor));
    EXPECT_THROW(certified_bound("grouped_matmul", "y", in, {}, Dtype::f32, ""), Error) << name;
  };
  refuses("group_ends", ends(Dtype::u8, {4}));
  refuses("group_ends", ends(Dtype::i32, {1, 1}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {1 << 30}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {1}, {-1}));
  refuses("group_ends", tensor_from<std::int32_t>(Dtype::i32, {2}, {2, 1}));
  refuses("x.codes", Tensor(Dtype::u8, {64}));
  refuses("x.scales", Tensor(Dtype::u8, {2, 3}));
  refuses("w.codes", Tensor(Dtype::u8, {1, 1, 64}));
}

}  // namespace
}  // namespace mxo
