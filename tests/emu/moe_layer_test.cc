// The MoE layer: the same bits however it is run, and every stage as the operators it is made of.
#include "ops/moe_layer.h"

#include <cstring>

#include <gtest/gtest.h>

#include "formats/error.h"
#include "tests/support/moe_cases.h"

namespace mxo {
namespace {

using test::joined;
using test::Layer;
using test::layers;
using test::moe_inputs;
using test::MoeShape;
using test::of_rank;
using test::parameters;
using test::run_moe;

class MoeLayers : public testing::TestWithParam<Layer> {
 protected:
  MoeShape shape() const {
    MoeShape s;
    s.shared = GetParam().shared;
    s.biases = GetParam().biases;
    return s;
  }
  Parameters set() const { return parameters(GetParam().set); }
  std::unique_ptr<Backend> cpu_ = make_backend("cpu", 2);
};

INSTANTIATE_TEST_SUITE_P(Layers, MoeLayers, testing::ValuesIn(layers()),
                         [](const auto& layer) { return std::string(layer.param.name); });

void expect_equal(const NamedTensors& a, const NamedTensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    ASSERT_EQ(tensor.shape(), b.at(name).shape()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), b.at(name).data(), tensor.bytes()), 0) << name;
  }
}

TEST_P(MoeLayers, GivesTheSameBitsOnOneTwoFourAndEightRanks) {
  MoeShape s = shape();
  const NamedTensors one = run_moe(*cpu_, moe_inputs(s, 3), set());
  const std::vector<std::vector<Index>> splits = {
      {20, 17}, {0, 37}, {9, 10, 0, 18}, {1, 2, 3, 4, 5, 6, 7, 9}};
  for (const std::vector<Index>& tokens : splits) {
    s.tokens = tokens;
    const NamedTensors many = run_moe(*cpu_, moe_inputs(s, 3), set());
    for (const char* name : {"y", "dx"}) {
      EXPECT_EQ(joined(one, name, 1), joined(many, name, tokens.size()))
          << name << " on " << tokens.size();
    }
    for (const auto& [name, tensor] : one) {
      if (name.starts_with("rank")) continue;
      ASSERT_TRUE(many.contains(name)) << name;
      EXPECT_EQ(std::memcmp(tensor.data(), many.at(name).data(), tensor.bytes()), 0)
          << name << " on " << tokens.size();
    }
  }
}

TEST_P(MoeLayers, GivesTheSameBitsWithRecomputeUnfusedOneThreadAndByTheReference) {
  MoeShape s = shape();
  s.width = s.hidden = 32;
  s.tokens = {20, 17};
  const NamedTensors in = moe_inputs(s, 5);
  const NamedTensors owed = run_moe(*cpu_, in, set());
  Parameters other = set();
  other.set("recompute", "true");
  expect_equal(owed, run_moe(*cpu_, in, other));
  other.set("placement", "unfused");
  expect_equal(owed, run_moe(*cpu_, in, other));
  expect_equal(owed, run_moe(*make_backend("cpu", 1), in, set()));
  expect_equal(owed, run_moe(*make_backend("reference", 1), in, set()));
}

TEST_P(MoeLayers, KeepsEveryStageAndItsGradient) {
  MoeShape s = shape();
  s.tokens = {20, 17};
  Parameters keep = set();
  keep.set("keep_stages", "true");
  const NamedTensors in = moe_inputs(s, 7);
  const NamedTensors plain = run_moe(*cpu_, in, set());
  const NamedTensors kept = run_moe(*cpu_, in, keep);
  for (const auto& [name, tensor] : plain) {
    EXPECT_EQ(std::memcmp(tensor.data(), kept.at(name).data(), tensor.bytes()), 0) << name;
  }
  for (std::size_t p = 0; p < 2; ++p) {
    for (const std::string_view stage : kMoeStages) {
      for (const std::string& name : {std::string(stage), "d" + std::string(stage)}) {
        EXPECT_TRUE(kept.contains(of_rank(p, name)) || kept.contains(of_rank(p, name + ".codes")))
            << name;
      }
    }
  }
  if (GetParam().shared == 0) {
    EXPECT_EQ(joined(kept, "combined", 2), joined(kept, "y", 2));
  }
}

