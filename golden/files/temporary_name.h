// Names beside a final name that cannot be foreseen.
#pragma once

#include <filesystem>

namespace mxo {

/// "DIR/NAME" to "DIR/NAME.partial-<16 random hex digits>".
std::filesystem::path temporary_name(const std::filesystem::path& final_name);

}  // namespace mxo
