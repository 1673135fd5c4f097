// mxo run OP: one operator on the tensors of a file.
#include <algorithm>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/read_tensors.h"
#include "golden/files/safetensors.h"
#include "golden/files/sha256.h"
#include "ops/catalogue/ranks.h"
#include "tools/commands.h"
#include "tools/counted.h"
#include "tools/operators.h"
#include "tools/process.h"

namespace mxo::tools {
namespace {

struct RunArguments {
  std::string op;
  std::vector<std::string> inputs;
  std::string output;
  std::vector<std::string> settings;
  std::string communicator;
  bool native = false;
  bool keep_stages = false;
  bool report = false;
};

Parameters parameters_of(const RunArguments& options) {
  Parameters parameters;
  for (const std::string& assignment : options.settings) parameters.set(assignment);
  if (options.keep_stages) parameters.set("keep_stages", "true");
  return parameters;
}

/// Reads "FILE", or "NAME=FILE.npy": a .npy holds one tensor without a name, which is the stem of
/// the file if no NAME is given.
NamedTensors read_input(const std::string& op, const std::string& text) {
  const std::size_t equals = text.find('=');
  const bool array = text.ends_with(".npy");
  if (array && equals != std::string::npos) {
    NamedTensors tensors;
    tensors.emplace(text.substr(0, equals), read_npy(text.substr(equals + 1)));
    return tensors;
  }
  NamedTensors tensors = read_tensors(text).tensors;
  const std::span<const OperandSpec> specs = catalogue_entry(op).inputs;
  std::string names;
  for (const OperandSpec& spec : specs) {
    names += (names.empty() ? "" : ", ") + std::string(spec.name);
  }
  if (tensors.empty()) throw Error(Fault::file, text + ": holds no tensor, needs " + names);
  for (const auto& tensor : tensors) {
    const std::string& name = tensor.first;
    if (std::any_of(specs.begin(), specs.end(),
                    [&](const OperandSpec& spec) { return names_operand(spec.name, name); })) {
      continue;
    }
    throw Error(Fault::file, text + ": " + op + " has no operand '" + name + "'; needs " +
                                 (array ? "--input NAME=" + text + ", with NAME " : "") +
                                 "one of " + names);
  }
  return tensors;
}

NamedTensors read_inputs(const RunArguments& options) {
  NamedTensors all;
  for (const std::string& text : options.inputs) {
    for (auto& [name, tensor] : read_input(options.op, text)) {
      if (!all.emplace(name, std::move(tensor)).second) {
        throw Error(Fault::file, text + ": tensor '" + name + "' was in an earlier --input too");
      }
    }
  }
  return all;
}

/// What every process of a job must have been asked.
std::string question_of(std::string_view op, const Parameters& parameters,
                        const NamedTensors& inputs) {
  std::string text(op);
  for (const auto& [key, value] : parameters.all()) text += "\n" + key + "=" + value;
  for (const auto& [name, tensor] : inputs) {
    text += "\n" + name + " " + describe(tensor.operand()) + " " +
            sha256(tensor.data(), tensor.bytes());
  }
  return text;
}

/// The file must be one that can hold the outputs, and no operand.
void check_output(const RunArguments& options) {
  const std::filesystem::path output = options.output;
  if (output.extension() == ".npy") {
    throw Error(Fault::argument,
                options.output + ": outputs are written as safetensors, needs a name without .npy");
  }
  for (const std::string& input : options.inputs) {
    std::error_code ignored;
    const std::size_t equals = input.find('=');
    for (const std::string& file : {input, input.substr(equals == input.npos ? 0 : equals + 1)}) {
      if (std::filesystem::equivalent(output, file, ignored)) {
        throw Error(Fault::argument, options.output + ": is also an --input");
      }
    }
  }
}

/// So that the file can be judged by itself: what was run, and the rows of each group.
void describe_call(std::string_view op, const Parameters& parameters, const NamedTensors& inputs,
                   TensorFile& file) {
  file.metadata["mxo.op"] = op;
  for (const auto& [key, value] : parameters.all()) file.metadata["mxo.set." + key] = value;
  for (const auto& [name, tensor] : file.tensors) {
    std::string& outputs = file.metadata["mxo.outputs"];
    outputs += (outputs.empty() ? "" : ",") + name;
  }
  const auto ends = inputs.find("group_ends");
  if (ends != inputs.end()) file.tensors.emplace("group_ends", ends->second);
}

void print_traffic(const CountedWorld& world) {
  for (std::size_t p = 0; p < world.traffic().size(); ++p) {
    const Traffic& sent = world.traffic()[p];
    fmt::print("{:<24} sends {} bytes of rows to other ranks, {} of data for all ranks\n",
               fmt::format("rank{}", p), sent.exchanged, sent.gathered);
  }
}

int run(const RunArguments& options, const Settings& settings) {
  check_output(options);
  const CatalogueEntry& entry = operator_named(options.op);
  if (options.report && entry.call_ranks == nullptr) {
    throw Error(Fault::argument, "--report: found " + options.op + ", needs an operator on ranks");
  }
  const Parameters parameters = parameters_of(options);
  parameters.check(entry.name, entry.parameters);
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  const NamedTensors inputs = read_inputs(options);

  TensorFile result;
  const std::unique_ptr<World> world = make_world(options.communicator);
  world->check(*backend);
  if (!world->one_process()) world->agree_on(question_of(entry.name, parameters, inputs));
  CountedWorld counted(*world);
  result.tensors = call_operator(*backend, entry.name, inputs, parameters,
                                 options.report ? &counted : world.get());
  if (!world->writes()) return kAgree;
  describe_call(entry.name, parameters, inputs, result);
  OutputFile out(options.output);
  write_safetensors(out, result, options.native ? Spelling::native : Spelling::portable);
  if (!settings.quiet) {
    for (const auto& [name, tensor] : result.tensors) {
      if (name == "group_ends" && inputs.contains(name)) continue;
      fmt::print("{:<24} {}\n", name, describe(tensor.operand()));
    }
  }
  if (options.report) print_traffic(counted);
  bring_out_stdout();
  out.commit();
  return kAgree;
}

std::function<int()> prepare_run(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<RunArguments>();
  app.add_option("OP", options->op, "the operator (mxo list ops)")
      ->required()
      ->check(operator_there);
  app.add_option("--input", options->inputs,
                 "the operands, by name: .safetensors, or [NAME=]FILE.npy; may be repeated")
      ->required()
      ->allow_extra_args(false);
  app.add_option("--output", options->output, "the .safetensors to write")->required();
  app.add_option("--set", options->settings, "a parameter, key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--communicator", options->communicator,
                 "for operators on ranks: in_process, mpi or nccl; default: mpi under mpirun, else "
                 "in_process");
  app.add_flag("--keep-stages", options->keep_stages,
               "also write the tensors between the steps of moe_layer");
  app.add_flag("--report", options->report,
               "for operators on ranks: print how many bytes each rank sends");
  app.add_flag("--native-dtypes", options->native, "write types such as F8_E4M3 instead of U8");
  return [options, &settings] { return run(*options, settings); };
}

}  // namespace

const Command kRun{"run", "one operator on the tensors of a file", prepare_run};

}  // namespace mxo::tools
