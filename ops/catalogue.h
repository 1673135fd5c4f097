// Every operator by name: its operands, its parameters, and how to call it on views of tensors.
// The command line, the suites and Python all call operators through this table.
// Thread safety: any threads at once, where no call writes what another reads or writes.
#pragma once

#include <span>
#include <string_view>

#include "ops/backend.h"
#include "ops/named_views.h"
#include "ops/parameters.h"

namespace mxo {

class World;  // ops/communicator.h

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
  NamedTensors (*call)(Backend& backend, const NamedViews& views, const Parameters& parameters);
  /// Replaces `call` in an operator that works on many ranks.
  NamedTensors (*call_ranks)(Backend& backend, World& world, const NamedViews& views,
                             const Parameters& parameters) = nullptr;
  /// For an operator of many steps: its outputs in the order in which they are computed, without
  /// "rank<p>.", ".codes" and ".scales".
  std::span<const std::string_view> steps = {};
};

/// All operators, in the order of `mxo list ops`.
std::span<const CatalogueEntry> catalogue();
/// Throws Error(argument) naming the operators there are.
const CatalogueEntry& catalogue_entry(std::string_view name);

/// Throws Error(argument) on an operand that is missing or that the operator does not take or have,
/// or a parameter that it does not.
void check_names(const CatalogueEntry& entry, const NamedViews& views,
                 const Parameters& parameters);

/// Throws what call_operator would throw before it computes, and computes nothing.  Returns the
/// outputs as the call would make them, filled with zeros; of an operator that works on ranks only
/// the names are checked, and nothing is returned.
NamedTensors check_call(std::string_view name, const NamedViews& views,
                        const Parameters& parameters);

/// Checks the names of operands and parameters, then calls the operator and waits for it.  Nothing
/// is copied that the backend can read where it lies.  Outputs that `views` has memory for are
/// written there, and elements that the operator leaves untouched stay; all others are returned.
/// An operator on many ranks needs a world and copies its outputs; in a job of processes they are
/// in the one that writes.
///
/// Throws Error(argument) on an operand that is missing, or an operand or output that the operator
/// does not have; Error(unsupported) without a world where one is needed; and what the operator
/// throws.
NamedTensors call_operator(Backend& backend, std::string_view name, const NamedViews& views,
                           const Parameters& parameters, World* world = nullptr);

}  // namespace mxo
