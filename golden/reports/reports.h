// A report as text: for a terminal, a program, a CI server, a browser.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string>

#include "golden/judge/verdict.h"

namespace mxo {

enum class Colour : std::uint8_t { off, on };

/// Failures first, with the worst group and the first differences below; then, of several cases,
/// what passed by operator.  Beyond forty failures the rest is counted.
std::string table_report(const Report& report, Colour colour = Colour::off);
/// Schema mxo-report/1 (docs/gates.md).
std::string json_report(const Report& report);
std::string junit_report(const Report& report);
/// One self-contained page: totals, a filter, each case; of failures the explanation, the figures
/// of every group or expert, the heat map of differences, their histogram, and how to repeat them.
std::string html_report(const Report& report);

}  // namespace mxo
