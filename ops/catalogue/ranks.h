// Tensors of many ranks under names like "rank2.x": what each rank reads and what it leaves.
#pragma once

#include <mutex>

#include "ops/backend_tensor.h"
#include "ops/catalogue.h"
#include "ops/catalogue/staging.h"
#include "ops/communicator.h"

namespace mxo {

/// "rank<p>.x" of an OperandSpec stands for "rank0.x", "rank1.x", and so on.
bool names_operand(std::string_view spec, std::string_view given);
/// Whether `given` is an output of a step of `entry`, for which "rank<p>.STAGE" stands.
bool names_step(const CatalogueEntry& entry, std::string_view given);

/// Number of ranks P in the inputs: `operand` must be there for 0 to P-1.
/// Throws Error(argument) if there is none, or a gap.
int ranks_of(std::string_view op, const NamedViews& inputs, std::string_view operand);

/// The inputs of one rank without their prefix, and those of all ranks.
NamedViews inputs_of_rank(const NamedViews& inputs, int rank);

/// The backend that a rank works on.
class RankBackend {
 public:
  RankBackend(Backend& shared, int rank) : shared_(shared), own_(shared.for_rank(rank)) {}
  Backend& get() { return own_ ? *own_ : shared_; }

 private:
  Backend& shared_;
  std::unique_ptr<Backend> own_;
};

/// Outputs of all ranks, collected as they finish.
class RankOutputs {
 public:
  /// Keeps the outputs of this rank under its prefix.  Collective where ranks are processes: the
  /// first of them collects.
  void add(World& world, Communicator& communicator, NamedTensors outputs);
  NamedTensors take() { return std::move(all_); }

 private:
  std::mutex mutex_;
  NamedTensors all_;
};

}  // namespace mxo
