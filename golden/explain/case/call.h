// One operator call whose operands are shared, so that altering one does not copy the others.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/catalogue.h"

namespace mxo {

/// What calls may still read, in elements of their operands: no clock, so that an answer is the
/// same on a busy machine.  The call that would read more throws OutOfWork.
struct Work {
  double left = 0;
};
struct OutOfWork {};

struct Call {
  std::string op;
  std::map<std::string, std::shared_ptr<const Tensor>, std::less<>> inputs;
  Parameters set;
  World* world = nullptr;  ///< of an operator that works on many ranks
  Work* work = nullptr;    ///< of all calls that are made of this one

  bool has(std::string_view name) const { return inputs.find(name) != inputs.end(); }
  /// Throws Fault::argument if the operand is not there.
  const Tensor& input(std::string_view name) const;
  void replace(const std::string& name, Tensor tensor) {
    inputs.insert_or_assign(name, std::make_shared<const Tensor>(std::move(tensor)));
  }
};

/// i64 group_ends become i32, and parameters what the catalogue lists: "BF16" is bf16.
Call make_call(std::string_view op, NamedTensors inputs, const Parameters& set);
NamedTensors run_call(Backend& backend, const Call& call);

}  // namespace mxo
