// Names beside a final name that cannot be foreseen.
#pragma once

#include <filesystem>

namespace mxo {

/// "DIR/NAME" to "DIR/NAME.partial-<16 random hex digits>".
std::filesystem::path temporary_name(const std::filesystem::path& final_name);

/// Whether it is such a name: what lies there was left by a process that was killed.
bool is_temporary_name(const std::filesystem::path& name);

}  // namespace mxo
