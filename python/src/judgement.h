// The outputs of a kernel against the expected ones, and why they differ.
#pragma once

#include <nanobind/nanobind.h>

#include "golden/judge/verdict.h"
#include "ops/catalogue.h"

namespace mxo::python {

/// The verdict on the outputs of one call, and the outputs that were expected.
struct Judgement {
  CaseVerdict verdict;
  NamedTensors expected;
};

void bind_judgement(nanobind::module_& module);

}  // namespace mxo::python
