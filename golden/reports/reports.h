// A report as text: for a terminal, a program, a CI server, a browser.
// Thread safety: functions of their arguments and values; any threads at once.
#pragma once

#include <string>

#include "golden/judge/verdict.h"

namespace mxo {

enum class Colour : std::uint8_t { off, on };
/// Which groups of rows a table has: of what differs the worst and the best, or every one.
enum class GroupLines : std::uint8_t { worst_and_best, all };

/// Failures first, with the worst and best group and the first differences below; then, of several
/// cases, what passed by operator, with all groups one by one.  Beyond forty failures the rest is
/// counted.
std::string table_report(const Report& report, Colour colour = Colour::off,
                         GroupLines groups = GroupLines::worst_and_best);
/// Schema mxo-report/1 (docs/gates.md).
std::string json_report(const Report& report);
std::string junit_report(const Report& report);
/// One self-contained page: totals, a filter, each case, the figures of every group or expert; of
/// failures the explanation, the heat map of differences, their histogram, and how to repeat them.
std::string html_report(const Report& report);

}  // namespace mxo