TEST(MoeLayer, TakesAGateWithoutAnUpHalf) {
  NamedTensors in = moe_inputs({}, 13);
  in["w1"] = test::random_floats(Dtype::bf16, {8, 96, 64}, 3, 1);
  const auto cpu = make_backend("cpu", 2);
  for (const char* pipeline : {"mxfp8", "flow", "bf16"}) {
    const NamedTensors out = run_moe(*cpu, in,
                                     parameters({{"top_k", "2"},
                                                 {"pipeline", pipeline},
                                                 {"activation", "relu_squared"},
                                                 {"halves", "gate_only"},
                                                 {"keep_stages", "true"}}));
    const Tensor& h = out.at("rank0.h");
    EXPECT_EQ(h.extent(1), 96);
    if (pipeline == std::string("flow")) continue;  // its activations are codes
    const Tensor& act = out.at("rank0.act");
    ASSERT_EQ(act.shape(), h.shape());
    for (Index i = 0; i < h.elements(); ++i) {
      const float r = std::max(test::get(h, i), 0.0f);
      ASSERT_EQ(test::get(act, i), decode(encode<kBF16>(r * r))) << i;
    }
  }
}

TEST(MoeLayer, TakesNoTokensAtAll) {
  MoeShape s;
  s.shared = 32;
  s.tokens = {0, 0};
  const auto cpu = make_backend("cpu", 2);
  const NamedTensors out = run_moe(*cpu, moe_inputs(s, 1), parameters({{"top_k", "2"}}));
  EXPECT_EQ(out.at("rank1.y").extent(0), 0);
  for (const char* name : {"dw1", "dw2", "drouter", "shared.dw1"}) {
    const Tensor& dw = out.at(name);
    EXPECT_EQ(std::count(dw.data(), dw.data() + dw.bytes(), std::byte{0}),
              static_cast<std::ptrdiff_t>(dw.bytes()))
        << name;
  }
}

struct Mistake {
  const char* what;
  void (*make)(NamedTensors& in, Parameters& set);
  const char* message;
};

