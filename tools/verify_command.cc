// mxo verify DIR: a suite against its checksums and against the definition.
#include "golden/suites/verify.h"

#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "golden/suites/shapes/compare_shapes.h"
#include "tools/commands.h"
#include "tools/crew.h"
#include "tools/report_output.h"
#include "tools/terminal.h"
#include "tools/user_command.h"

namespace mxo::tools {
namespace {

struct VerifyArguments {
  std::string directory;
  ReportOptions report;
};

int verify_suite(const VerifyArguments& options, const Settings& settings) {
  options.report.keep({options.directory});
  const bool shapes = is_shape_suite(options.directory);
  const std::unique_ptr<World> world = make_in_process_world();
  Report report;
  {
    ProgressBar bar(settings.quiet);
    const CaseFilter only(options.report.only);
    report = shapes ? verify_shapes(options.directory, chosen_crew(settings, "cpu"), *world,
                                    bar.callback(), only)
                    : verify(options.directory, *chosen_backend(settings, "reference"), *world,
                             bar.callback(), only);
  }
  return deliver(report, options.report, settings);
}

std::function<int()> prepare_verify(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<VerifyArguments>();
  app.add_option("DIR", options->directory, "a directory that mxo generate wrote")->required();
  options->report.add_to(app);
  return [options, &settings] {
    options->report.command = "mxo verify " + shell_word(options->directory);
    const std::string& only = options->report.only;
    if (!only.empty()) options->report.command += " --only " + shell_word(only);
    return verify_suite(*options, settings);
  };
}

}  // namespace

const Command kVerify{"verify",
                      "check a suite: its checksums, and its outputs against the definition",
                      prepare_verify};

}  // namespace mxo::tools
