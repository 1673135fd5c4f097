// mxo show requantize FILE: what casting a tensor of one's own a second time costs.
#pragma once

#include <string>

#include "ops/backend.h"

namespace mxo::tools {

/// Of every matrix of floats in the file: cast along rows, then turned column-wise by casting again
/// and by moving exponents; values changed and dB lost.  Throws Error(file) where there is no
/// matrix.
void show_requantize(Backend& backend, const std::string& file);

}  // namespace mxo::tools
