// mxo generate DIR: a suite of golden vectors on disk.
#include <fmt/core.h>

#include "emu/communicators.h"
#include "golden/suites/generate.h"
#include "tools/commands.h"
#include "tools/process.h"
#include "tools/terminal.h"
#include "tools/without_sign.h"

namespace mxo::tools {
namespace {

struct GenerateArguments {
  std::string directory;
  GenerateOptions suite;
  bool native = false;
};

int generate_suite(GenerateArguments& options, const Settings& settings) {
  if (options.native) options.suite.spelling = Spelling::native;
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "reference");
  const std::unique_ptr<World> world = make_in_process_world();
  ProgressBar bar(settings.quiet);
  generate(options.directory, options.suite, *backend, *world, bar.callback(),
           [&](const Manifest& manifest) {
             if (settings.quiet) return;
             fmt::print("{}: suite {}, level {}, seed {}: {} cases\n", options.directory,
                        manifest.suite, manifest.level, manifest.seed, manifest.cases.size());
             bring_out_stdout();
           });
  return kAgree;
}

std::function<int()> prepare_generate(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<GenerateArguments>();
  app.add_option("DIR", options->directory, "where to; must not exist or be empty")->required();
  app.add_option("--suite", options->suite.suite, "which suite (mxo list suites)")
      ->capture_default_str();
  app.add_option("--level", options->suite.level, "0 smoke, 1 CI, 2 exhaustive")
      ->capture_default_str();
  app.add_option("--seed", options->suite.seed, "same seed, same bytes")
      ->check(without_sign)
      ->capture_default_str();
  app.add_flag("--native-dtypes", options->native, "write F8_E4M3 and so on instead of U8");
  return [options, &settings] { return generate_suite(*options, settings); };
}

}  // namespace

const Command kGenerate{"generate", "a suite of golden vectors on disk", prepare_generate};

}  // namespace mxo::tools
