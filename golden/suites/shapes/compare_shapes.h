// Outputs against a suite of recipes and digests, and the suite against the library.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <filesystem>

#include "golden/judge/comparator.h"
#include "golden/judge/progress.h"
#include "golden/suites/case_filter.h"
#include "golden/suites/shapes/expected_slice.h"

namespace mxo {

/// Every region of every output by its digest; `actual` is a directory of `<case id>.safetensors`
/// (ActualOutputs).  What differs is made again on `backend` and judged under `options`, slice by
/// slice.  A failing region of which ACTUAL has no bytes is a FAIL that says so.  Throws
/// Error(file), Error(argument).
Report compare_shapes(const std::filesystem::path& suite, const std::filesystem::path& actual,
                      const CompareOptions& options, Backend& backend, World& world,
                      const Progress& progress = {}, const CaseFilter& only = {});

/// Has `crew` make every slice again: FAIL where a digest is another.
Report verify_shapes(const std::filesystem::path& suite, const Crew& crew, World& world,
                     const Progress& progress = {}, const CaseFilter& only = {});

}  // namespace mxo
