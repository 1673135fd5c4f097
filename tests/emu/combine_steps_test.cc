// combine that rounds every step to 16 bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "emu/communicators.h"
#include "tests/support/named_calls.h"

namespace mxo {
namespace {

using test::call;
using test::normal_floats;
using test::same_bytes;

float as_bf16(float v) { return decode(encode<kBF16>(v)); }
/// By a multiple of the unit in the last place.
float as_f16(float v) {
  if (v == 0.0f) return v;
  const int unit = std::max(std::ilogb(v), -14) - 10;
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(v), -unit)), unit));
}
float value(const Tensor& t, Index i) {
  return visit_wide_float(
      t.dtype(), [&](auto tag) { return to_float(t.as<typename decltype(tag)::type>()[i]); });
}

class CombineSteps16 : public testing::TestWithParam<const char*> {};

TEST_P(CombineSteps16, RoundEveryProductAndEverySum) {
  const Index tokens = 40;
  const Index width = 24;
  NamedTensors in;
  in.emplace("rank0.y", call("cpu", "cast", {{"x", normal_floats({tokens * 3, width}, 25, 2.0f)}},
                             {{"out", GetParam()}})
                            .at("y"));
  in.emplace("rank0.weights", normal_floats({tokens, 3}, 26, 1.0f));
  Tensor experts(Dtype::i32, {tokens, 3});
  for (Index i = 0; i < experts.elements(); ++i) {
    experts.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 3);
  }
  in.emplace("rank0.experts", experts);
  const auto combined = [&](const char* backend, const char* steps) {
    Parameters set;
    set.set("experts", "3");
    set.set("steps", steps);
    set.set("precision", "bf16");
    const auto world = make_world("in_process");
    return call_operator(*make_backend(backend, 2), "combine", in, set, world.get());
  };
  const NamedTensors out = combined("reference", "bf16");
  const auto narrow = std::string(GetParam()) == "f16" ? as_f16 : as_bf16;
  // Expert by expert, token by token: the row of slot s of token t is s * tokens + t.
  for (Index t = 0; t < tokens; ++t) {
    for (Index d = 0; d < width; ++d) {
      float acc = 0.0f;
      for (Index s = 0; s < 3; ++s) {
        const float row = value(in.at("rank0.y"), (s * tokens + t) * width + d);
        acc = narrow(acc + narrow(row * in.at("rank0.weights").as<float>()[t * 3 + s]));
      }
      ASSERT_EQ(value(out.at("rank0.out"), t * width + d), acc) << t << " " << d;
    }
  }
  EXPECT_TRUE(same_bytes(out, combined("cpu", "bf16")));
  EXPECT_EQ(name_of(out.at("rank0.out").dtype()), GetParam());
  EXPECT_FALSE(same_bytes(out, combined("cpu", "f32")));
  EXPECT_TRUE(same_bytes(combined("reference", "f32"), combined("cpu", "f32")));
}
INSTANTIATE_TEST_SUITE_P(Types, CombineSteps16, testing::Values("bf16", "f16"));

}  // namespace
}  // namespace mxo
