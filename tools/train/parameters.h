// The trained tensors of a model, one rank's view.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/tensor.h"
#include "tools/train/options.h"

namespace mxo::tools {

/// Who holds a tensor, and how its gradient comes to be.
enum class Sharding : std::uint8_t {
  by_sequence,  ///< on every rank; the gradient is a sum over sequences, in their order
  replicated,   ///< on every rank; an operator gives the whole gradient
  experts,      ///< cut along its first axis among the ranks
};

/// f32 tensors of one shape: the value, its gradient and AdamW's two moments.
struct Parameter {
  std::string name;
  Sharding sharding = Sharding::by_sequence;
  bool decays = true;
  std::size_t offset = 0;  ///< of its gradient in a sequence's; by_sequence only
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

  /// "tokens", "positions", "final.gain", "head", and "layer<i>." with "attention.gain",
  /// "attention.qkv", "attention.out", "moe.gain", "moe.router", "moe.w1", "moe.w2".
  Parameter& operator[](const std::string& name);
  std::vector<Parameter>& all() { return all_; }
  const std::vector<Parameter>& all() const { return all_; }
  /// Floats of the gradients of one sequence.
  std::size_t sequence_size() const { return sequence_size_; }
  Index count(int ranks) const;  ///< of trained numbers, over all ranks

 private:
  void add(const std::string& name, std::vector<Index> shape, Sharding sharding, double spread);
  std::uint64_t seed_;
  int rank_;
  int ranks_;
  std::vector<Parameter> all_;
  std::size_t sequence_size_ = 0;
};

}  // namespace mxo::tools
