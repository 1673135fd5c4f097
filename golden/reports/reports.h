// A report as text: for a terminal, a program, a CI server, a browser.
#pragma once

#include <string>

#include "golden/judge/verdict.h"

namespace mxo {

enum class Colour : std::uint8_t { off, on };

/// One line per output; for a failure the worst group and the first differences below it.
std::string table_report(const Report& report, Colour colour = Colour::off);
std::string json_report(const Report& report);
std::string junit_report(const Report& report);
/// One self-contained page: verdict table, heat map by row block x column block, histogram.
std::string html_report(const Report& report);

}  // namespace mxo
