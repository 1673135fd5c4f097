// Certified bounds of combine where slots name no expert, and of rows in f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "golden/judge/bound.h"
#include "ops/catalogue.h"
#include "tests/support/random_tensors.h"

namespace mxo {
namespace {

TEST(Bound, HoldsAbsentSlotsAndRowsOfF32) {
  Tensor experts(Dtype::i32, {3, 2});
  const std::int32_t chosen[] = {0, -1, -1, -1, 1, 0};
  std::copy_n(chosen, 6, experts.as<std::int32_t>());
  NamedTensors in;
  in.emplace("rank0.experts", experts);
  in.emplace("rank0.y", test::random_floats(Dtype::f32, {3, 32}, 1, 1));
  in.emplace("rank0.weights", test::random_floats(Dtype::f32, {3, 2}, 2, 1));
  Parameters set;
  set.set("experts", "2");
  const auto world = make_in_process_world();
  const NamedTensors out = call_operator(*make_backend("cpu", 1), "combine", in, set, world.get());
  const Tensor& sums = out.at("rank0.out");
  const auto bound = certified_bound("combine", "rank0.out", in, set, "");
  ASSERT_TRUE(bound);
  for (Index i = 0; i < sums.elements(); ++i) {
    const auto value = static_cast<double>(sums.as<float>()[i]);
    EXPECT_TRUE(bound->admits(i, Dtype::f32, value)) << i;
    EXPECT_FALSE(bound->admits(i, Dtype::f32, value + std::fabs(value) * 0x1p-12 + 1e-20)) << i;
    EXPECT_TRUE(i / 32 != 1 || value == 0.0) << "no slot, nothing is added";
  }
}

}  // namespace
}  // namespace mxo
