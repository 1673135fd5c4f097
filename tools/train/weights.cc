// Names, and parts of tensors that have them.
#include "tools/train/weights.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/safetensors.h"

namespace mxo::tools {
namespace {

/// Rows of a whole parameter, seen as a matrix or a vector, under a name.
struct Part {
  std::string name;       ///< of transformers
  std::string parameter;  ///< ours
  Index first;            ///< number in it, of all its elements
  std::vector<Index> shape;
};

struct Family {
  const char* architecture;
  const char* type;
  const char* moe;   ///< what the block of experts is called
  const char* gate;  ///< the left factor of an expert,
  const char* up;    ///< the right one,
  const char* down;  ///< and its second product
};
constexpr Family kMixtral{"MixtralForCausalLM", "mixtral", "block_sparse_moe", "w1", "w3", "w2"};
constexpr Family kGlm{"Glm4MoeForCausalLM", "glm4_moe", "mlp", "gate_proj", "up_proj", "down_proj"};

const Family& family_of(const TrainOptions& o) {
  if (o.score == "sigmoid" && o.group_score == "two_best" && o.other_groups == "excluded" &&
      o.experts > o.groups) {
    return kGlm;
  }
  if (o.score == "softmax" && o.normalize && o.scale == 1.0 && o.shared_experts == 0 &&
      o.bias_rate == 0 && o.groups == 1) {
    return kMixtral;
  }
  throw Error(
      Fault::unsupported,
      "export: needs the routes of Mixtral (softmax, normalize, nothing else) or of GLM-4.5 "
      "and DeepSeek-V3 (sigmoid; groups scored by two_best, others excluded)");
}

std::vector<Part> parts_of(const TrainOptions& o) {
  const Family& family = family_of(o);
  const Index d = o.width;
  const Index f = o.expert_width;
  std::vector<Part> parts = {{"model.embed_tokens.weight", "tokens", 0, {256, d}},
                             {"model.norm.weight", "final.gain", 0, {d}},
                             {"lm_head.weight", "head", 0, {256, d}}};
  const auto gated = [&](const std::string& to, const std::string& w1, const std::string& w2,
                         Index number, Index width) {
    const Index first = number * 2 * width * d;
    parts.push_back({to + family.gate + ".weight", w1, first, {width, d}});
    parts.push_back({to + family.up + ".weight", w1, first + width * d, {width, d}});
    parts.push_back({to + family.down + ".weight", w2, number * d * width, {d, width}});
  };
  for (Index i = 0; i < o.layers; ++i) {
    const std::string to = fmt::format("model.layers.{}.", i);
    const std::string from = fmt::format("layer{}.", i);
    const std::string moe = to + family.moe + ".";
    parts.push_back({to + "input_layernorm.weight", from + "attention.gain", 0, {d}});
    parts.push_back({to + "post_attention_layernorm.weight", from + "moe.gain", 0, {d}});
    const char* const kOf[] = {"q", "k", "v"};
    for (Index j = 0; j < 3; ++j) {
      parts.push_back({fmt::format("{}self_attn.{}_proj.weight", to, kOf[j]),
                       from + "attention.qkv",
                       j * d * d,
                       {d, d}});
    }
    parts.push_back({to + "self_attn.o_proj.weight", from + "attention.out", 0, {d, d}});
    parts.push_back({moe + "gate.weight", from + "moe.router", 0, {o.experts, d}});
    if (o.bias_rate > 0) {
      parts.push_back({moe + "gate.e_score_correction_bias", from + "moe.bias", 0, {o.experts}});
    }
    for (Index e = 0; e < o.experts; ++e) {
      gated(fmt::format("{}experts.{}.", moe, e), from + "moe.w1", from + "moe.w2", e, f);
    }
    if (o.shared_experts > 0) {
      gated(moe + "shared_experts.", from + "moe.shared_w1", from + "moe.shared_w2", 0,
            o.shared_experts * f);
    }
  }
  return parts;
}

nlohmann::ordered_json config_of(const TrainOptions& o) {
  const Family& family = family_of(o);
  nlohmann::ordered_json config{
      {"architectures", {family.architecture}},
      {"model_type", family.type},
      {"dtype", "float32"},
      {"vocab_size", 256},
      {"hidden_size", o.width},
      {"num_hidden_layers", o.layers},
      {"num_attention_heads", o.heads},
      {"num_key_value_heads", o.heads},
      {"head_dim", o.width / o.heads},
      {"max_position_embeddings", o.context},
      {"rms_norm_eps", 1e-6},
      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
      {"tie_word_embeddings", false},
      {"num_experts_per_tok", o.top_k},
      {"bos_token_id", nullptr},
      {"eos_token_id", nullptr}};
  if (&family == &kMixtral) {
    config["num_local_experts"] = o.experts;
    config["intermediate_size"] = o.expert_width;
    return config;
  }
  config["n_routed_experts"] = o.experts;
  config["moe_intermediate_size"] = o.expert_width;
  config["n_shared_experts"] = o.shared_experts;
  config["n_group"] = o.groups;
  config["topk_group"] = o.limited_groups > 0 ? o.limited_groups : o.groups;
  config["norm_topk_prob"] = o.normalize;
  config["routed_scaling_factor"] = o.scale;
  config["first_k_dense_replace"] = 0;
  config["num_nextn_predict_layers"] = 0;
  config["rope_parameters"]["partial_rotary_factor"] = 1.0;
  config["partial_rotary_factor"] = 1.0;
  return config;
}

const Tensor& tensor_of(const std::filesystem::path& path, const TensorFile& file,
                        const std::string& name, const std::vector<Index>& shape) {
  const auto at = file.tensors.find(name);
  if (at == file.tensors.end()) {
    throw Error(Fault::file, path.string() + ": has no tensor '" + name + "'");
  }
  if (at->second.dtype() != Dtype::f32 || at->second.shape() != shape) {
    throw Error(Fault::file, path.string() + ": tensor '" + name + "' has another shape or type");
  }
  return at->second;
}

/// Elements `first` and on of the whole parameter: those that are of this rank.
void put(Parameter& p, const Communicator& communicator, Index first, const Tensor& from) {
  const Index begin = p.sharding == Sharding::experts ? communicator.rank() * p.elements() : 0;
  const Index low = std::max(first, begin);
  const Index high = std::min(first + from.elements(), begin + p.elements());
  if (low < high) {
    std::copy(from.as<float>() + (low - first), from.as<float>() + (high - first),
              p.value.as<float>() + (low - begin));
  }
}

}  // namespace

void read_weights(const std::filesystem::path& path, const TrainOptions& options,
                  const Communicator& communicator, Parameters& parameters) {
  const TensorFile file = read_safetensors(path);
  if (file.tensors.contains("value.tokens")) {
    read_values(read_snapshot(path), communicator, parameters);
    return;
  }
  const std::vector<Part> parts = parts_of(options);
  for (const auto& [name, tensor] : file.tensors) {
    const auto same = [&key = name](const Part& part) { return part.name == key; };
    if (std::none_of(parts.begin(), parts.end(), same))
      throw Error(Fault::file, path.string() + ": the model has no '" + name + "'");
  }
  for (const Part& part : parts) {
    put(parameters[part.parameter], communicator, part.first,
        tensor_of(path, file, part.name, part.shape));
  }
}

void export_model(const Snapshot& snapshot, const std::filesystem::path& directory) {
  TensorFile out;
  out.metadata["format"] = "pt";
  for (const Part& part : parts_of(snapshot.options)) {
    const auto at = snapshot.file.tensors.find("value." + part.parameter);
    Tensor tensor(Dtype::f32, part.shape);
    if (at == snapshot.file.tensors.end() || at->second.dtype() != Dtype::f32 ||
        at->second.elements() < part.first + tensor.elements()) {
      throw Error(Fault::file, "checkpoint: has no whole tensor 'value." + part.parameter + "'");
    }
    std::memcpy(tensor.data(), at->second.as<float>() + part.first, tensor.bytes());
    out.tensors.emplace(part.name, std::move(tensor));
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw Error(Fault::file, directory.string() + ": cannot be made: " + error.message());
  }
  write_safetensors(directory / "model.safetensors", out);
  write_text_file(directory / "config.json", config_of(snapshot.options).dump(2) + "\n");
}

}  // namespace mxo::tools
