// mxo: the command line.  Reads the arguments, runs one command, turns errors into exit codes.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <new>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <mxoracle/version.h>
#include <CLI/CLI.hpp>

#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/reports/text.h"
#include "tools/commands.h"
#include "tools/operators.h"
#include "tools/process.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

constexpr const char* kFooter =
    "\nExit codes: 0 done and agreed, 1 a comparison failed, 2 usage, 3 bad input, 4 unsupported "
    "here, 5 a suite's output is missing.\n"
    "Environment: NO_COLOR (no colour), MXO_ISA (instruction set of the cpu backend).";

int fail(const std::string& who, const std::string& what, int code) {
  say_error(who + ": " + one_line(what));
  return code;
}

int code_of(Fault fault) {
  switch (fault) {
    case Fault::argument: return kUsage;
    case Fault::unsupported:
    case Fault::internal: return kUnsupported;
    default: return kBadInput;
  }
}

int run_guarded(const std::string& command, const std::function<int()>& action) {
  try {
    return action();
  } catch (const Error& error) {
    return fail("mxo " + command, error.what(), code_of(error.fault()));
  } catch (const std::bad_alloc&) {
    return fail("mxo " + command, "out of memory", kBadInput);
  } catch (const std::exception& error) {
    return fail("mxo " + command, error.what(), kBadInput);
  }
}

/// What CLI11 does not say: which commands there are.  Empty if argv[1] is one, or an option.
std::string unknown_command(int argc, char** argv) {
  std::vector<std::string_view> names;
  for (const Command* command : kCommands) names.emplace_back(command->name);
  if (argc < 2) return with_nearest("found no command", "", names, "there are");
  if (argv[1][0] == '-') return "";
  const std::string given = argv[1];
  const bool known = std::find(names.begin(), names.end(), given) != names.end();
  return known ? "" : unknown_name("command", given, names);
}

/// Of "--format" after an operator that has this parameter: how it is given.
std::string as_parameter(const CLI::App& app, const std::string& option) {
  if (!option.starts_with("--")) return "";
  for (const CLI::App* sub : app.get_subcommands()) {
    for (const char* name : {"OP", "--op"}) {
      const CLI::Option* op = sub->get_option_no_throw(name);
      if (op == nullptr || op->count() == 0 || !operator_there(op->results()[0]).empty()) continue;
      for (const ParameterSpec& spec : operator_named(op->results()[0]).parameters) {
        if (spec.key != option.substr(2)) continue;
        return "a parameter of " + op->results()[0] + " is given as --set " + option.substr(2) +
               "=VALUE";
      }
    }
  }
  return "";
}

/// An option that neither mxo nor the command has; CLI11 would first say what else is missing.
std::string unknown_option(const CLI::App& app) {
  std::vector<std::string> known;
  const auto add = [&known](const CLI::App& one) {
    for (const CLI::Option* option : one.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
  };
  add(app);
  for (const CLI::App* sub : app.get_subcommands()) add(*sub);
  for (const std::string& given : app.remaining(true)) {
    if (given.size() < 2 || given[0] != '-' || given == "--") continue;
    known.erase(known.begin());  // --help, which each command has again
    const std::string name = given.substr(0, given.find('='));
    const std::string set = as_parameter(app, name);
    return set.empty() ? unknown_name("option", name, {known.begin(), known.end()})
                       : "unknown option '" + name + "'; " + set;
  }
  return "";
}

/// CLI11's "NAME is required" with what was found in its place, and what the help says of NAME.
std::string what_is_missing(const CLI::App& app, std::string name) {
  name.erase(name.rfind(" is required"));
  std::string said;
  for (const std::string& given : app.remaining(true)) {
    said += "found " + given + ", which no argument takes; ";
  }
  said += "needs " + name;
  for (const CLI::App* sub : app.get_subcommands()) {
    const CLI::Option* option = sub->get_option_no_throw(name);
    if (option == nullptr) continue;
    said += ": " + std::regex_replace(option->get_description(), std::regex("\n"), "; ");
  }
  return said;
}

/// "b=2" of "--set a=1 b=2", where it would be taken for a file.
std::string loose_parameter(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string_view before = argv[i - 1];
    const bool after_one =
        before.starts_with("--set=") || (i > 2 && std::string_view(argv[i - 2]) == "--set");
    const std::string given = argv[i];
    const std::size_t equals = given.find('=');
    std::error_code ignored;
    if (!after_one || given.starts_with("-") || equals == 0 || equals == given.npos ||
        std::filesystem::exists(given, ignored)) {
      continue;
    }
    return "found " + given + " after a --set; each parameter needs a --set: --set " + given;
  }
  return "";
}

/// CLI11's sentences as those of the other messages: what was found, what is needed.
std::string in_our_words(std::string what) {
  constexpr std::pair<const char*, const char*> kWords[] = {
      {"Could not convert: (\\S+) = (.*)", "$1: found $2, needs a number"},
      {": Value (.*) not in range ", ": found $1, needs "},
      {": \\d+ required \\w+ missing", ": a value is missing"},
      {": At Most 1 required but received (\\d+)", ": found $1 values, needs one"},
      {"The following arguments? (?:was|were) not expected: (.*)",
       "found $1, which no argument takes"},
  };
  for (const auto& [theirs, ours] : kWords)
    what = std::regex_replace(what, std::regex(theirs), ours);
  return what;
}

/// "mxo help compare" as "mxo compare --help".
void turn_help(int argc, char** argv) {
  static char option[] = "--help";
  if (argc < 2 || std::string_view(argv[1]) != "help") return;
  argv[1] = argc > 2 ? std::exchange(argv[2], option) : option;
}

int run_command_line(int argc, char** argv) {
  turn_help(argc, argv);
  CLI::App app{"mxo: bit-exact reference and numerics oracle for FP8 training", "mxo"};
  app.set_version_flag("--version", "mxo " + std::string(mxo::kVersion));
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(kFooter);
  app.get_formatter()->column_width(34);

  Settings settings;
  app.add_option("--backend", settings.backend,
                 "reference, cpu, cpu:<isa>, cuda, cuda:<device> (mxo list backends)");
  app.add_option("--threads", settings.threads, "threads of the cpu backend; 0: all cores")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--quiet", settings.quiet, "print neither progress nor a summary");

  std::vector<std::pair<CLI::App*, std::function<int()>>> actions;
  for (const Command* command : kCommands) {
    CLI::App* sub = app.add_subcommand(command->name, command->purpose);
    actions.emplace_back(sub, command->prepare(*sub, settings));
  }
  if (const std::string loose = loose_parameter(argc, argv); !loose.empty()) {
    return fail("mxo", loose, kUsage);
  }
  const std::string who = unknown_command(argc, argv).empty() && argv[1][0] != '-'
                              ? "mxo " + std::string(argv[1])
                              : "mxo";
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    for (const std::string& what : {unknown_command(argc, argv), unknown_option(app)}) {
      if (!what.empty()) return fail(who, what, kUsage);
    }
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const std::string what = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr
                                 ? what_is_missing(app, error.what())
                                 : in_our_words(error.what());
    return fail(who, what + " (see --help)", kUsage);
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
