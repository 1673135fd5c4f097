// Holding a suite on disk against its checksums and against the definition.
#pragma once

#include <filesystem>

#include "golden/judge/progress.h"
#include "golden/judge/verdict.h"
#include "ops/backend.h"

namespace mxo {

/// Per case: INVALID where a file is missing, malformed or not what the manifest says; FAIL where
/// running the operator on `reference` gives other outputs than the file expects; NOT_RUN where
/// `reference` does not support the operator.
/// Throws Error(file) where there is no manifest, or no readable one.
Report verify(const std::filesystem::path& directory, Backend& reference,
              const Progress& progress = {});

}  // namespace mxo