const Mistake kMistakes[] = {
    {"three ranks of eight experts",
     [](NamedTensors& in, Parameters&) {
       in["rank2.x"] = in["rank0.x"];
       in["rank2.dy"] = in["rank0.dy"];
     },
     "moe_layer: router: found 8 experts, needs a multiple of the 3 ranks"},
    {"a gradient for one rank", [](NamedTensors& in, Parameters&) { in.erase("rank1.dy"); },
     "moe_layer: rank1.dy: missing, needs to be there for all ranks or none"},
    {"w2 of another width",
     [](NamedTensors& in, Parameters&) {
       in["w2"] = Tensor(Dtype::bf16, {8, 32, 96});
     },
     "moe_layer: w2: found bf16 [8, 32, 96], needs [8, 64, 96]"},
    {"half a shared expert",
     [](NamedTensors& in, Parameters&) {
       in["shared.w1"] = Tensor(Dtype::bf16, {64, 64});
     },
     "moe_layer: shared.w2: needs to be given exactly when shared.w1 is"},
    {"more experts than there are", [](NamedTensors&, Parameters& set) { set.set("top_k", "9"); },
     "moe_layer: top_k: found 9, needs 1 to 8"},
    {"a recipe that the pipeline cannot send",
     [](NamedTensors&, Parameters& set) { set.set("recipe", "fp8_rowwise"); },
     "moe_layer: recipe: found fp8_rowwise, pipeline mxfp8 needs one of the mxfp8 recipes"},
    {"a recipe without blocks of rows",
     [](NamedTensors&, Parameters& set) { set.set("pipeline", "fp8_blockwise"); },
     "recipe: found mxfp8_rceil, pipeline fp8_blockwise needs fp8_blockwise, vllm or vllm_up"},
    {"a format that the recipe's rule has not",
     [](NamedTensors&, Parameters& set) {
       set.set("pipeline", "fp8_blockwise");
       set.set("recipe", "vllm");
       set.set("format", "e4m3fnuz");
     },
     "moe_layer: format: found e4m3fnuz, recipe vllm needs e4m3"},
    {"no alignment", [](NamedTensors&, Parameters& set) { set.set("alignment", "-1"); },
     "moe_layer: alignment: found -1, needs a positive number"},
    {"weights times NaN", [](NamedTensors&, Parameters& set) { set.set("scale", "nan"); },
     "route: scale: found no finite number"},
    {"an alpha of a gate that has none",
     [](NamedTensors&, Parameters& set) {
       set.set("activation", "gelu");
       set.set("alpha", "2");
     },
     "moe_layer: alpha: found with an activation that has none"},
    {"a gate whose weights are half as wide",
     [](NamedTensors&, Parameters& set) { set.set("halves", "gate_only"); },
     "moe_layer: w2: found bf16 [4, 64, 96], needs [4, 64, 192]"},
    {"a gradient of a machine's arithmetic",
     [](NamedTensors&, Parameters& set) { set.set("arithmetic", "triton_sm90"); },
     "moe_layer: arithmetic"},
    {"a bias for other experts",
     [](NamedTensors& in, Parameters&) { in["router.bias"] = Tensor(Dtype::f32, {7}); },
     "route: bias: found f32 [7], needs [8]"},
    {"a bias of logits for other experts",
     [](NamedTensors& in, Parameters&) { in["logits.bias"] = Tensor(Dtype::bf16, {7}); },
     "moe_layer: logits.bias: found bf16 [7], needs [8]"},
    {"a bias of other experts",
     [](NamedTensors& in, Parameters&) {
       in["w2.bias"] = Tensor(Dtype::bf16, {4, 64});
     },
     "moe_layer: w2.bias: found bf16 [4, 64], needs [8, 64]"},
    {"a bias in the flow",
     [](NamedTensors& in, Parameters& set) {
       in["w1.bias"] = Tensor(Dtype::bf16, {8, 192});
       set.set("pipeline", "flow");
     },
     "moe_layer: w1.bias: found with pipeline flow, which has none"},
    {"a bias where padding would be cast along tokens",
     [](NamedTensors& in, Parameters& set) {
       in["w1.bias"] = Tensor(Dtype::bf16, {8, 192});
       set.set("pipeline", "quantize_after");
     },
     "moe_layer: recipe: found mxfp8_rceil, gradients with w1.bias or w2.bias need one whose"},
    {"a bias of logits in f16",
     [](NamedTensors& in, Parameters&) { in["logits.bias"] = Tensor(Dtype::f16, {8}); },
     "moe_layer: logits.bias: found f16, needs bf16 or f32"},
    {"a sum that is close to one",
     [](NamedTensors&, Parameters& set) { set.set("sum.fold", "jont"); }, "did you mean joint?"},
    {"a pipeline that is none", [](NamedTensors&, Parameters& set) { set.set("pipeline", "int4"); },
     "pipeline"},
};

TEST(MoeLayer, SaysWhatIsWrongWithItsOperands) {
  const auto cpu = make_backend("cpu", 1);
  for (const Mistake& mistake : kMistakes) {
    MoeShape s;
    s.tokens = {5, 4};
    NamedTensors in = moe_inputs(s, 1);
    Parameters set = parameters({{"top_k", "2"}});
    mistake.make(in, set);
    try {
      run_moe(*cpu, in, set);
      ADD_FAILURE() << mistake.what;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(mistake.message), std::string::npos)
          << mistake.what << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace mxo
