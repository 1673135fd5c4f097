// Cases of moe_layer, forward and backward, every step of it kept.
#include "golden/suites/families.h"
#include "golden/suites/selections.h"

namespace mxo {
namespace {

constexpr Index kWidth = 64;     // D
constexpr Index kFeatures = 32;  // F

struct LayerVariant {
  std::string name;
  Settings set;
  int level;
  bool biases = false;
  bool backward = true;
};

const std::vector<LayerVariant>& variants() {
  static const std::vector<LayerVariant> all = {
      {"mxfp8", {{"pipeline", "mxfp8"}}, 0},
      {"bf16", {{"pipeline", "bf16"}}, 0},
      {"quantize_after", {{"pipeline", "quantize_after"}, {"score", "sigmoid"}}, 1},
      {"flow", {{"pipeline", "flow"}, {"scores", "swiglu"}}, 1},
      {"mxfp8_swiglu", {{"pipeline", "mxfp8"}, {"scores", "swiglu"}, {"normalize", "false"}}, 1},
      {"mxfp8_input", {{"pipeline", "mxfp8"}, {"scores", "input"}}, 0},
      {"vllm_input",
       {{"pipeline", "fp8_blockwise"}, {"recipe", "vllm"}, {"scores", "input_bf16"}},
       1},
      {"vllm",
       {{"pipeline", "fp8_blockwise"},
        {"recipe", "vllm"},
        {"bf16_steps", "activation"},
        {"score", "sigmoid"}},
       0},
      {"vllm_up_gpt_oss",
       {{"pipeline", "fp8_blockwise"},
        {"recipe", "vllm_up"},
        {"halves", "interleaved"},
        {"alpha", "1.702"},
        {"limit", "7"},
        {"up_offset", "1"}},
       1},
      {"fp8_rowwise", {{"pipeline", "quantize_after"}, {"recipe", "fp8_rowwise"}}, 1},
      {"vllm_triton",
       {{"pipeline", "fp8_blockwise"},
        {"recipe", "vllm"},
        {"bf16_steps", "activation"},
        {"scores", "second_product"},
        {"combine_steps", "bf16"}},
       0,
       false,
       false},
      {"vllm_triton_input",
       {{"pipeline", "fp8_blockwise"}, {"recipe", "vllm"}, {"scores", "first_product"}},
       1,
       false,
       false},
      {"biases",
       {{"pipeline", "bf16"}, {"score", "softmax_of_chosen"}, {"router_logits", "bf16"}},
       0,
       true},
  };
  return all;
}

/// The router reads feature e of a token as the logit of expert e; the chosen ones are large there.
void choose(Tensor& x, const Tensor& chosen, Index experts) {
  const Index top_k = chosen.extent(1);
  for (Index t = 0; t < x.extent(0); ++t) {
    BF16* row = x.as<BF16>() + t * x.extent(1);
    for (Index e = 0; e < experts; ++e) row[e] = encode<kBF16>(-4.0f);
    for (Index s = 0; s < top_k; ++s) {
      row[chosen.as<std::int32_t>()[t * top_k + s]] =
          encode<kBF16>(4.0f - 0.75f * static_cast<float>(s));
    }
  }
}

NamedTensors operands(const SelectionCase& c, const LayerVariant& v, bool shared,
                      const InputStream& in) {
  NamedTensors tensors;
  const std::vector<Tensor> chosen = selections(c, in);
  for (Index rank = 0; rank < c.ranks; ++rank) {
    const std::vector<Index> shape{c.tokens_of(rank), kWidth};
    const auto add = [&](std::string_view part) {
      const std::string name = rank_operand(rank, part);
      return tensors.emplace(name, in.wide(name, Dtype::bf16, shape, 2)).first;
    };
    choose(add("x")->second, chosen[static_cast<std::size_t>(rank)], c.experts);
    if (v.backward) add("dy");
  }
  Tensor router(Dtype::bf16, {c.experts, kWidth});
  for (Index e = 0; e < c.experts; ++e) router.as<BF16>()[e * kWidth + e] = encode<kBF16>(1.0f);
  tensors.emplace("router", std::move(router));
  const auto add = [&](const std::string& name, std::vector<Index> shape) {
    tensors.emplace(name, in.normal(name, Dtype::bf16, std::move(shape), -2));
  };
  add("w1", {c.experts, 2 * kFeatures, kWidth});
  add("w2", {c.experts, kWidth, kFeatures});
  if (v.biases) {
    add("logits.bias", {c.experts});
    add("w1.bias", {c.experts, 2 * kFeatures});
    add("w2.bias", {c.experts, kWidth});
  }
  if (shared) {
    add("shared.w1", {2 * kFeatures, kWidth});
    add("shared.w2", {kWidth, kFeatures});
  }
  return tensors;
}

}  // namespace

std::vector<SuiteCase> moe_layer_cases(int level) {
  std::vector<SuiteCase> cases;
  for (const SelectionCase& c : selection_cases()) {
    // A router chooses no expert twice and knows no capacity.
    const bool routable =
        c.chosen != Chosen::duplicate_experts && c.chosen != Chosen::dropped_by_capacity;
    if (!routable || c.level > level) continue;
    for (const LayerVariant& v : variants()) {
      if (c.level + v.level > level) continue;
      for (const bool shared : {false, true}) {
        if (shared && (level < 1 || c.name != "plain")) continue;
        Settings set = v.set;
        set.emplace("top_k", std::to_string(c.top_k));
        set.emplace("keep_stages", "true");
        add_case(cases, "moe_layer." + c.name + "." + v.name + (shared ? ".shared" : ""),
                 "moe_layer", std::move(set), c.flags,
                 [c, &v, shared](const InputStream& in) { return operands(c, v, shared, in); });
      }
    }
  }
  return cases;
}

}  // namespace mxo
