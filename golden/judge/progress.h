// How long-running work reports its progress.
#pragma once

#include <functional>
#include <string_view>

namespace mxo {

/// Called with the fraction done (0 to 1) and what is being done; may be empty.
using Progress = std::function<void(double fraction, std::string_view what)>;

}  // namespace mxo
