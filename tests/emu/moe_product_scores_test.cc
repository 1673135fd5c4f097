// Weights that multiply the sums of a product, as vLLM's and SGLang's Triton kernels have them: row
// by row from grouped_linear's sums in f32.
#include <gtest/gtest.h>

#include "tests/support/contestants.h"
#include "tests/support/moe_cases.h"
#include "tests/support/refusal.h"

namespace mxo::test::moe_product_scores_test {
namespace {

const std::string kBf16 = "top_k=2 pipeline=bf16 keep_stages=true";
const std::string kTriton =
    "top_k=3 pipeline=fp8_blockwise recipe=vllm sum=triton_block_sm90 combine_steps=f32 "
    "keep_stages=true";

MoeShape shape() {
  MoeShape s;
  s.width = s.hidden = 128;
  s.biases = true;
  return s;
}

Parameters with(const std::string& set, const char* scores) {
  return parameters(set + " scores=" + scores);
}

/// What lies in each row: the selection t * k + s, or -1; experts ascending, then tokens.
std::vector<Index> selections(const Tensor& experts, Index alignment) {
  std::vector<Index> rows;
  for (std::int32_t e = 0; e < shape().experts; ++e) {
    for (Index i = 0; i < experts.elements(); ++i)
      if (experts.as<std::int32_t>()[i] == e) rows.push_back(i);
    while (static_cast<Index>(rows.size()) % alignment != 0) rows.push_back(-1);
  }
  return rows;
}

Tensor ends_of(const Tensor& experts, Index alignment) {
  Tensor ends(Dtype::i32, {shape().experts});
  std::int32_t end = 0;
  for (std::int32_t e = 0; e < shape().experts; ++e) {
    const auto* all = experts.as<std::int32_t>();
    const auto count = static_cast<Index>(std::count(all, all + experts.elements(), e));
    end += static_cast<std::int32_t>((count + alignment - 1) / alignment * alignment);
    ends.as<std::int32_t>()[e] = end;
  }
  return ends;
}

/// The sums of `stage` with a bias in f32, by the operator of a layer of experts.
Tensor sums(Backend& backend, const NamedTensors& kept, const NamedTensors& operands,
            const std::string& w, bool triton, const std::string& stage, Index alignment) {
  NamedTensors in{{"w", operands.at(w)},
                  {"bias", operands.at(w + ".bias")},
                  {"group_ends", ends_of(kept.at("rank0.experts"), alignment)}};
  if (kept.contains(stage + ".codes")) {
    in["x.codes"] = kept.at(stage + ".codes");
    in["x.scales"] = kept.at(stage + ".scales");
  } else {
    in["x"] = kept.at(stage);
  }
  const char* recipe = triton ? "recipe=vllm sum=triton_block_sm90" : "recipe=bf16";
  NamedTensors out =
      call_operator(backend, "grouped_linear", in, parameters(std::string("out=f32 ") + recipe));
  return std::move(out.at("y"));
}

void expect_weighed(const Tensor& rows, const Tensor& sums, const NamedTensors& kept,
                    Index alignment) {
  const auto* weights = kept.at("rank0.weights").as<float>();
  const std::vector<Index> selected = selections(kept.at("rank0.experts"), alignment);
  const Index width = rows.extent(1);
  Index differing = 0;
  for (std::size_t r = 0; r < selected.size(); ++r) {
    const float weight = selected[r] < 0 ? 0.0f : weights[selected[r]];
    for (Index j = 0; j < width; ++j) {
      const Index i = static_cast<Index>(r) * width + j;
      differing += encode<kBF16>(sums.as<float>()[i] * weight).bits != rows.as<BF16>()[i].bits;
    }
  }
  EXPECT_EQ(differing, 0);
}

/// With weights at the activations the second bias is weighed alone: Megatron's
/// `output.float() + bias * probs`, of the product in bf16.
TEST(SecondBias, IsAddedTimesTheWeightOfItsRow) {
  const NamedTensors in = moe_inputs(shape(), 3, false);
  for (const std::string& name : every_backend()) {
    SCOPED_TRACE(name);
    const auto backend = make_backend(name, 2);
    const NamedTensors kept = run_moe(*backend, in, with(kBf16, "swiglu"));
    NamedTensors without = in;
    without.erase("w2.bias");
    const NamedTensors product = run_moe(*backend, without, with(kBf16, "swiglu"));
    const Tensor& rows = kept.at("rank0.expert_out");
    const Tensor& bias = in.at("w2.bias");
    const auto* experts = kept.at("rank0.experts").as<std::int32_t>();
    const auto* weights = kept.at("rank0.weights").as<float>();
    const std::vector<Index> selected = selections(kept.at("rank0.experts"), 32);
    Index unlike_plain = 0;
    for (std::size_t r = 0; r < selected.size(); ++r) {
      for (Index d = 0; d < rows.extent(1); ++d) {
        const Index i = static_cast<Index>(r) * rows.extent(1) + d;
        float expected_output = get(product.at("rank0.expert_out"), i);
        if (selected[r] >= 0) {
          const float b = get(bias, experts[selected[r]] * rows.extent(1) + d);
          unlike_plain += encode<kBF16>(expected_output + b).bits != rows.as<BF16>()[i].bits;
          expected_output += b * weights[selected[r]];
        }
        ASSERT_EQ(rows.as<BF16>()[i].bits, encode<kBF16>(expected_output).bits) << r << " " << d;
      }
    }
    EXPECT_GT(unlike_plain, 100);
  }
}

class ProductScores : public testing::TestWithParam<const std::string*> {};
INSTANTIATE_TEST_SUITE_P(Pipelines, ProductScores, testing::Values(&kBf16, &kTriton));

TEST_P(ProductScores, MultiplySumsInF32BeforeTheyAreRounded) {
  const std::string& set = *GetParam();
  const bool triton = GetParam() == &kTriton;
  const Index alignment = triton ? 128 : 32;
  const NamedTensors in = moe_inputs(shape(), 3, false);
  for (const std::string& name : every_backend()) {
    SCOPED_TRACE(name);
    const auto backend = make_backend(name, 2);
    const NamedTensors first = run_moe(*backend, in, with(set, "first_product"));
    expect_weighed(first.at("rank0.h"),
                   sums(*backend, first, in, "w1", triton, "rank0.permuted", alignment), first,
                   alignment);
    const NamedTensors second = run_moe(*backend, in, with(set, "second_product"));
    expect_weighed(second.at("rank0.expert_out"),
                   sums(*backend, second, in, "w2", triton, "rank0.act", alignment), second,
                   alignment);
    const Tensor h = sums(*backend, second, in, "w1", triton, "rank0.permuted", alignment);
    const Index rows = ends_of(second.at("rank0.experts"), alignment).as<std::int32_t>()[7];
    for (Index i = 0; i < rows * h.extent(1); ++i)
      ASSERT_EQ(second.at("rank0.h").as<BF16>()[i].bits, encode<kBF16>(h.as<float>()[i]).bits) << i;
  }
}

TEST_P(ProductScores, AreAddedAsTheyAreAtTheSource) {
  const auto cpu = make_backend("cpu", 2);
  const NamedTensors in = moe_inputs(shape(), 3, false);
  const NamedTensors kept = run_moe(*cpu, in, with(*GetParam(), "second_product"));
  const Tensor& y = kept.at("rank0.y");
  const Tensor& experts = kept.at("rank0.experts");
  const auto rows = selections(experts, GetParam() == &kTriton ? 128 : 32);
  const Index top_k = experts.extent(1);
  std::vector<float> expected_output(static_cast<std::size_t>(y.elements()));
  for (Index i = 0; i < experts.elements(); ++i) {
    const Index r = std::find(rows.begin(), rows.end(), i) - rows.begin();
    for (Index d = 0; d < y.extent(1); ++d)
      expected_output[static_cast<std::size_t>(i / top_k * y.extent(1) + d)] +=
          get(kept.at("rank0.expert_out"), r * y.extent(1) + d);
  }
  for (Index i = 0; i < y.elements(); ++i)
    ASSERT_EQ(get(y, i), decode(encode<kBF16>(expected_output[static_cast<std::size_t>(i)]))) << i;
}

TEST_P(ProductScores, GiveTheSameBitsOnFourRanks) {
  const auto cpu = make_backend("cpu", 2);
  for (const char* scores : {"first_product", "second_product"}) {
    MoeShape s = shape();
    const NamedTensors one = run_moe(*cpu, moe_inputs(s, 3, false), with(*GetParam(), scores));
    s.tokens = {9, 10, 0, 18};
    const NamedTensors four = run_moe(*cpu, moe_inputs(s, 3, false), with(*GetParam(), scores));
    EXPECT_EQ(joined(one, "y", 1), joined(four, "y", 4)) << scores;
  }
}

TEST(ProductScoresErrors, HaveNoGradientsAndNoFlow) {
  const auto cpu = make_backend("cpu", 1);
  const auto says = [&](const NamedTensors& in, const std::string& set,
                        const std::string& message) {
    const std::string said = refusal([&] { run_moe(*cpu, in, with(set, "second_product")); });
    EXPECT_NE(said.find(message), std::string::npos) << message << ": " << said;
  };
  says(moe_inputs(shape(), 3), kBf16, "gradients need combine, swiglu, input or input_bf16");
  says(moe_inputs({}, 3, false), "pipeline=flow", "pipeline flow has combine");
}

}  // namespace
}  // namespace mxo::test::moe_product_scores_test
