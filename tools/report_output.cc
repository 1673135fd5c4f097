// Where a report goes.
#include "tools/report_output.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <memory>

#include <fmt/core.h>
#include <mxoracle/version.h>
#include <CLI/CLI.hpp>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/reports/reports.h"
#include "tools/process.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

/// Reports on their way: what is for stdout is printed, files wait for commit().
class Reports {
 public:
  void add(const std::string& path, const std::string& text) {
    if (path == "-") {
      fmt::print("{}", text);
      spoke_ = true;
    } else if (!path.empty()) {
      files_.push_back(std::make_unique<OutputFile>(path));
      files_.back()->write(text);
    }
  }
  bool spoke() const { return spoke_; }
  void commit() {
    bring_out_stdout();
    for (const auto& file : files_) file->commit();
  }

 private:
  std::vector<std::unique_ptr<OutputFile>> files_;
  bool spoke_ = false;
};

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
  app.add_flag("--groups", groups, "print every group or expert, also of outputs that pass");
  app.add_option(
      "--only", only,
      "of a suite: only cases with op=, id=, flag= or a parameter: op=quantize,format=e4m3");
}

void ReportOptions::keep(const std::vector<std::string>& judged) const {
  std::vector<std::string> reports;
  for (const std::string& report : {json, junit, html}) {
    if (report.empty()) continue;
    if (std::find(reports.begin(), reports.end(), report) != reports.end()) {
      throw Error(Fault::argument,
                  report + ": is named for two reports; each needs a file of its own");
    }
    std::error_code ignored;
    const std::filesystem::path type = std::filesystem::path(report).extension();
    if ((type == ".safetensors" || type == ".npy") && std::filesystem::exists(report, ignored)) {
      throw Error(Fault::argument, report + ": holds tensors, which a report cannot replace");
    }
    for (const std::filesystem::path file : judged) {
      if (std::filesystem::equivalent(report, file, ignored) ||
          std::filesystem::equivalent(report, file / "manifest.json", ignored)) {
        throw Error(Fault::argument, report + ": is an input, which a report cannot replace");
      }
    }
    reports.push_back(report);
  }
}

int deliver(Report report, const ReportOptions& options, const Settings& settings) {
  report.command = options.command;
  report.version = kVersion;
  report.date = utc_now();
  Reports reports;
  if (!options.json.empty()) reports.add(options.json, json_report(report));
  if (!options.junit.empty()) reports.add(options.junit, junit_report(report));
  if (!options.html.empty()) reports.add(options.html, html_report(report));
  const int code = report.exit_code();
  if (!reports.spoke() && !(settings.quiet && code == kAgree)) {
    fmt::print("{}", table_report(report, stdout_colour(),
                                  options.groups ? GroupLines::all : GroupLines::worst_and_best));
  }
  reports.commit();
  return code;
}

}  // namespace mxo::tools
