// mxo fingerprint generate|read DIR: operands that reveal how a kernel adds, and what they reveal.
#include <filesystem>
#include <memory>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/read_tensors.h"
#include "golden/files/safetensors.h"
#include "golden/fingerprint/fit.h"
#include "golden/fingerprint/probes.h"
#include "tools/commands.h"
#include "tools/process.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

std::filesystem::path operands_file(const std::filesystem::path& dir, const ProbeKind& kind) {
  return dir / (std::string(kind.name) + ".safetensors");
}
std::filesystem::path outputs_file(const std::filesystem::path& dir, const ProbeKind& kind) {
  return dir / (std::string(kind.name) + ".y.safetensors");
}

int generate_probes(const std::string& directory, const Settings& settings) {
  std::error_code error;
  const bool made = std::filesystem::create_directories(directory, error);
  if (error) throw Error(Fault::file, directory + ": " + error.message() + "; needs a directory");
  std::vector<std::unique_ptr<OutputFile>> files;
  for (const ProbeKind& kind : probe_kinds()) {
    TensorFile file;
    file.tensors = make_probe(kind);
    file.metadata["asks"] = kind.asks;
    files.push_back(std::make_unique<OutputFile>(operands_file(directory, kind)));
    write_safetensors(*files.back(), file, Spelling::portable);
    if (!settings.quiet) {
      fmt::print("{:<28} {}\n", operands_file(directory, kind).string(), kind.asks);
    }
  }
  if (!settings.quiet) {
    fmt::print(
        "Write each y [48, 24] as tensor 'y' of DIR/<kind>.y.safetensors, then "
        "mxo fingerprint read DIR\n");
  }
  try {
    bring_out_stdout();
    for (const auto& file : files) file->commit();
  } catch (const Error&) {
    files.clear();
    std::error_code not_empty;
    if (made) std::filesystem::remove(directory, not_empty);
    throw;
  }
  return kAgree;
}

void print(const ProbeKind& kind, const Fingerprint& f) {
  fmt::print("{}: {}\n", kind.name, f.sentence);
  for (const ParameterFit& p : f.parameters) {
    std::string values;
    for (const std::string& value : p.values) values += (values.empty() ? "" : " or ") + value;
    fmt::print("  {:<18} {}", p.name, values);
    if (p.nearest_other >= 0) {
      fmt::print("  (the nearest other leaves {} of {} outputs different)", p.nearest_other,
                 f.outputs);
    }
    fmt::print("\n");
  }
}

int read_outputs(const std::string& directory, const Settings& settings) {
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  bool any = false;
  bool all_fit = true;
  for (const ProbeKind& kind : probe_kinds()) {
    const std::filesystem::path path = outputs_file(directory, kind);
    if (!std::filesystem::exists(path)) continue;
    any = true;
    const TensorFile outputs = read_tensors(path);
    const auto at = outputs.tensors.find("y");
    if (at == outputs.tensors.end()) {
      throw Error(Fault::file, path.string() + ": holds no tensor 'y'");
    }
    const NamedTensors probe = make_probe(kind);
    const bool halves = size_of(at->second.dtype()) == 2;
    const Call call =
        make_call(kind.op, probe, probe_parameters(kind, halves ? Dtype::bf16 : Dtype::f32));
    Fingerprint f;
    {
      ProgressBar bar(settings.quiet);
      f = fit_sum(*backend, call, kind.kind, at->second, bar.callback());
    }
    print(kind, f);
    all_fit = all_fit && !f.fits.empty();
  }
  if (!any) {
    std::error_code ignored;
    throw Error(Fault::file,
                directory +
                    (std::filesystem::is_directory(directory, ignored) ? ": holds no outputs"
                                                                       : ": is no directory") +
                    "; needs <kind>.y.safetensors, kind "
                    "one of fp8, fp8_fnuz, bf16, mx");
  }
  return all_fit ? kAgree : kDisagree;
}

std::function<int()> prepare_fingerprint(CLI::App& app, const Settings& settings) {
  const auto directory = std::make_shared<std::string>();
  const auto reads = std::make_shared<bool>(false);
  CLI::App* generate = app.add_subcommand("generate", "write the operands");
  generate->add_option("DIR", *directory, "directory to write to")->required();
  CLI::App* read = app.add_subcommand("read", "infer the accumulation from the outputs");
  read->add_option("DIR", *directory, "directory of the outputs")->required();
  read->callback([reads] { *reads = true; });
  app.require_subcommand(0, 1);
  app.parse_complete_callback([&app] {
    if (app.get_subcommands().empty()) throw CLI::RequiredError("generate or read");
  });
  return [directory, reads, &settings] {
    return *reads ? read_outputs(*directory, settings) : generate_probes(*directory, settings);
  };
}

}  // namespace

const Command kFingerprint{"fingerprint", "how a kernel adds, inferred from its outputs",
                           prepare_fingerprint};

}  // namespace mxo::tools
