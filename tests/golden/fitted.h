// What a fit of an accumulation says: whether it names a machine, and of a parameter.
#pragma once

#include <algorithm>
#include <stdexcept>

#include "golden/fingerprint/fit.h"

namespace mxo {

inline bool says_machine(const Fingerprint& f, std::string_view machine) {
  return std::ranges::find(f.machines, machine) != f.machines.end();
}

inline const ParameterFit& parameter(const Fingerprint& f, std::string_view name) {
  const auto found = std::ranges::find(f.parameters, name, &ParameterFit::name);
  if (found == f.parameters.end()) throw std::out_of_range(std::string(name));
  return *found;
}

}  // namespace mxo
