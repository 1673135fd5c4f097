// mxo compare EXPECTED ACTUAL: do the outputs of a kernel agree with the expected ones?
#include "golden/suites/compare.h"
#include "golden/suites/shapes/compare_shapes.h"

#include <charconv>
#include <filesystem>
#include <set>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "formats/error.h"
#include "formats/nearest_name.h"
#include "golden/explain/explain.h"
#include "golden/files/output_file.h"
#include "golden/files/read_tensors.h"
#include "golden/suites/case_file.h"
#include "golden/suites/repeat.h"
#include "ops/sums.h"
#include "tools/commands.h"
#include "tools/operands.h"
#include "tools/operators.h"
#include "tools/options_read.h"
#include "tools/process.h"
#include "tools/report_output.h"
#include "tools/terminal.h"
#include "tools/user_command.h"

namespace mxo::tools {
namespace {

struct CompareArguments {
  std::string expected;
  std::vector<std::string> repeats;
  std::string actual;
  std::string gate = "bits";
  std::string sum;
  std::string op;
  std::vector<std::string> inputs;
  std::vector<std::string> settings;
  std::string sentinel;
  bool nan_bits = false;
  bool strict = false;
  ReportOptions report;
};

/// Throws Error(argument) unless the gate takes a sum and there is one of that name.
void check_sum(const CompareArguments& options, const Gate& gate) {
  if (options.sum.empty()) return;
  if (!gate.needs_operands()) {
    throw Error(Fault::argument,
                "--sum: found gate " + options.gate + ", needs --gate bound or sqnr=auto");
  }
  std::set<std::string_view> names;  // a machine has a row per kind of operands
  for (const SumRow& row : sums()) names.emplace(row.name);
  if (names.count(options.sum) == 0) {
    throw Error(Fault::argument, unknown_name("sum", options.sum, {names.begin(), names.end()}) +
                                     "; an unknown kernel is judged without --sum");
  }
}

/// A byte as two hexadecimal digits; empty: none.
std::optional<std::uint8_t> sentinel_of(const std::string& text) {
  if (text.empty()) return std::nullopt;
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), byte, 16);
  if (error != std::errc{} || end != text.data() + text.size() || text.size() != 2) {
    throw Error(Fault::argument,
                "--sentinel: found " + text + ", needs two hexadecimal digits, as A5");
  }
  return static_cast<std::uint8_t>(byte);
}

CallGiven call_given(const CompareArguments& options) {
  CallGiven given;
  if (options.op.empty()) {
    if (options.inputs.empty() && options.settings.empty()) return given;
    throw Error(Fault::argument,
                "--input and --set need --op, the operator of these operands and parameters");
  }
  given.op = operator_named(options.op).name;
  for (const std::string& assignment : options.settings) given.parameters.set(assignment);
  given.parameters.check(given.op, catalogue_entry(given.op).parameters);
  given.operands = read_operands(given.op, options.inputs);
  return given;
}

/// Failures of a suite that are explained for a page: each may take a second.
constexpr int kMostExplained = 20;
constexpr Index kLargestExplained = Index{1} << 22;

/// Why cases of a suite fail, for those who read a page.
void explain_failures(Report& report, const CompareArguments& options, const Settings& settings) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_directory(options.expected, error)) return;
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  const std::unique_ptr<World> world = make_in_process_world();
  int explained = 0;
  for (CaseVerdict& verdict : report.cases) {
    Index elements = 0;
    for (const TensorVerdict& output : verdict.outputs) elements += output.all.elements;
    if (verdict.outcome != Outcome::fail || elements > kLargestExplained) continue;
    if (explained++ == kMostExplained) return;
    const fs::path actual = fs::path(options.actual) / (verdict.id + ".safetensors");
    try {
      AnsweredCall whole = read_call(case_file(options.expected, verdict.id));
      Call call = make_call(whole.op, std::move(whole.inputs), whole.parameters);
      call.world = world.get();
      verdict.explanation = explain(*backend, call, whole.expected, read_tensors(actual).tensors)
                                .sentence_with_kinds();
    } catch (const Error& refused) {
      verdict.explanation = std::string("not explained: ") + refused.what();
    }
  }
}

/// The command line that repeats a comparison, reports left out.
std::string command_of(const CompareArguments& options) {
  std::string text =
      "mxo compare " + shell_word(options.expected) + " " + shell_word(options.actual);
  const auto add = [&text](const char* name, const std::string& value) {
    if (!value.empty()) text += std::string(" ") + name + " " + shell_word(value);
  };
  if (options.gate != "bits") add("--gate", options.gate);
  add("--sum", options.sum);
  add("--op", options.op);
  for (const std::string& input : options.inputs) add("--input", input);
  for (const std::string& setting : options.settings) add("--set", setting);
  add("--sentinel", options.sentinel);
  add("--only", options.report.only);
  if (options.nan_bits) text += " --nan-bits";
  if (options.strict) text += " --strict";
  return text;
}

