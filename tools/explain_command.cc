// mxo explain CASE ACTUAL: why an output is not the expected one.
#include "golden/explain/explain.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/suites/case_file.h"
#include "golden/suites/shapes/shaped_answer.h"
#include "tools/commands.h"
#include "tools/operands.h"
#include "tools/operators.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

struct ExplainArguments {
  std::string expected;
  std::string actual;
  std::string op;
  std::vector<std::string> inputs;
  std::vector<std::string> settings;
  bool json = false;
};

/// --op OP on the operands of CASE and of each --input.
AnsweredCall given_call(const ExplainArguments& options) {
  AnsweredCall given;
  for (const std::string& assignment : options.settings) given.parameters.set(assignment);
  given.op = operator_named(options.op).name;
  std::vector<std::string> files = options.inputs;
  if (!options.expected.empty()) files.insert(files.begin(), options.expected);
  given.inputs = read_operands(given.op, files);
  check_call(given.op, given.inputs, given.parameters);
  return given;
}

void print(const Explanation& e) {
  fmt::print("{} of {} elements differ from what is expected ({:.1f} dB)\n", e.differing,
             e.elements, e.sqnr_db);
  for (const Cause& cause : e.causes) {
    fmt::print("  {:>6.1f} %  {}\n", 100.0 * cause.share, cause.sentence);
  }
  if (!e.pattern.empty()) fmt::print("  {}\n", e.pattern);
}

int explain_file(const ExplainArguments& options, const Settings& settings) {
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  for (const auto& [name, texts] :
       {std::pair{"--set", &options.settings}, std::pair{"--input", &options.inputs}}) {
    if (!options.op.empty() || texts->empty()) continue;
    throw Error(Fault::argument,
                std::string(name) + ": needs --op; a case has its own operands and parameters");
  }
  const std::unique_ptr<World> world = make_world("in_process");
  std::optional<ShapedCase> shaped;
  if (options.op.empty()) shaped = find_shaped_case(options.expected);
  AnsweredCall known = shaped               ? whole_call(*shaped)
                       : options.op.empty() ? read_call(options.expected)
                                            : given_call(options);
  Call call = make_call(known.op, std::move(known.inputs), known.parameters);
  call.world = world.get();
  // A case is what `run` would take, or it is refused as there: before anything looks at it.
  NamedTensors made = run_call(*backend, call);
  if (shaped || !options.op.empty()) known.expected = std::move(made);
  known.actual = shaped ? read_answer(*shaped, known.expected, options.actual)
                        : read_answer(known, options.actual);
  Explanation e;
  {
    ProgressBar bar(settings.quiet);
    e = explain(*backend, call, known.expected, known.actual, bar.callback());
  }
  if (options.json) {
    fmt::print("{}\n", to_json(e));
  } else {
    if (!settings.quiet && e.differing > 0) print(e);
    fmt::print("{}\n", e.sentence());
  }
  const bool settled = e.verdict == ExplainVerdict::same || e.verdict == ExplainVerdict::explained;
  return settled ? kAgree : kDisagree;
}

std::function<int()> prepare_explain(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<ExplainArguments>();
  app.add_option("CASE", options->expected,
                 "SUITE/cases/ID.safetensors; with --op, operands as --input reads them");
  app.add_option("ACTUAL", options->actual,
                 "the kernel's outputs under their names, as y or codes and scales: .safetensors "
                 "or [NAME=]FILE.npy");
  app.add_option("--op", options->op, "the operator that computed ACTUAL")->check(operator_there);
  app.add_option("--input", options->inputs,
                 std::string("with --op, beside or instead of CASE: ") + kOperandFiles)
      ->allow_extra_args(false);
  app.add_option("--set", options->settings, "with --op: a parameter, key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--json", options->json, "print the explanation as JSON, schema mxo-explain/1");
  app.parse_complete_callback([options] {
    if (options->actual.empty() && !options->inputs.empty())
      options->actual.swap(options->expected);
    if (options->actual.empty()) {
      throw CLI::RequiredError(
          options->expected.empty() && options->inputs.empty() ? "CASE and ACTUAL" : "ACTUAL");
    }
  });
  return [options, &settings] { return explain_file(*options, settings); };
}

}  // namespace

const Command kExplain{"explain", "why an output differs: what the kernel did, measured",
                       prepare_explain};

}  // namespace mxo::tools
