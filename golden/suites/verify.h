// Holding a suite on disk against its checksums and against the definition.
// Thread safety: any threads at once, where no call writes a file that another reads or writes.
#pragma once

#include <filesystem>

#include "golden/judge/progress.h"
#include "golden/judge/verdict.h"
#include "golden/suites/case_filter.h"
#include "ops/backend.h"

namespace mxo {

class World;

/// Per case: INVALID where a file is missing, malformed or not what the manifest says; FAIL where
/// running the operator on `reference`, and among the ranks of `world`, gives other outputs than
/// the file expects; NOT_RUN where `reference` does not support the operator. Throws Error(file)
/// where there is no manifest, or no readable one.
Report verify(const std::filesystem::path& directory, Backend& reference, World& world,
              const Progress& progress = {}, const CaseFilter& only = {});

}  // namespace mxo
