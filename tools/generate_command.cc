// mxo generate DIR: a suite of golden vectors on disk.
#include <algorithm>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "golden/suites/case_filter.h"
#include "golden/suites/generate.h"
#include "golden/suites/shapes/layer_requests.h"
#include "tools/commands.h"
#include "tools/crew.h"
#include "tools/operators.h"
#include "tools/options_read.h"
#include "tools/process.h"
#include "tools/terminal.h"
#include "tools/whole_words.h"

namespace mxo::tools {
namespace {

struct GenerateArguments {
  std::string directory;
  GenerateOptions suite;
  bool native = false;
  std::string op;
  std::string shape;
  std::vector<std::string> settings;
  std::string from;
  std::string model;
  Index tokens = 4096;
  Index groups = 0;
  std::string recipe = "mxfp8_rceil";
  std::string format = "e4m3";
  std::string only;
  std::string distribution = "normal";
  ShapeOptions options;
};

Parameters parameters_of(const GenerateArguments& options) {
  Parameters set;
  for (const std::string& assignment : options.settings) set.set(assignment);
  return set;
}

std::string counted(std::size_t cases) {
  return std::to_string(cases) + (cases == 1 ? " case" : " cases");
}

/// The cases of a layer that --only takes.
std::vector<ShapeRequest> requests_of(const GenerateArguments& options) {
  const Model& model = model_named(options.model);
  std::vector<ShapeRequest> requests =
      layer_requests(model, options.tokens, options.groups == 0 ? model.groups : options.groups,
                     options.recipe, options.format, options.options);
  Manifest all;
  for (const ShapeRequest& request : requests) {
    ManifestCase& item = all.cases.emplace_back();
    item.id = request.id;
    item.op = request.op;
    item.parameters = request.set.all();
  }
  const Manifest some = CaseFilter(options.only).of(std::move(all));
  std::erase_if(requests, [&some](const ShapeRequest& request) {
    return std::ranges::none_of(
        some.cases, [&request](const ManifestCase& item) { return item.id == request.id; });
  });
  return requests;
}

/// The operands of `requests` as recipes, the outputs as digests.
int generate_by_shape(const GenerateArguments& options, const std::string& name,
                      const std::vector<ShapeRequest>& requests, const Settings& settings) {
  const std::unique_ptr<World> world = make_in_process_world();
  ProgressBar bar(settings.quiet);
  generate_shapes(options.directory, name, requests, chosen_crew(settings, "cpu"), *world,
                  bar.callback(), [&](const ShapeSuite& suite) {
                    if (settings.quiet) return;
                    fmt::print("{}: {}, seed {}: {}\n", options.directory, name,
                               options.options.seed, counted(suite.cases.size()));
                    bring_out_stdout();
                  });
  return kAgree;
}

int generate_suite(GenerateArguments& options, const Settings& settings) {
  options.options.seed = options.suite.seed;
  options.options.distribution = distribution_named(options.distribution);
  if (!options.model.empty()) {
    return generate_by_shape(options, options.model, requests_of(options), settings);
  }
  if (options.native) options.suite.spelling = Spelling::native;
  if (!options.op.empty() && options.from.empty()) {
    const CatalogueEntry& entry = operator_named(options.op);
    return generate_by_shape(
        options, options.op,
        {{std::string(entry.name), std::string(entry.name), parameters_of(options),
          parse_dimensions(options.shape), options.options}},
        settings);
  }
  const std::unique_ptr<Backend> backend =
      chosen_backend(settings, options.from.empty() ? "reference" : "cpu");
  const std::unique_ptr<World> world = make_in_process_world();
  ProgressBar bar(settings.quiet);
  const auto say = [&](const Manifest& manifest) {
    if (settings.quiet) return;
    fmt::print("{}: suite {}, level {}, seed {}: {}\n", options.directory, manifest.suite,
               manifest.level, manifest.seed, counted(manifest.cases.size()));
    bring_out_stdout();
  };
  if (!options.from.empty()) {
    generate_from(options.directory, options.from, operator_named(options.op).name,
                  parameters_of(options), options.suite.spelling, *backend, *world, say);
    return kAgree;
  }
  generate(options.directory, options.suite, *backend, *world, bar.callback(), say);
  return kAgree;
}

/// Which options belong together.
void check_options(const CLI::App& app, const GenerateArguments& options) {
  if (!options.model.empty()) {
    return check_options_read(app, "--model",
                              {"--tokens", "--groups", "--recipe", "--format", "--only", "--seed",
                               "--distribution", "--offsets", "--routing", "--dtype"});
  }
  if (options.op.empty()) {
    for (const char* name : {"--shape", "--from", "--set"}) {
      if (app.count(name) > 0) {
        throw Error(Fault::argument, std::string(name) + ": needs --op");
      }
    }
    return check_options_read(app, "--suite", {"--level", "--seed", "--native-dtypes"});
  }
  if (options.shape.empty() == options.from.empty()) {
    throw Error(Fault::argument, std::string("--op: needs --shape or --from, found ") +
                                     (options.shape.empty() ? "neither" : "both"));
  }
  if (!options.from.empty()) {
    return check_options_read(app, "--from", {"--op", "--set", "--native-dtypes"});
  }
  check_options_read(
      app, "--shape",
      {"--op", "--set", "--seed", "--distribution", "--offsets", "--routing", "--dtype"});
}

std::function<int()> prepare_generate(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<GenerateArguments>();
  app.add_option("DIR", options->directory, "directory to write to; must be new or empty")
      ->required();
  app.add_option("--suite", options->suite.suite, "which suite (mxo list suites)")
      ->capture_default_str();
  app.add_option("--level", options->suite.level, "0: quick, 1: for CI, 2: exhaustive")
      ->capture_default_str();
  app.add_option("--seed", options->suite.seed, "random seed; the same seed gives the same bytes")
      ->check(unsigned_word)
      ->capture_default_str();
  app.add_flag("--native-dtypes", options->native, "write types such as F8_E4M3 instead of U8");
  app.add_option("--op", options->op, "instead of a suite: one operator, with --shape or --from")
      ->check(operator_there);
  app.add_option("--shape", options->shape,
                 "rows=,columns=,features=,groups=,matrices=,top_k=,experts=,ranks=");
  app.add_option("--set", options->settings, "with --op: a parameter, key=value; may be repeated")
      ->allow_extra_args(false);
  app.add_option("--from", options->from, "with --op: a .safetensors of its operands");
  app.add_option("--model", options->model,
                 "instead of a suite: an expert layer of dsv3, llama4, qwen3, gpt_oss or mixtral");
  app.add_option("--tokens", options->tokens, "with --model: rows that reach this rank")
      ->check(CLI::Range(Index{1}, Index{1} << 31))
      ->capture_default_str();
  app.add_option(
         "--groups", options->groups,
         "with --model: experts on this rank; default: the model's groups in docs/suites.md")
      ->check(CLI::Range(Index{1}, Index{1} << 31));
  app.add_option("--recipe", options->recipe, "with --model: a recipe of grouped_linear")
      ->capture_default_str();
  app.add_option("--format", options->format, "with --model: format of codes, e4m3 or e4m3fnuz")
      ->capture_default_str();
  app.add_option("--only", options->only,
                 "with --model: only cases with op=, id= or a parameter: op=grouped_matmul");
  app.add_option("--distribution", options->distribution,
                 "normal, wide, outliers, zero_lines, saturating, subnormal or special")
      ->capture_default_str();
  app.add_option("--offsets", options->options.offsets,
                 "sizes of groups: even, jagged[=N] (torchao's), skewed or empty")
      ->capture_default_str();
  app.add_option("--routing", options->options.routing, "choice of experts: uniform or hot")
      ->capture_default_str();
  app.add_option("--dtype", options->options.dtype, "type of floats: bf16, f32 or f16");
  return [options, &app, &settings] {
    check_options(app, *options);
    return generate_suite(*options, settings);
  };
}

}  // namespace

const Command kGenerate{"generate", "a suite of golden vectors on disk", prepare_generate};

}  // namespace mxo::tools
