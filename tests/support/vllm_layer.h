// A DeepSeek-V3-style expert layer, and what the same steps in PyTorch gave at every stage.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/captures.h"
#include "tests/support/contestants.h"
#include "tests/support/moe_cases.h"
#include "tests/support/products.h"

namespace mxo::test::vllm {

/// Numbers -128 to 127, as `integers` of python/tests/vllm_layer.py.
inline int integer(std::uint32_t i, std::uint32_t salt) {
  std::uint32_t u = i * 2654435761u + salt * 40503u;
  u ^= u >> 15;
  u *= 2246822519u;
  u ^= u >> 13;
  return static_cast<int>(u >> 24) - 128;
}

inline Tensor drawn(Dtype dtype, std::vector<Index> shape, std::uint32_t salt) {
  Tensor t(dtype, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i)
    put(t, i, static_cast<float>(integer(static_cast<std::uint32_t>(i), salt)) / 1024.0f);
  return t;
}

inline constexpr Index kExperts = 8;
inline constexpr Index kWidth = 256;
inline constexpr Index kFeatures = 128;

inline NamedTensors operands() {
  NamedTensors in{{"router", drawn(Dtype::bf16, {kExperts, kWidth}, 1)},
                  {"w1", drawn(Dtype::bf16, {kExperts, 2 * kFeatures, kWidth}, 2)},
                  {"w2", drawn(Dtype::bf16, {kExperts, kWidth, kFeatures}, 3)},
                  {"shared.w1", drawn(Dtype::bf16, {2 * kFeatures, kWidth}, 4)},
                  {"shared.w2", drawn(Dtype::bf16, {kWidth, kFeatures}, 5)},
                  {"router.bias", drawn(Dtype::f32, {kExperts}, 6)}};
  Tensor& bias = in["router.bias"];
  for (Index e = 0; e < kExperts; ++e)
    put(bias, e, get(bias, e) + std::ldexp(1.0f, static_cast<int>(e) - 20));
  Tensor& w1 = in["w1"];
  for (Index e = 0; e < kExperts; ++e) {
    for (Index i = 0; i < kFeatures * kWidth; ++i) {
      const Index at = e * 2 * kFeatures * kWidth + i;
      put(w1, at, std::ldexp(get(w1, at), static_cast<int>(e % 3)));
    }
  }
  in["rank0.x"] = tensor_of(capture("vllm_layer"), "x");
  return in;
}

inline const std::string kLayer =
    "top_k=3 score=sigmoid groups=4 limited_groups=2 scale=2.5 pipeline=fp8_blockwise "
    "bf16_steps=activation sum=deepgemm_sm90 keep_stages=true";

/// Bytes that differ by stage, for those stages in which any do.
inline std::map<std::string, Index> differing_stages(const std::string& backend,
                                                     const std::string& recipe) {
  const NamedTensors out =
      run_moe(*make_backend(backend, 2), operands(), parameters(kLayer + " recipe=" + recipe));
  std::map<std::string, Index> differ;
  Index stages = 0;
  for (const auto& [name, expected_output] : capture("vllm_layer").tensors) {
    if (!name.starts_with(recipe + ".")) continue;
    const std::string stage = name.substr(recipe.size() + 1);
    const Index bytes = differing(expected_output, out.at("rank0." + stage));
    if (bytes != 0) differ[stage] = bytes;
    ++stages;
  }
  EXPECT_EQ(stages, 16);
  EXPECT_EQ(out.size(), 16u);
  return differ;
}

}  // namespace mxo::test::vllm
