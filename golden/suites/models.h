// The expert layers of public models: what --model names.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string_view>

#include "formats/tensor_view.h"

namespace mxo {

/// The routed experts of one layer, as the model's configuration on Hugging Face gives them.
struct Model {
  std::string_view name;
  Index hidden;            ///< D: hidden_size
  Index intermediate;      ///< F of one expert: moe_intermediate_size, or intermediate_size
  Index experts;           ///< E, routed
  Index top_k;             ///< experts a token
  Index shared;            ///< experts that every token goes through, each of F
  Index groups;            ///< experts of one rank here, unless asked for otherwise
  std::string_view score;  ///< of the router, as `route` calls it
  std::string_view source;
};

inline constexpr Model kModels[] = {
    {"dsv3", 7168, 2048, 256, 8, 1, 8, "sigmoid", "deepseek-ai/DeepSeek-V3 config.json"},
    {"llama4", 5120, 8192, 16, 1, 1, 16, "sigmoid",
     "meta-llama/Llama-4-Scout-17B-16E config.json, text_config; the shared expert: transformers, "
     "Llama4TextMoe"},
    {"qwen3", 4096, 1536, 128, 8, 0, 8, "softmax", "Qwen/Qwen3-235B-A22B config.json"},
    {"gpt_oss", 2880, 2880, 128, 4, 0, 8, "softmax_of_chosen", "openai/gpt-oss-120b config.json"},
    {"mixtral", 4096, 14336, 8, 2, 0, 8, "softmax", "mistralai/Mixtral-8x7B-v0.1 config.json"},
};

/// The row of that name.  Throws Error(argument) naming the models there are.
const Model& model_named(std::string_view name);

}  // namespace mxo
