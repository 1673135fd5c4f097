// The scale rules in words and by what they give: docs/profiles.md.
#pragma once

#include <string>

namespace mxo::tools {

/// The page, as it is in docs.
std::string profiles_page();

}  // namespace mxo::tools
