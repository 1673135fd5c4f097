// Where a report goes.
#include "tools/report_output.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include <fmt/core.h>
#include <mxoracle/version.h>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/reports/reports.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

/// True if the text went to stdout.
bool write_to(const std::string& path, const std::string& text) {
  if (path == "-") {
    fmt::print("{}", text);
    return true;
  }
  if (!path.empty()) write_text_file(path, text);
  return false;
}

/// "2026-01-31 12:00:00 UTC".
std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

}  // namespace

void ReportOptions::add_to(CLI::App& app) {
  app.add_option("--json", json, "write the report as JSON; - is stdout, instead of the table");
  app.add_option("--junit", junit, "write the report as JUnit XML; - is stdout");
  app.add_option("--html", html, "write the report as one self-contained page; - is stdout");
  app.add_option(
      "--only", only,
      "of a suite, the cases with op=, id=, flag= or a parameter: op=quantize,format=e4m3");
}

void ReportOptions::keep(const std::vector<std::string>& judged) const {
  std::vector<std::string> reports;
  for (const std::string& report : {json, junit, html}) {
    if (report.empty()) continue;
    if (std::find(reports.begin(), reports.end(), report) != reports.end()) {
      throw Error(Fault::argument, report + ": two reports cannot go to one place");
    }
    for (const std::string& file : judged) {
      std::error_code ignored;
      if (std::filesystem::equivalent(report, file, ignored)) {
        throw Error(Fault::argument, report + ": a report cannot replace what it is about");
      }
    }
    reports.push_back(report);
  }
}

int deliver(Report report, const ReportOptions& options, const Settings& settings) {
  report.command = options.command;
  report.version = kVersion;
  report.date = utc_now();
  bool spoke = false;
  if (!options.json.empty()) spoke = write_to(options.json, json_report(report)) || spoke;
  if (!options.junit.empty()) spoke = write_to(options.junit, junit_report(report)) || spoke;
  if (!options.html.empty()) spoke = write_to(options.html, html_report(report)) || spoke;
  const int code = report.exit_code();
  if (!spoke && !(settings.quiet && code == kAgree)) {
    fmt::print("{}", table_report(report, stdout_colour()));
  }
  return code;
}

}  // namespace mxo::tools
