// EXPECTED against ACTUAL: two files, or a suite and a directory of outputs.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <filesystem>

#include "golden/judge/comparator.h"
#include "golden/judge/progress.h"
#include "golden/judge/verdict.h"
#include "golden/suites/case_filter.h"
#include "golden/suites/compare_files.h"

namespace mxo {

/// `expected` is a suite (a directory with manifest.json): `actual` is a directory of
/// `<case id>.safetensors` with the outputs under their operand names.
/// Cases in pairs that differ only in padding and unused bytes fail where their outputs differ.
/// Otherwise both are files, safetensors or .npy: every tensor of `expected` must be in `actual`.
/// If `expected` holds `group_ends`, it says the groups and which rows are compared.  Two .npy
/// files are compared whatever their names; `given` is what the caller says of the call.  Of a
/// suite, the cases that `only` takes. Throws Error(file), Error(argument).
Report compare(const std::filesystem::path& expected, const std::filesystem::path& actual,
               const CompareOptions& options = {}, const Progress& progress = {},
               CallGiven given = {}, const CaseFilter& only = {});

}  // namespace mxo
