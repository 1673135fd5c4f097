// mxo museum: faults that real kernels had, and what explain says of each.
#include "golden/museum/museum.h"

#include <fmt/core.h>

#include "emu/communicators.h"
#include "tools/commands.h"
#include "tools/terminal.h"

namespace mxo::tools {
namespace {

struct Options {
  int row = 0;
  std::uint64_t seed = 1;
  bool markdown = false;
};

int show(const Options& options, const Settings& settings) {
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  const std::unique_ptr<World> world = make_world("in_process");
  int named = 0;
  int tried = 0;
  if (options.markdown) {
    fmt::print("| # | report | fault | explain says |\n|---|---|---|---|\n");
  }
  for (const Exhibit& exhibit : exhibits()) {
    if (options.row != 0 && exhibit.number != options.row) continue;
    const Looked seen = look_at(*backend, *world, exhibit, options.seed);
    ++tried;
    named += seen.named;
    if (options.markdown) {
      fmt::print("| {} | {} | {} | {} |\n", exhibit.number, exhibit.reports, exhibit.fault,
                 seen.explanation.sentence());
    } else {
      fmt::print("{:>2} {:5} {}\n         {}: {}\n", exhibit.number, seen.named ? "named" : "-",
                 exhibit.fault, exhibit.reports, seen.explanation.sentence());
    }
  }
  if (!options.markdown)
    fmt::print("{} of {} faults named first and in their place\n", named, tried);
  return named == tried ? kAgree : kDisagree;
}

std::function<int()> prepare(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<Options>();
  app.add_option("--row", options->row, "this row of the museum only");
  app.add_option("--seed", options->seed, "of the operands");
  app.add_flag("--markdown", options->markdown, "the table of docs/museum.md");
  return [options, &settings] { return show(*options, settings); };
}

}  // namespace

const Command kMuseum{"museum", "faults that real kernels had, and what explain says of them",
                      prepare};

}  // namespace mxo::tools
