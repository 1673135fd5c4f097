// Where a report goes: the terminal, and the files of --json, --junit and --html.
#pragma once

#include <string>
#include <vector>

#include "golden/judge/verdict.h"
#include "tools/command.h"

namespace mxo::tools {

/// The options that every command with a verdict takes.
struct ReportOptions {
  std::string json;
  std::string junit;
  std::string html;
  std::string only;     ///< of a suite: CaseFilter
  std::string command;  ///< that repeats the report
  bool groups = false;  ///< the table has every group

  void add_to(CLI::App& app);
  /// Throws Error(argument) if a report would replace one of the files it is about, or two reports
  /// go to one place.
  void keep(const std::vector<std::string>& judged) const;
};

/// Dates the report, writes the files, prints the table (quiet: only if something did not pass),
/// and returns the exit code of the verdict.
int deliver(Report report, const ReportOptions& options, const Settings& settings);

}  // namespace mxo::tools
