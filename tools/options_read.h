// Options without effect: what a command is given and does not read as it is called.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "formats/error.h"

namespace mxo::tools {

/// Throws Error(argument) for an option of `app` on the command line that is neither `mode` nor one
/// of `read`; a mode is the option that says what the command does.
inline void check_options_read(const CLI::App& app, std::string_view mode,
                               std::initializer_list<std::string_view> read) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0 || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames().front();
    if (name == mode || std::find(read.begin(), read.end(), name) != read.end()) continue;
    throw Error(Fault::argument, name + ": has no effect with " + std::string(mode));
  }
}

}  // namespace mxo::tools