/// Runs against each other, and nothing expected of them.
int compare_runs(const CLI::App& app, const CompareArguments& options, const Settings& settings) {
  if (!options.expected.empty()) {
    throw Error(Fault::argument, "--repeat: found EXPECTED, needs outputs of runs only");
  }
  check_options_read(app, "--repeat", {"--json"});
  options.report.keep(options.repeats);
  const std::vector<std::filesystem::path> runs(options.repeats.begin(), options.repeats.end());
  RepeatReport report;
  {
    ProgressBar bar(settings.quiet);
    report = compare_repeats(runs, bar.callback());
  }
  const std::string& json = options.report.json;
  if (json == "-") {
    fmt::print("{}", json_of(report));
  } else {
    if (!settings.quiet || !report.stable()) fmt::print("{}", table_of(report));
    bring_out_stdout();
    if (!json.empty()) write_text_file(json, json_of(report));
  }
  return report.stable() ? kAgree : kDisagree;
}

int compare_to_expected(const CompareArguments& options, const Settings& settings) {
  options.report.keep({options.expected, options.actual});
  CompareOptions how;
  how.gate = parse_gate(options.gate);
  check_sum(options, how.gate);
  how.sum = options.sum;
  how.strict = options.strict;
  if (how.strict && how.gate.kind != Gate::Kind::bound) {
    throw Error(Fault::argument, "--strict: found gate " + options.gate + ", needs --gate bound");
  }
  std::error_code unreadable;
  if (!options.report.only.empty() &&
      std::filesystem::is_regular_file(options.expected, unreadable)) {
    throw Error(Fault::argument, "--only: found a file, needs a suite");
  }
  if (!options.op.empty() && std::filesystem::is_directory(options.expected, unreadable)) {
    throw Error(Fault::argument,
                "--op: found a suite, needs two files; a suite names its operators");
  }
  how.sentinel = sentinel_of(options.sentinel);
  if (options.nan_bits) how.nan = NanCompare::by_bits;
  how.threads = settings.threads;
  how.whole_cases = options.report.groups;
  CallGiven given = call_given(options);
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  how.backend = backend.get();
  Report report;
  {
    ProgressBar bar(settings.quiet);
    const CaseFilter only(options.report.only);
    report = is_shape_suite(options.expected)
                 ? compare_shapes(options.expected, options.actual, how, *backend,
                                  *make_in_process_world(), bar.callback(), only)
                 : compare(options.expected, options.actual, how, bar.callback(), std::move(given),
                           only);
    if (!options.report.html.empty()) explain_failures(report, options, settings);
  }
  return deliver(report, options.report, settings);
}

std::function<int()> prepare_compare(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<CompareArguments>();
  app.add_option("EXPECTED", options->expected, "a .safetensors or .npy, or a suite");
  app.add_option("ACTUAL", options->actual,
                 "a file of the same tensors, or a directory of CASE.safetensors");
  app.add_option(
      "--repeat", options->repeats,
      "instead: outputs of several runs on one input; checks that all bits are the same");
  app.add_option("--gate", options->gate,
                 "bits, ulp=N, sqnr=DB, sqnr=auto, sqnr=PRESET or bound (mxo list gates)")
      ->capture_default_str();
  app.add_option("--sum", options->sum,
                 "with --gate bound or sqnr=auto: how ACTUAL was summed (mxo list sums); default: "
                 "any order of "
                 "f32 additions");
  app.add_option("--op", options->op,
                 "the operator that computed these outputs; gives their groups and bounds")
      ->check(operator_there);
  app.add_option("--input", options->inputs,
                 std::string("with --op, needed for a bound: ") + kOperandFiles)
      ->allow_extra_args(false);
  app.add_option("--set", options->settings,
                 "with --op: its parameters, key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--strict", options->strict,
               "with --gate bound: refuse differing elements that have no bound, because a sum may "
               "overflow");
  app.add_flag("--nan-bits", options->nan_bits, "NaNs with different bits differ");
  app.add_option(
      "--sentinel", options->sentinel,
      "byte with which outputs were filled before the run, two hexadecimal digits; elements that "
      "still hold it were never written");
  options->report.add_to(app);
  app.parse_complete_callback([options] {
    if (options->repeats.empty() && (options->expected.empty() || options->actual.empty())) {
      throw CLI::RequiredError("EXPECTED and ACTUAL, or --repeat with two or more outputs");
    }
  });
  return [options, &app, &settings] {
    if (!options->repeats.empty()) return compare_runs(app, *options, settings);
    options->report.command = command_of(*options);
    return compare_to_expected(*options, settings);
  };
}

}  // namespace

const Command kCompare{"compare", "outputs of a kernel against what is expected", prepare_compare};

}  // namespace mxo::tools
