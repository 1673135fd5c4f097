// What the approximate functions of the chip return, for every operand of an interval.
#pragma once

#include <filesystem>

namespace mxo::capture {

/// Writes rcp.npy, rsqrt.npy, sqrt.npy, ex2.npy, lg2.npy and tanh.npy, the bits of results, as
/// fit_approximate.py and fit_lg2_tanh.py read them.
void write_approximate_functions(const std::filesystem::path& directory);

}  // namespace mxo::capture
