// mxo: the command line.  Reads the arguments, runs one command, turns errors into exit codes.
#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <mxoracle/version.h>
#include <CLI/CLI.hpp>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/reports/text.h"
#include "tools/commands.h"
#include "tools/process.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

constexpr const char* kFooter =
    "\nExit codes: 0 done and agreed, 1 a comparison failed, 2 usage, 3 bad input, 4 unsupported "
    "here, 5 not run.\nEnvironment: NO_COLOR (no colour), MXO_ISA (instruction set of the cpu "
    "backend).";

int fail(const std::string& command, const std::string& what, int code) {
  fmt::print(stderr, "mxo {}: {}\n", command, one_line(what));
  return code;
}

int run_guarded(const std::string& command, const std::function<int()>& action) {
  try {
    return action();
  } catch (const Error& error) {
    const bool machine = error.fault() == Fault::unsupported || error.fault() == Fault::internal;
    return fail(command, error.what(), machine ? kUnsupported : kBadInput);
  } catch (const std::bad_alloc&) {
    return fail(command, "out of memory", kBadInput);
  } catch (const std::exception& error) {
    return fail(command, error.what(), kBadInput);
  }
}

/// What CLI11 does not say: which commands there are.  Empty if argv[1] is one, or an option.
std::string unknown_command(int argc, char** argv) {
  std::vector<std::string_view> names;
  for (const Command* command : kCommands) names.emplace_back(command->name);
  if (argc < 2 || argv[1][0] == '-') return "";
  const std::string given = argv[1];
  const bool known = std::find(names.begin(), names.end(), given) != names.end();
  return known ? "" : unknown_name("command", given, names);
}

int run_command_line(int argc, char** argv) {
  CLI::App app{"mxo: bit-exact reference and numerics oracle for FP8 training", "mxo"};
  app.set_version_flag("--version", "mxo " + std::string(mxo::kVersion));
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kFooter);
  app.get_formatter()->column_width(34);

  Settings settings;
  app.add_option("--backend", settings.backend,
                 "reference, cpu, cpu:<isa>, cuda (mxo list backends)");
  app.add_option("--threads", settings.threads, "threads of the cpu backend; 0: all")
      ->check(CLI::Range(0, 4096));
  app.add_flag("--quiet", settings.quiet, "no progress and no summary");

  std::vector<std::pair<CLI::App*, std::function<int()>>> actions;
  for (const Command* command : kCommands) {
    CLI::App* sub = app.add_subcommand(command->name, command->purpose);
    actions.emplace_back(sub, command->prepare(*sub, settings));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (const std::string what = unknown_command(argc, argv); !what.empty()) {
      fmt::print(stderr, "mxo: {}\n", what);
      return kUsage;
    }
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "mxo: {} (see --help)\n", one_line(error.what()));
    return kUsage;
  }
  for (const auto& [sub, action] : actions) {
    if (sub->parsed()) return run_guarded(sub->get_name(), action);
  }
  return kUsage;
}

}  // namespace
}  // namespace mxo::tools

int main(int argc, char** argv) {
  mxo::tools::guard_process();
  return mxo::tools::end_process(mxo::tools::run_command_line(argc, argv));
}
