// mxo audit: which faults of real kernels a gate lets through, and at what figure.
#include "golden/museum/audit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/files/safetensors.h"
#include "golden/reports/text.h"
#include "golden/suites/case_file.h"
#include "tools/commands.h"
#include "tools/terminal.h"
#include "tools/user_command.h"
#include "tools/whole_words.h"

namespace mxo::tools {
namespace {

struct AuditArguments {
  std::string gate;
  std::string command;
  std::optional<int> row;
  std::uint64_t seed = 1;
  bool json = false;
};

/// The gate of --command: exit code 0 lets the outputs pass.
bool own_gate_passes(const std::string& command, const Planted& planted) {
  const ScratchDirectory scratch;
  const std::filesystem::path expected = scratch.path() / "expected.safetensors";
  const std::filesystem::path actual = scratch.path() / "actual.safetensors";
  SuiteCase item;
  item.id = "audit";
  item.op = planted.call.op;
  item.parameters = planted.call.set.all();
  NamedTensors inputs;
  for (const auto& [name, tensor] : planted.call.inputs) inputs.emplace(name, *tensor);
  write_case(expected, item, std::move(inputs), planted.expected, Spelling::portable);
  TensorFile outputs;
  for (const auto& [name, tensor] : planted.actual) outputs.tensors.emplace(name, tensor);
  write_safetensors(actual, outputs);
  return run_user_command(command, {{"{expected}", expected}, {"{actual}", actual}}) == 0;
}

/// A gate of --command that refuses right outputs as well, or cannot be run, says nothing of the
/// fault.
OwnGate own_gate(const std::string& command) {
  return [command](const Planted& planted) {
    if (own_gate_passes(command, planted)) return true;
    if (!own_gate_passes(command, {planted.call, planted.expected, planted.expected})) {
      throw Error(Fault::argument,
                  "--command: exits with an error on the right outputs of " + planted.call.op);
    }
    return false;
  };
}

nlohmann::ordered_json json_of(const Audited& a) {
  nlohmann::ordered_json json{
      {"row", a.exhibit->number}, {"reports", a.exhibit->reports}, {"fault", a.exhibit->fault},
      {"passes", a.passes},       {"missed", a.missed()},          {"differing", a.differing},
      {"elements", a.elements},   {"max_ulp", a.max_ulp},          {"sqnr", a.sqnr}};
  // JSON has no infinities.
  if (!std::isfinite(a.sqnr)) json["sqnr"] = decibel_text(a.sqnr);
  return json;
}

void print(const Audited& a) {
  fmt::print("{:8} {:>2} {} ({}): {} of {} elements differ, max ulp {}, SQNR {}\n",
             a.harmless ? "harmless"
             : a.passes ? "PASSES"
                        : "refused",
             a.exhibit->number, a.exhibit->fault, a.exhibit->reports, a.differing, a.elements,
             a.max_ulp, decibel_text(a.sqnr));
}

int audit_gate(const AuditArguments& options, const Settings& settings) {
  if (options.gate.empty() == options.command.empty()) {
    throw Error(Fault::argument, options.gate.empty() ? "needs --gate or --command"
                                                      : "found --gate and --command, needs one");
  }
  CompareOptions how;
  OwnGate own;
  if (options.command.empty()) {
    how.gate = parse_gate(options.gate);
  } else {
    check_places("--command", options.command, {"{expected}", "{actual}"});
    own = own_gate(options.command);
  }
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  const std::unique_ptr<World> world = make_world("in_process");
  std::vector<Audited> all;
  {
    ProgressBar bar(settings.quiet);
    const auto progress = bar.callback();
    const auto rows = exhibits();
    for (const Exhibit& exhibit : rows) {
      if (options.row && exhibit.number != *options.row) continue;
      if (progress) {
        progress(static_cast<double>(&exhibit - rows.data()) / static_cast<double>(rows.size()),
                 exhibit.fault);
      }
      all.push_back(audit(*backend, *world, exhibit, options.seed, how, own));
    }
  }
  if (all.empty()) {
    throw Error(Fault::argument,
                fmt::format("--row: found {}, needs a row of mxo museum", *options.row));
  }
  // What got through comes first.
  std::stable_sort(all.begin(), all.end(),
                   [](const Audited& a, const Audited& b) { return a.missed() > b.missed(); });
  const auto missed =
      std::count_if(all.begin(), all.end(), [](const Audited& a) { return a.missed(); });
  const std::string gate = own ? options.command : to_text(how.gate);
  if (options.json) {
    nlohmann::ordered_json json{{"schema", "mxo-audit/1"},
                                {"gate", gate},
                                {"faults", all.size()},
                                {"missed", missed},
                                {"rows", nlohmann::ordered_json::array()}};
    for (const Audited& a : all) json["rows"].push_back(json_of(a));
    fmt::print("{}\n", json.dump(1));
  } else {
    for (const Audited& a : all) {
      if (!settings.quiet || a.missed()) print(a);
    }
    fmt::print("{}: {} of {} faults get through\n", gate, missed, all.size());
  }
  return missed == 0 ? kAgree : kDisagree;
}

std::function<int()> prepare_audit(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<AuditArguments>();
  app.add_option("--gate", options->gate, "bits, ulp=N, sqnr=DB, sqnr=auto, sqnr=PRESET or bound");
  app.add_option("--command", options->command,
                 "your own gate: 'g {expected} {actual}' exits with 0 if the output passes");
  app.add_option("--row", options->row, "only the faults of this number in the museum")
      ->check(signed_word);
  app.add_option("--seed", options->seed, "random seed of the operands")->check(unsigned_word);
  app.add_flag("--json", options->json, "as JSON, schema mxo-audit/1");
  return [options, &settings] { return audit_gate(*options, settings); };
}

}  // namespace

const Command kAudit{"audit", "which faults of real kernels a gate lets through", prepare_audit};

}  // namespace mxo::tools
