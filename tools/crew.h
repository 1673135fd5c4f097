// From --backend and --threads to those who compute slices of large calls.
#pragma once

#include "golden/suites/shapes/expected_slice.h"
#include "tools/command.h"

namespace mxo::tools {

/// Backends as --backend names them, or `otherwise`, for as many threads as --threads says.
Crew chosen_crew(const Settings& settings, const char* otherwise);

}  // namespace mxo::tools
