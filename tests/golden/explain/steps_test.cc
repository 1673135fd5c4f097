// Operators of many steps: what is said is said of the step that made an output, and steps give
// what the operator expects.
#include <cmath>
#include <set>

#include "golden/explain/steps/steps.h"
#include "tests/golden/planted.h"

namespace mxo::steps_test {
namespace {

/// A gate of four rows that is quantised in blocks of 32, forward or backward.
Call gate(bool backward = false) {
  Call call{backward ? "swiglu_quantize_backward" : "swiglu_quantize", {}, {}};
  call.replace("x", filled<float>(Dtype::f32, {4, 256}, [](Index i) {
                 return static_cast<float>(i * 37 % 101 - 50) / 16;
               }));
  if (!backward) return call;
  call.replace("dy", filled<float>(Dtype::f32, {4, 128}, [](Index i) {
                 return static_cast<float>(i * 41 % 103 - 51) / 32;
               }));
  call.replace("probs", filled<float>(Dtype::f32, {4}, [](Index i) {
                 return 0.25f + 0.125f * static_cast<float>(i);
               }));
  return call;
}

/// Row 2 of codes holds NaN.
void lose_row(NamedTensors& out) {
  std::memset(row_of(out.at("codes"), 2), 0x7F, row_bytes(out.at("codes")));
}

/// Bits of 32 codes in no order, so that no cause gives them.
void spoil(NamedTensors& out) {
  auto* bytes = out.at("codes").as<std::uint8_t>() + 3 * 128;
  for (Index i = 0; i < 32; ++i) bytes[i] ^= static_cast<std::uint8_t>(i * i * 37 % 61 + 1);
}

struct StepFault {
  const char* what;
  bool backward;
  void (*spoil)(NamedTensors& out);
  ExplainVerdict verdict;
  std::vector<std::pair<const char*, const char*>> causes;  ///< tensor, beginning of the sentence
  const char* pattern;                                      ///< how it begins
};

constexpr const char* kLostRow = "codes as quantize: row 2 of codes holds NaN";
const StepFault kGates[] = {
    {"a row of codes", false, lose_row, ExplainVerdict::explained, {{"codes", kLostRow}}, ""},
    {"a row and noise",
     false,
     [](NamedTensors& out) {
       lose_row(out);
       spoil(out);
     },
     ExplainVerdict::partly,
     {{"codes", kLostRow}},
     "codes as quantize: 32 elements differ"},
    {"both outputs",
     false,
     [](NamedTensors& out) {
       lose_row(out);
       std::memset(out.at("scales").data(), 0, out.at("scales").bytes());
     },
     ExplainVerdict::explained,
     {{"codes", kLostRow}, {"scales", "codes as quantize: all of scales hold zeros"}},
     ""},
    // The gradient of probabilities is no output of a step that is a call.
    {"more than a step has",
     true,
     [](NamedTensors& out) {
       lose_row(out);
       out.at("dprobs").as<std::uint32_t>()[1] ^= 0x00400000u;
     },
     ExplainVerdict::explained,
     {{"codes", "row 2 of codes holds NaN"}, {"dprobs", ""}},
     ""},
    {"noise", false, spoil, ExplainVerdict::unknown, {}, ""},
};

class ExplainedSteps : public testing::TestWithParam<StepFault> {};
INSTANTIATE_TEST_SUITE_P(All, ExplainedSteps, testing::ValuesIn(kGates));
TEST_P(ExplainedSteps, AreNamedWithTheirCause) {
  const StepFault& row = GetParam();
  const auto backend = make_reference_backend();
  const Planted p = spoiled(*backend, gate(row.backward), row.spoil);
  const Explanation e = explained(p);
  EXPECT_EQ(e.verdict, row.verdict) << row.what << ": " << e.sentence();
  ASSERT_EQ(e.causes.size(), row.causes.size()) << row.what << ": " << e.sentence();
  double share = 0;
  for (std::size_t i = 0; i < e.causes.size(); ++i) {
    EXPECT_EQ(e.causes[i].where.tensor, row.causes[i].first) << row.what;
    EXPECT_TRUE(e.causes[i].sentence.starts_with(row.causes[i].second)) << e.sentence();
    share += e.causes[i].share;
  }
  const double whole = row.verdict == ExplainVerdict::explained ? 1 : 0.8;
  EXPECT_NEAR(share, row.causes.empty() ? 0 : whole, 1e-9) << row.what;
  EXPECT_TRUE(e.pattern.starts_with(row.pattern)) << e.pattern;
}

TEST(ExplainedStep, OfSeveralOutputsIsOfTheOneAsked) {
  const auto backend = make_reference_backend();
  const Planted p = with_setting(*backend, gate(), "format", "e5m2");
  const Explanation e = explained(p);
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes[0].id, "format=e5m2");
  EXPECT_EQ(e.causes[0].where.tensor, "codes") << e.sentence();
}

/// Two ranks with every step kept.
Call layer(const char* scores, const char* pipeline = "fp8_blockwise",
           const char* recipe = "vllm") {
  Call call = of("moe_layer",
                 {{"rank0.x", random_bf16({24, 128}, 3)},
                  {"rank1.x", random_bf16({20, 128}, 4)},
                  {"router", random_bf16({8, 128}, 5)},
                  {"w1", random_bf16({8, 256, 128}, 6)},
                  {"w2", random_bf16({8, 128, 128}, 7)}},
                 {{"top_k", "2"},
                  {"pipeline", pipeline},
                  {"recipe", recipe},
                  {"scores", scores},
                  {"keep_stages", "true"}});
  call.world = &ranks();
  return call;
}

Planted rolled(Backend& b, const char* scores, const char* stage) {
  return spoiled(b, layer(scores), [stage](NamedTensors& out) {
    Tensor& t = out.at(stage);
    std::rotate(t.data(), t.data() + t.bytes() - row_bytes(t), t.data() + t.bytes());
  });
}

/// What a layer returns where combine gets weights of 1.
Planted unweighed(Backend& b) {
  Call staged = layer("combine", "bf16", "mxfp8_rceil");
  staged.replace("router", times(staged.input("router"), 1 / 64.0f));  // weights of one size
  const NamedTensors stages = run_call(b, staged);
  Call combine =
      of("combine", {}, "experts=8 precision=bf16 layout=expert_major_padded alignment=32");
  combine.world = &ranks();
  for (const std::string rank : {"rank0.", "rank1."}) {
    combine.replace(rank + "y", stages.at(rank + "expert_out"));
    combine.replace(rank + "experts", stages.at(rank + "experts"));
    Tensor weights = stages.at(rank + "weights");
    std::fill_n(weights.as<float>(), weights.elements(), 1.0f);
    combine.replace(rank + "weights", std::move(weights));
  }
  const NamedTensors made = run_call(b, combine);
  Call call = staged;
  call.set.set("keep_stages", "false");
  return spoiled(b, call, [&](NamedTensors& out) {
    for (const std::string rank : {"rank0.", "rank1."}) out.at(rank + "y") = made.at(rank + "out");
  });
}

const PlantedFault kLayers[] = {
    {"rows come back without their weights", "weights=left_out", "as combine: router weights",
     unweighed},
    {"weighed codes arrive a row late", "rows.shifted", "rank1.dispatched.codes as dispatch",
     planted_by(rolled, "input", "rank1.dispatched.codes")},
    {"weighed codes are permuted a row late", "order.rows", "rolled back by 1",
     planted_by(rolled, "input_bf16", "rank0.permuted.codes")},
    {"scales of weighed rows are raised", "scale.rule", "rank1.quantized.scales as quantize",
     spoils([](Backend&) { return layer("input"); },
            [](NamedTensors& out) {
              Tensor& t = out.at("rank1.quantized.scales");
              t = mapped(t, [](Index, float s) { return std::exp2(std::ceil(std::log2(s))); });
            })},
};

TEST(PlantedLayers, AreNamed) { expect_named(kLayers); }

/// Steps as calls of other operators give the bytes of the whole; which of them it gave.
std::set<std::string> steps_given(Backend& backend, const Call& call) {
  const NamedTensors expected_output = run_call(backend, call);
  std::set<std::string> known;
  for (const auto& [name, tensor] : expected_output) {
    for (const StepCall& step : step_calls(backend, call, expected_output, name)) {
      const NamedTensors made = run_call(backend, step.call);
      for (const auto& [own, inner] : step.outputs) {
        known.insert(own);
        const Tensor& there = expected_output.at(own);
        const bool same = there.bytes() == made.at(inner).bytes() &&
                          std::memcmp(there.data(), made.at(inner).data(), there.bytes()) == 0;
        EXPECT_TRUE(same) << own;
      }
    }
  }
  return known;
}

struct Pipeline {
  const char* name;
  const char* recipe;
  const char* scores;
};

class LayerSteps : public testing::TestWithParam<Pipeline> {};
INSTANTIATE_TEST_SUITE_P(Pipelines, LayerSteps,
                         testing::Values(Pipeline{"fp8_blockwise", "vllm", "combine"},
                                         Pipeline{"fp8_blockwise", "vllm_up", "swiglu"},
                                         Pipeline{"fp8_blockwise", "vllm", "input"},
                                         Pipeline{"fp8_blockwise", "fp8_blockwise", "input_bf16"},
                                         Pipeline{"mxfp8", "mxfp8_floor", "combine"},
                                         Pipeline{"mxfp8", "mxfp8_rceil", "input"},
                                         Pipeline{"bf16", "mxfp8_rceil", "swiglu"},
                                         Pipeline{"quantize_after", "fp8_rowwise", "combine"},
                                         Pipeline{"flow", "mxfp8_rceil", "swiglu"}));

TEST_P(LayerSteps, GiveTheBytesOfTheLayer) {
  const auto [pipeline, recipe, scores] = GetParam();
  const auto backend = make_cpu_backend();
  const bool by_own_rules = pipeline == std::string("flow");
  Call call = layer(scores, pipeline, recipe);
  call.replace("rank0.dy", random_bf16({24, 128}, 8));
  call.replace("rank1.dy", random_bf16({20, 128}, 9));
  if (!by_own_rules && pipeline != std::string("quantize_after")) {
    call.replace("logits.bias", random_bf16({8}, 10));
    call.replace("w1.bias", random_bf16({8, 256}, 11));
    call.replace("w2.bias", random_bf16({8, 128}, 12));
  }
  const std::set<std::string> known = steps_given(*backend, call);
  for (const char* name : {"logits", "weights", "combined", "act", "dact", "dh", "dpermuted"}) {
    const bool made = !by_own_rules || std::string_view("logits weights combined").find(name) !=
                                           std::string_view::npos;
    EXPECT_EQ(known.contains(std::string("rank1.") + name), made) << name;
  }
  for (const char* name : {"dw1", "dw2"}) EXPECT_EQ(known.contains(name), !by_own_rules) << name;
}

Call linear(const char* recipe, bool biased) {
  NamedTensors in{{"x", random_bf16({160, 128}, 9)}};
  in.emplace("w", random_bf16({3, 128, 128}, 10));
  in.emplace("dy", random_bf16({160, 128}, 13));
  if (biased) in.emplace("bias", random_bf16({3, 128}, 11));
  in.emplace("group_ends", ends_of({32, 32, 160}));
  return make_call("grouped_linear", in, with({{"recipe", recipe}}));
}

class LinearSteps : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Recipes, LinearSteps,
                         testing::Values("bf16", "mxfp8_rceil", "mxfp8_floor", "fp8_blockwise",
                                         "fp8_rowwise", "vllm", "vllm_up"));
