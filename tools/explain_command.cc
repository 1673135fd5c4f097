// mxo explain CASE ACTUAL: why an output is not the expected one.
#include "golden/explain/explain.h"

#include <filesystem>

#include <fmt/core.h>

#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/files/read_tensors.h"
#include "golden/suites/case_file.h"
#include "tools/commands.h"
#include "tools/operators.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

struct ExplainArguments {
  std::string expected;
  std::string actual;
  std::string op;
  std::vector<std::string> settings;
  bool json = false;
};

/// The question and the answer that is owed.
struct Known {
  Call call;
  NamedTensors expected;
};

/// SUITE/cases/<id>.safetensors, with the manifest in SUITE.
Known known_case(const std::filesystem::path& path) {
  const std::filesystem::path suite = path.parent_path().parent_path();
  const std::string id = path.stem().string();
  const Manifest manifest = read_manifest(suite.empty() ? "." : suite);
  for (const ManifestCase& item : manifest.cases) {
    if (item.id != id) continue;
    StoredCase stored = read_case(suite.empty() ? "." : suite, item);
    Known known;
    for (const ManifestOperand& operand : item.operands) {
      if (operand.role != Role::expected) continue;
      const auto at = stored.file.tensors.find(operand.stored_name());
      if (at == stored.file.tensors.end()) continue;
      Tensor tensor = at->second;
      if (size_of(tensor.dtype()) == size_of(operand.format)) tensor.reinterpret_as(operand.format);
      known.expected.emplace(operand.name, std::move(tensor));
    }
    known.call = make_call(item.op, std::move(stored.inputs), Parameters(item.parameters));
    return known;
  }
  throw Error(Fault::file, path.string() + ": the manifest beside it has no case '" + id + "'");
}

/// --op OP on the operands of a file.
Known known_call(const ExplainArguments& options, Backend& backend, World& world) {
  Known known;
  Parameters set;
  for (const std::string& assignment : options.settings) set.set(assignment);
  const std::string_view op = operator_named(options.op).name;
  NamedTensors operands = read_tensors(options.expected).tensors;
  check_call(op, operands, set);
  known.call = make_call(op, std::move(operands), set);
  known.call.world = &world;
  known.expected = run_call(backend, known.call);
  return known;
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
  if (options.op.empty() && !options.settings.empty()) {
    throw Error(Fault::argument, "--set: needs --op; a case brings its own parameters");
  }
  const std::unique_ptr<World> world = make_world("in_process");
  Known known =
      options.op.empty() ? known_case(options.expected) : known_call(options, *backend, *world);
  known.call.world = world.get();
  // A case is what `run` would take, or it is refused as there: before anything looks at it.
  if (options.op.empty()) run_call(*backend, known.call);
  const NamedTensors actual = read_tensors(options.actual).tensors;
  bool any = false;
  for (const auto& [name, tensor] : known.expected) any = any || actual.count(name) > 0;
  if (!any) {
    throw Error(Fault::file, options.actual + ": holds no output of " + known.call.op);
  }
  Explanation e;
  {
    ProgressBar bar(settings.quiet);
    e = explain(*backend, known.call, known.expected, actual, bar.callback());
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
                 "SUITE/cases/ID.safetensors; with --op, a file of the operator's operands")
      ->required();
  app.add_option("ACTUAL", options->actual, "outputs under their operand names")->required();
  app.add_option("--op", options->op, "the operator that ACTUAL claims to be")
      ->check(operator_there);
  app.add_option("--set", options->settings, "its parameters, key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--json", options->json, "the explanation as JSON, schema mxo-explain/1");
  return [options, &settings] { return explain_file(*options, settings); };
}

}  // namespace

const Command kExplain{"explain", "why an output differs: what the kernel did, measured",
                       prepare_explain};

}  // namespace mxo::tools
