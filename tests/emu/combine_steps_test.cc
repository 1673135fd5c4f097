// combine that rounds every step to bf16.
#include <gtest/gtest.h>

#include "emu/communicators.h"
#include "tests/support/named_calls.h"

namespace mxo {
namespace {

using test::call;
using test::normal_floats;
using test::same_bytes;

TEST(Combine, InBf16RoundsEveryProductAndEverySum) {
  const Index tokens = 40;
  const Index width = 24;
  NamedTensors in;
  in.emplace(
      "rank0.y",
      call("cpu", "cast", {{"x", normal_floats({tokens * 3, width}, 25, 2.0f)}}, {}).at("y"));
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
  const auto bf16 = [](float v) { return decode(encode<kBF16>(v)); };
  // Expert by expert, token by token: the row of slot s of token t is s * tokens + t.
  for (Index t = 0; t < tokens; ++t) {
    for (Index d = 0; d < width; ++d) {
      float acc = 0.0f;
      for (Index s = 0; s < 3; ++s) {
        const float row = decode(in.at("rank0.y").as<BF16>()[(s * tokens + t) * width + d]);
        acc = bf16(acc + bf16(row * in.at("rank0.weights").as<float>()[t * 3 + s]));
      }
      ASSERT_EQ(decode(out.at("rank0.out").as<BF16>()[t * width + d]), acc) << t << " " << d;
    }
  }
  EXPECT_TRUE(same_bytes(out, combined("cpu", "bf16")));
  EXPECT_FALSE(same_bytes(out, combined("cpu", "f32")));
}

}  // namespace
}  // namespace mxo
