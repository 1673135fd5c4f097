// The trained tensors of a model, one rank's view.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensor.h"
#include "tools/train/options.h"

namespace mxo::tools {

/// Who holds a tensor.
enum class Sharding : std::uint8_t {
  replicated,  ///< every rank, whole
  experts,     ///< cut along its first axis among the ranks
};

/// f32 tensors of one shape: the value, its gradient and AdamW's two moments.
struct Parameter {
  std::string name;
  Sharding sharding = Sharding::replicated;
  bool decays = true;
  bool trained = true;  ///< by gradients
  Tensor value;
  Tensor gradient;
  Tensor mean;
  Tensor square;

  Index elements() const { return value.elements(); }
  const float* data() const { return value.as<float>(); }
};

class Parameters {
 public:
  /// Values are uniform deviates, a pure function of the seed and the place in the whole tensor.
  Parameters(const TrainOptions& options, int rank, int ranks);

  /// "tokens" [256, D], "final.gain" [D], "head" [256, D]; in "layer<i>." "attention.gain" [D],
  /// "attention.qkv" [3D, D], "attention.out" [D, D], "moe.gain", "moe.router" [E, D], "moe.bias"
  /// [E], "moe.w1" [E, 2F, D], "moe.w2" [E, D, F], "moe.shared_w1" [2S, D], "moe.shared_w2" [D, S];
  /// the bias and shared experts only where the model has them.
  Parameter& operator[](const std::string& name);
  std::vector<Parameter>& all() { return all_; }
  const std::vector<Parameter>& all() const { return all_; }
  Index count(int ranks) const;  ///< of trained numbers, over all ranks

 private:
  void add(const std::string& name, std::vector<Index> shape, Sharding sharding, double spread);
  std::uint64_t seed_;
  int rank_;
  int ranks_;
  std::vector<Parameter> all_;
  std::uint32_t drawn_ = 0;  ///< tensors that have random values
};

}  // namespace mxo::tools
