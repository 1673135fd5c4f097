// Planted causes must come back: alone, first, and by name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "emu/backends.h"
#include "golden/explain/explain.h"
#include "golden/explain/hypotheses.h"
#include "golden/explain/match.h"
#include "golden/suites/philox.h"

namespace mxo {
namespace {

/// About N(0, 1), every 37th column 20 times as large.
Tensor normal_like(std::vector<Index> shape, std::uint64_t seed) {
  Tensor t(Dtype::f32, std::move(shape));
  const Index columns = t.shape().back();
  for (Index i = 0; i < t.elements(); ++i) {
    float sum = -2.0f;
    for (const std::uint32_t word : philox(static_cast<std::uint64_t>(i), 0, seed).word) {
      sum += static_cast<float>(word >> 8) * 0x1p-24f;
    }
    t.as<float>()[i] = sum * (i % columns % 37 == 3 ? 35.0f : 1.73f);
  }
  return t;
}

Tensor bf16_like(std::vector<Index> shape, std::uint64_t seed) {
  const Tensor wide = normal_like(shape, seed);
  Tensor t(Dtype::bf16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) t.as<BF16>()[i] = encode<kBF16>(wide.as<float>()[i]);
  return t;
}

Tensor ends_of(std::vector<std::int32_t> ends) {
  Tensor t(Dtype::i32, {static_cast<Index>(ends.size())});
  std::memcpy(t.data(), ends.data(), t.bytes());
  return t;
}

Parameters with(std::initializer_list<std::pair<const char*, const char*>> settings) {
  Parameters set;
  for (const auto& [key, value] : settings) set.set(key, value);
  return set;
}

std::unique_ptr<Backend> cpu() { return make_cpu_backend(); }

/// Codes and scales of x under `prefix`; every block has a size of its own.
void add_quantized(NamedTensors& to, const std::string& prefix, Tensor x, std::uint64_t seed) {
  for (Index i = 0; i < x.elements(); ++i) {
    const auto word = philox(static_cast<std::uint64_t>(i / 32), 2, seed).word[0];
    x.as<float>()[i] *= std::ldexp(1.0f, static_cast<int>(word % 7) - 3);
  }
  NamedTensors in;
  in.emplace("x", std::move(x));
  NamedTensors out = call_operator(*cpu(), "quantize", in, {});
  to.insert_or_assign(prefix + ".codes", out.at("codes"));
  to.insert_or_assign(prefix + ".scales", out.at("scales"));
}

Call mx_product_to(const char* out) {
  NamedTensors in;
  add_quantized(in, "x", normal_like({192, 768}, 1), 11);
  add_quantized(in, "w", normal_like({3, 96, 768}, 2), 12);
  in.emplace("group_ends", ends_of({40, 70, 192}));
  return make_call("grouped_matmul", in, with({{"out", out}}));
}
Call mx_product() { return mx_product_to("f32"); }
Call mx_product_bf16() { return mx_product_to("bf16"); }

Call bf16_product() {
  NamedTensors in;
  in.emplace("x", bf16_like({64, 1024}, 3));
  in.emplace("w", bf16_like({3, 64, 1024}, 4));
  in.emplace("group_ends", ends_of({30, 30, 64}));
  return make_call("grouped_matmul_bf16", in, with({{"out", "f32"}}));
}

Call rowwise_product() {
  NamedTensors in;
  NamedTensors x, w;
  x.emplace("x", normal_like({48, 1024}, 5));
  w.emplace("x", normal_like({3, 64, 1024}, 6));
  NamedTensors qx = call_operator(*cpu(), "quantize_rowwise", x, with({{"power_of_2", "false"}}));
  NamedTensors qw = call_operator(*cpu(), "quantize_rowwise", w, with({{"power_of_2", "false"}}));
  in.emplace("x.codes", qx.at("codes"));
  in.emplace("x.scales", qx.at("scales"));
  in.emplace("w.codes", qw.at("codes"));
  in.emplace("w.scales", qw.at("scales"));
  in.emplace("group_ends", ends_of({20, 33, 48}));
  return make_call("grouped_matmul_rowwise", in,
                   with({{"sum", "h200_wgmma_fast"}, {"out", "f32"}}));
}

Call quantize_call() {
  Tensor x = normal_like({128, 128}, 7);
  // One of every trap: a bf16 carry, values the scale modes part on, Inf, NaN, subnormals.
  const std::uint32_t traps[] = {0x40600001u, 0x43FFFFFFu, 0x43F00000u, 0x7F800000u, 0x7FC00000u,
                                 0x04600001u, 0x047FFFFFu, 0x00000001u, 0x80000000u};
  for (Index i = 0; i < 9; ++i) {
    auto* block = x.as<std::uint32_t>() + (i * 5 + 2) * 128 + 32;
    for (Index k = 0; k < 32; ++k) block[k] = i == 3 || i == 4 ? 0x3F800000u : 0;
    block[7] = traps[i];
  }
  NamedTensors in;
  in.emplace("x", std::move(x));
  return make_call("quantize", in, {});
}

Call pad_call() {
  NamedTensors in;
  in.emplace("x", bf16_like({100, 16}, 8));
  in.emplace("group_ends", ends_of({33, 33, 70, 100}));
  return make_call("pad_groups", in, {});
}

/// Runs `call` as the hypotheses would have it; false if they say nothing about it.
bool plant(const Call& call, const std::vector<Hypothesis>& chosen, const NamedTensors& right,
           NamedTensors& out) {
  Call altered = call;
  for (const Hypothesis& h : chosen) {
    if (!h.alter(altered)) return false;
  }
  try {
    out = run_call(*cpu(), altered);
  } catch (const Error&) {
    return false;
  }
  for (const Hypothesis& h : chosen) {
    if (h.rewrite && !h.rewrite(altered, out, right)) return false;
  }
  for (const auto& [name, tensor] : out) {
    const auto at = right.find(name);
    if (at == right.end() || at->second.shape() != tensor.shape()) return false;
  }
  return true;
}

class PlantedCauses : public testing::TestWithParam<std::pair<const char*, Call (*)()>> {};

TEST_P(PlantedCauses, AreNamedFirstAndAlone) {
  const Call call = GetParam().second();
  const auto backend = cpu();
  const NamedTensors right = run_call(*backend, call);
  int planted = 0;
  for (const Hypothesis& h : hypotheses_about(call)) {
    // An output of 8 bits hides most of what sums differ in.
    if (h.stage == Stage::sum && call.set.text("out", "bf16") == "bf16") continue;
    NamedTensors wrong;
    if (!plant(call, {h}, right, wrong) || match(right, wrong).identical()) continue;
    ++planted;
    const Explanation e = explain(*backend, call, right, wrong);
    ASSERT_TRUE(e.explained) << h.name << ": " << e.sentence;
    EXPECT_EQ(e.findings.front().names, std::vector<std::string>{h.name}) << e.sentence;
    if (e.findings.size() > 1) {
      EXPECT_GT(e.findings[1].differing, 0) << h.name << ": " << e.sentence;
    }
  }
  RecordProperty("planted", planted);
  std::printf("%s: %d causes planted\n", GetParam().first, planted);
  EXPECT_GT(planted, 0);
}

INSTANTIATE_TEST_SUITE_P(In, PlantedCauses,
                         testing::Values(std::pair{"mx_product", &mx_product},
                                         std::pair{"mx_product_bf16", &mx_product_bf16},
                                         std::pair{"bf16_product", &bf16_product},
                                         std::pair{"rowwise_product", &rowwise_product},
                                         std::pair{"quantize", &quantize_call},
                                         std::pair{"pad_groups", &pad_call}),
                         [](const auto& param) { return std::string(param.param.first); });

const Hypothesis& named(const std::vector<Hypothesis>& list, std::string_view name) {
  for (const Hypothesis& h : list) {
    if (h.name == name) return h;
  }
  throw std::out_of_range(std::string(name));
}

TEST(Explain, NamesBothOfTwoPlantedCauses) {
  const std::pair<Call (*)(), std::pair<const char*, const char*>> pairs[] = {
      {&mx_product, {"x.scales=transposed", "sum=h200_wgmma_fast"}},
      {&mx_product, {"group_ends+1", "sum=fma_chain"}},
      {&mx_product_bf16, {"scales=exchanged", "out=truncated"}},
      {&mx_product, {"expert+1", "sum=h200_wgmma_fast"}},
      {&mx_product, {"x.scales=linear_as_tiles", "w.scales=linear_as_tiles"}},
      {&mx_product_bf16, {"k-32", "out=truncated"}},
      {&rowwise_product, {"group_ends-1", "sum=h200_wgmma_promote4"}},
      {&rowwise_product, {"w.scales=transposed", "sum=fma_chain"}},
      {&quantize_call, {"scale_mode=floor", "format=e5m2"}},
      {&quantize_call, {"scale_mode=floor", "scales=tiles"}},
      {&bf16_product, {"x=transposed", "sum=h200_wgmma_fast sum.split=2"}},
  };
  for (const auto& [make, names] : pairs) {
    const Call call = make();
    const auto backend = cpu();
    const NamedTensors right = run_call(*backend, call);
    const std::vector<Hypothesis> list = hypotheses_about(call);
    NamedTensors wrong;
    ASSERT_TRUE(plant(call, {named(list, names.first), named(list, names.second)}, right, wrong))
        << names.first << " and " << names.second;
    const Explanation e = explain(*backend, call, right, wrong);
    ASSERT_TRUE(e.explained) << names.first << " and " << names.second << ": " << e.sentence;
    EXPECT_EQ(std::set(e.findings.front().names.begin(), e.findings.front().names.end()),
              (std::set<std::string>{names.first, names.second}))
        << e.sentence;
  }
}

TEST(Explain, SaysSoWhenNothingExplainsTheOutput) {
  const Call call = mx_product();
  const auto backend = cpu();
  const NamedTensors right = run_call(*backend, call);
  NamedTensors wrong = right;
  auto* bits = wrong.at("y").as<std::uint16_t>();
  for (Index i = 0; i < wrong.at("y").elements(); ++i) {
    bits[i] = static_cast<std::uint16_t>(bits[i] ^
                                         (philox(static_cast<std::uint64_t>(i), 1, 9).word[0] & 7));
  }
  const Explanation e = explain(*backend, call, right, wrong);
  EXPECT_FALSE(e.explained);
  EXPECT_TRUE(e.sentence.starts_with("nothing known explains it; nearest, at ")) << e.sentence;
}

TEST(Explain, SaysSoWhenNothingDiffers) {
  const Call call = pad_call();
  const auto backend = cpu();
  const NamedTensors right = run_call(*backend, call);
  EXPECT_EQ(explain(*backend, call, right, right).sentence, "bit-identical as it is");
}

}  // namespace
}  // namespace mxo
