// Faults inside an expert layer, named by the step that has them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "golden/explain/steps.h"

#include "tests/golden/planted.h"
#include "tests/golden/ranks.h"

namespace mxo {
namespace {

/// Two ranks, codes of 1x128 blocks, every step kept.
Call layer(const char* scores, const char* pipeline = "fp8_blockwise",
           const char* recipe = "vllm") {
  NamedTensors in;
  in.emplace("rank0.x", random_bf16({24, 128}, 3));
  in.emplace("rank1.x", random_bf16({20, 128}, 4));
  in.emplace("router", random_bf16({8, 128}, 5));
  in.emplace("w1", random_bf16({8, 256, 128}, 6));
  in.emplace("w2", random_bf16({8, 128, 128}, 7));
  Call call = make_call("moe_layer", in,
                        with({{"top_k", "2"},
                              {"pipeline", pipeline},
                              {"recipe", recipe},
                              {"scores", scores},
                              {"keep_stages", "true"}}));
  call.world = &ranks();
  return call;
}

Planted rolled(Backend& b, const char* scores, const char* stage) {
  return spoiled(b, layer(scores), [stage](NamedTensors& out) {
    Tensor& t = out.at(stage);
    const std::size_t row = t.bytes() / static_cast<std::size_t>(t.extent(0));
    std::rotate(t.data(), t.data() + t.bytes() - row, t.data() + t.bytes());
  });
}

const PlantedFault kFaults[] = {
    {"weighed codes arrive a row late", "rows.shifted", "rank1.dispatched.codes as dispatch",
     [](Backend& b) { return rolled(b, "input", "rank1.dispatched.codes"); }},
    {"weighed codes are permuted a row late", "order.rows", "rolled back by 1",
     [](Backend& b) { return rolled(b, "input_bf16", "rank0.permuted.codes"); }},
    {"scales of weighed rows are raised", "scale.rule", "rank1.quantized.scales as quantize",
     [](Backend& b) {
       return spoiled(b, layer("input"), [](NamedTensors& out) {
         Tensor& t = out.at("rank1.quantized.scales");
         for (Index i = 0; i < t.elements(); ++i) {
           float& s = t.as<float>()[i];
           s = std::exp2(std::ceil(std::log2(s)));
         }
       });
     }},
};

class PlantedLayers : public testing::TestWithParam<std::size_t> {};

TEST_P(PlantedLayers, AreNamed) { expect_named(kFaults[GetParam()]); }

INSTANTIATE_TEST_SUITE_P(Faults, PlantedLayers, testing::Range(std::size_t{0}, std::size(kFaults)));

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

/// Steps as calls of other operators give what the layer owes.
TEST_P(LayerSteps, GiveTheBytesOfTheLayer) {
  const auto [pipeline, recipe, scores] = GetParam();
  const auto backend = make_cpu_backend();
  Call call = layer(scores, pipeline, recipe);
  call.replace("rank0.dy", random_bf16({24, 128}, 8));
  call.replace("rank1.dy", random_bf16({20, 128}, 9));
  if (pipeline != std::string("flow") && pipeline != std::string("quantize_after")) {
    call.replace("logits.bias", random_bf16({8}, 10));
    call.replace("w1.bias", random_bf16({8, 256}, 11));
    call.replace("w2.bias", random_bf16({8, 128}, 12));
  }
  const NamedTensors owed = run_call(*backend, call);
  std::set<std::string> known;
  for (const auto& [name, tensor] : owed) {
    for (const StepCall& step : step_calls(*backend, call, owed, name)) {
      const NamedTensors made = run_call(*backend, step.call);
      for (const auto& [own, inner] : step.outputs) {
        known.insert(own);
        const Tensor& there = owed.at(own);
        ASSERT_EQ(there.bytes(), made.at(inner).bytes()) << own;
        EXPECT_EQ(std::memcmp(there.data(), made.at(inner).data(), there.bytes()), 0) << own;
      }
    }
  }
  for (const char* name : {"rank1.logits", "rank1.weights", "rank1.combined"}) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
  if (pipeline == std::string("flow")) return;  // products and gates by its own rules
  for (const char* name :
       {"rank1.act", "rank1.dact", "rank1.dh", "rank1.dpermuted", "dw1", "dw2"}) {
    EXPECT_TRUE(known.contains(name)) << name;
  }
}

}  // namespace
}  // namespace mxo
