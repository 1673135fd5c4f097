// mxo reduce CASE ACTUAL: the smallest slice of a failing case that still fails, as a suite of one.
#include "golden/suites/reduce.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/explain/explain.h"
#include "golden/files/read_tensors.h"
#include "golden/files/safetensors.h"
#include "golden/suites/case_file.h"
#include "golden/suites/shapes/shaped_answer.h"
#include "tools/commands.h"
#include "tools/process.h"
#include "tools/user_command.h"

namespace mxo::tools {
namespace {

struct ReduceArguments {
  std::string whole;
  std::string actual;
  std::string output;
  std::string command;
  std::string gate = "bits";
  int runs = 30;
};

/// The kernel of --command: a case file in, outputs under their names out.
std::optional<NamedTensors> run_kernel(const std::string& command, const AnsweredCall& slice) {
  const ScratchDirectory scratch;
  const std::filesystem::path in = scratch.path() / (slice.id + ".safetensors");
  const std::filesystem::path out = scratch.path() / "out.safetensors";
  write_case(in, suite_case_of(slice), slice.inputs, slice.expected, Spelling::portable);
  const int code = run_user_command(command, {{"{in}", in}, {"{out}", out}});
  std::error_code error;
  if (code != 0 || !std::filesystem::exists(out, error)) return std::nullopt;
  try {
    return read_answer(slice, out);
  } catch (const Error&) {
    return std::nullopt;  // a kernel that writes no file of tensors, or others, gives no outputs
  }
}

/// The first cause of a case whose outputs these are.
class Causes {
 public:
  explicit Causes(Backend& backend) : backend_(backend) {}
  Explanation of(const AnsweredCall& one) const {
    return explain(backend_, make_call(one.op, one.inputs, one.parameters), one.expected,
                   one.actual);
  }
  /// Takes slices of a case that has a cause only where it is found again, and of one without a
  /// cause only those without.  Where it explains all of the whole, it does of the slice.
  void keep(const AnsweredCall& whole, ReduceOptions& how) const {
    constexpr Index kLargest = Index{1} << 22;
    Index elements = 0;
    for (const auto& [name, tensor] : whole.expected) elements += tensor.elements();
    if (elements > kLargest || catalogue_entry(whole.op).call_ranks != nullptr) return;
    const Explanation known = of(whole);
    const bool all = known.verdict == ExplainVerdict::explained;
    how.alike = [this, all, id = first_id(known)](const AnsweredCall& small) {
      const Explanation found = of(small);
      return first_id(found) == id && (!all || found.verdict == ExplainVerdict::explained);
    };
  }

 private:
  static std::string first_id(const Explanation& e) {
    return e.causes.empty() ? std::string() : e.causes.front().id;
  }

  Backend& backend_;
};

int reduce(const ReduceArguments& options, const Settings& settings) {
  if (options.actual.empty() && options.command.empty()) {
    throw Error(Fault::argument, "needs ACTUAL, or --command to compute it");
  }
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  const std::optional<ShapedCase> shaped = find_shaped_case(options.whole);
  AnsweredCall whole = shaped ? whole_call(*shaped) : read_call(options.whole);
  if (shaped) {
    const std::unique_ptr<World> world = make_in_process_world();
    whole.expected = call_operator(*backend, whole.op, whole.inputs, whole.parameters, world.get());
  }
  ReduceOptions how;
  how.gate.gate = parse_gate(options.gate);
  how.runs = options.runs;
  Kernel kernel;
  if (!options.command.empty()) {
    check_places("--command", options.command, {"{in}", "{out}"});
    kernel = [&options](const AnsweredCall& slice) { return run_kernel(options.command, slice); };
  }
  const Causes causes(*backend);
  if (!options.actual.empty()) {
    whole.actual = shaped ? read_answer(*shaped, whole.expected, options.actual)
                          : read_answer(whole, options.actual);
    causes.keep(whole, how);
  }
  const Reduction reduction = reduce_case(*backend, whole, kernel, how);
  write_reduction(options.output, reduction, [&] {
    if (settings.quiet) return;
    fmt::print("{}: {}", whole.id, reduction.words);
    if (!options.command.empty()) fmt::print("; {} runs", reduction.runs);
    fmt::print("\nmxo compare {} {}\n", options.output,
               (std::filesystem::path(options.output) / "actual").string());
    if (how.alike) {
      fmt::print("as the whole, {}\n", causes.of(reduction.small).sentence());
    }
    bring_out_stdout();
  });
  return kAgree;
}

std::function<int()> prepare_reduce(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<ReduceArguments>();
  app.add_option("CASE", options->whole, "SUITE/cases/ID.safetensors, which ACTUAL fails")
      ->required();
  app.add_option("ACTUAL", options->actual,
                 "the kernel's outputs under their names, as y or codes and scales: .safetensors "
                 "or [NAME=]FILE.npy");
  app.add_option(
         "--output", options->output,
         "directory to write to: a suite of the small case, and actual/, the outputs that fail it")
      ->required();
  CLI::Option* const command =
      app.add_option("--command", options->command,
                     "the kernel, run on slices: 'k {in} {out}' reads a case file and writes its "
                     "outputs");
  app.add_option("--runs", options->runs, "most runs of --command")
      ->check(CLI::Range(1, 100000))
      ->needs(command)
      ->capture_default_str();
  app.add_option(
         "--gate", options->gate,
         "the gate that the case fails: bits, ulp=N, sqnr=DB, sqnr=auto, sqnr=PRESET or bound")
      ->capture_default_str();
  return [options, &settings] { return reduce(*options, settings); };
}

}  // namespace

const Command kReduce{"reduce", "a failing case cut to the smallest that still fails",
                      prepare_reduce};

}  // namespace mxo::tools
