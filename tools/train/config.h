// Options from a file of JSON: the one door for it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace mxo::tools {

/// Names of options, as on the command line without the dashes, and the words behind each.
using Config = std::vector<std::pair<std::string, std::vector<std::string>>>;

/// {"steps": 500, "recipe": "bf16", "text": ["a", "b"], "resume": true}: one object of at most 1
/// MB, whose values are strings, finite numbers, true or false, or a list of such.  Throws
/// Error(file) for anything else, also a name that comes twice.
Config read_config(const std::filesystem::path& path);

}  // namespace mxo::tools
