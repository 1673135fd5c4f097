// Weights of a model under the names of Hugging Face's transformers.
#pragma once

#include <filesystem>

#include "golden/files/tensor_file.h"
#include "tools/train/checkpoint.h"

namespace mxo::tools {

/// Sets the values of `parameters` (this rank's part) from a checkpoint of any run or from what
/// export_model wrote; gradients, moments and history are not touched.  Throws Error(file) where
/// the file has other tensors than the model.
void read_weights(const std::filesystem::path& path, const TrainOptions& options,
                  const Communicator& communicator, Parameters& parameters);

/// Writes model.safetensors (f32) and config.json into `directory`, for transformers to load: a
/// MixtralForCausalLM, or, where scores are sigmoids, a Glm4MoeForCausalLM, whose experts are those
/// of DeepSeek-V3.  Throws Error(unsupported) for a model that neither is, Error(file).
void export_model(const Snapshot& snapshot, const std::filesystem::path& directory);

}  // namespace mxo::tools
