// The experts of one layer of the transformer: moe_layer between f32 activations.
#pragma once

#include <optional>

#include "tools/train/recipe.h"
#include "tools/train/stages.h"

namespace mxo::tools {

/// y = moe_layer(bf16(x)), weights rounded to bf16 from the f32 parameters "<name>.router", ".w1"
/// and ".w2", whose gradients backward() sets.  Collective.
class MoeBlock {
 public:
  MoeBlock(const TrainOptions& options, const TrainRecipe& recipe, Backend& backend,
           Communicator& communicator, std::string name)
      : options_(options),
        recipe_(recipe),
        backend_(backend),
        communicator_(communicator),
        name_(std::move(name)) {}

  /// One matrix a sequence of this rank; `stages` may be null.
  std::vector<Matrix<float>> forward(const std::vector<Matrix<float>>& x, Parameters& parameters,
                                     StageRecorder* stages);
  std::vector<Matrix<float>> backward(const std::vector<Matrix<float>>& dy, Parameters& parameters,
                                      StageRecorder* stages);

 private:
  BackendTensor rounded(const Tensor& value) const;
  BackendTensor stacked(const std::vector<Matrix<float>>& sequences) const;
  std::vector<Matrix<float>> unstacked(const BackendTensor& rows) const;
  void record(StageRecorder& stages);

  const TrainOptions& options_;
  const TrainRecipe& recipe_;
  Backend& backend_;
  Communicator& communicator_;
  std::string name_;
  BackendTensor x_, y_, router_, w1_, w2_;  ///< operands of the saved call
  std::optional<SavedMoeLayer> saved_;
  bool recording_ = false;
  std::vector<std::pair<std::string, Tensor>> seen_;  ///< stages of the pass under way
};

}  // namespace mxo::tools