TEST_P(LinearSteps, GiveTheBytesOfTheLayer) {
  const auto backend = make_cpu_backend();
  for (const bool biased : {false, true}) {
    std::set<std::string> expected{"dw", "dx", "y"};
    if (biased) expected.insert("dbias");
    EXPECT_EQ(steps_given(*backend, linear(GetParam(), biased)), expected);
  }
}

/// Every cast that is not the recipe's, by its name.
TEST(LinearCasts, AreThoseOfEachSide) {
  const auto backend = make_cpu_backend();
  const Call call = linear("mxfp8_rceil", false);
  for (const char* name : {"y", "dx", "dw"}) {
    std::multiset<std::string> ids;
    std::set<std::string> answers;
    for (const StepAlternative& other : cast_alternatives(*backend, call, name)) {
      ids.insert(other.id);
      const Tensor made = run_call(*backend, other.step.call).begin()->second;
      answers.emplace(reinterpret_cast<const char*>(made.data()), made.bytes());
    }
    const std::multiset<std::string> both{"cast=dequantised", "cast=not_cast",   "cast=not_cast",
                                          "cast=other_axis",  "cast=other_axis", "cast=twice",
                                          "cast=twice",       "cast=both_twice", "cast=flat_scales",
                                          "cast=flat_scales"};
    EXPECT_EQ(ids, both) << name;
    EXPECT_GE(answers.size(), 7u) << name << ": few are alike";
  }
}

}  // namespace
}  // namespace mxo::steps_test
