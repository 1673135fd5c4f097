// mxo museum: faults that real kernels had, which case of the suites shows each, and what compare
// and explain say of it.
#include "golden/museum/museum.h"

#include <optional>
#include <set>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/museum/trigger.h"
#include "tools/commands.h"
#include "tools/terminal.h"
#include "tools/whole_words.h"

namespace mxo::tools {
namespace {

struct MuseumArguments {
  std::optional<int> row;
  std::uint64_t seed = 1;
  bool markdown = false;
};

void print_row(const Exhibit& exhibit, const Looked& seen,
               const std::optional<Triggered>& triggered) {
  fmt::print("{:>2} {:5} {}\n         {}: {}\n", exhibit.number, seen.named ? "named" : "-",
             exhibit.fault, exhibit.reports, seen.explanation.sentence());
  if (triggered) {
    fmt::print("         {}: {}: {}\n", triggered->suite, triggered->id, triggered->verdict);
  } else {
    fmt::print("         no case of a suite shows it\n");
  }
}

int show(const MuseumArguments& options, const Settings& settings) {
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  const std::unique_ptr<World> world = make_world("in_process");
  std::vector<Exhibit> chosen;
  for (const Exhibit& exhibit : exhibits()) {
    if (!options.row || exhibit.number == *options.row) chosen.push_back(exhibit);
  }
  if (chosen.empty()) {
    throw Error(Fault::argument,
                fmt::format("--row: found {}, needs the number of a row that mxo museum prints",
                            *options.row));
  }
  const auto triggered = triggered_by_suites(*backend, *world, chosen);
  std::size_t named = 0;
  std::set<int> rows;
  std::set<int> shown;
  if (options.markdown) fmt::print("{}", markdown_head());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Looked seen = look_at(*backend, *world, chosen[i], options.seed);
    named += seen.named;
    rows.insert(chosen[i].number);
    if (triggered[i]) shown.insert(chosen[i].number);
    if (options.markdown) {
      fmt::print("{} {} |\n", markdown_row(chosen[i], triggered[i]), seen.explanation.sentence());
    } else {
      print_row(chosen[i], seen, triggered[i]);
    }
  }
  if (!options.markdown) {
    fmt::print("{} of {} faults named first and in their place; {} of {} rows shown by a suite\n",
               named, chosen.size(), shown.size(), rows.size());
  }
  return named == chosen.size() ? kAgree : kDisagree;
}

std::function<int()> prepare_museum(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<MuseumArguments>();
  app.add_option("--row", options->row, "only the faults of this number in the museum")
      ->check(signed_word);
  app.add_option("--seed", options->seed, "random seed of the operands")->check(unsigned_word);
  app.add_flag("--markdown", options->markdown, "print the table of docs/museum.md");
  return [options, &settings] { return show(*options, settings); };
}

}  // namespace

const Command kMuseum{"museum",
                      "faults that real kernels had, and what compare and explain say of them",
                      prepare_museum};

}  // namespace mxo::tools
