// Every operator by name: its operands, its parameters, and how to call it on host tensors.
// The command line, the suites and the bindings all come in through this table.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "formats/tensor.h"
#include "ops/backend.h"
#include "ops/parameters.h"

namespace mxo {

class World;  // ops/communicator.h

/// Tensors under their operand names ("x", "x.codes", "group_ends"), in name order.
using NamedTensors = std::map<std::string, Tensor, std::less<>>;

struct OperandSpec {
  std::string_view name;
  std::string_view shape;  ///< "[R, K]"
  std::string_view types;  ///< "f32 or bf16"
  bool optional = false;
};

/// One operator.  `call` checks everything, runs on `backend`, and returns the outputs.
struct CatalogueEntry {
  std::string_view name;
  std::string_view purpose;
  std::span<const OperandSpec> inputs;
  std::span<const OperandSpec> outputs;
  std::span<const ParameterSpec> parameters;
  NamedTensors (*call)(Backend& backend, const NamedTensors& inputs, const Parameters& parameters);
  /// In place of `call`, of an operator that works on many ranks.
  NamedTensors (*call_ranks)(Backend& backend, World& world, const NamedTensors& inputs,
                             const Parameters& parameters) = nullptr;
  /// Of an operator of many steps: its outputs in the order in which they come about, without
  /// "rank<p>.", ".codes" and ".scales".
  std::span<const std::string_view> steps = {};
};

/// All operators, in the order of `mxo list ops`.
std::span<const CatalogueEntry> catalogue();
/// Throws Error(argument) naming the operators there are.
const CatalogueEntry& catalogue_entry(std::string_view name);

/// Checks the names of operands and parameters, then calls the operator.  One that works on many
/// ranks needs a world.  In a job of processes the outputs come back in the one that writes.
/// Throws Error(argument) on an operand that is missing or that the operator does not take,
/// Error(unsupported) without a world where one is needed.
NamedTensors call_operator(Backend& backend, std::string_view name, const NamedTensors& inputs,
                           const Parameters& parameters, World* world = nullptr);

}  // namespace mxo
