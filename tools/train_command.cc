// mxo train: training in emulated precision.
#include <algorithm>

#include <fmt/core.h>

#include "golden/read_tensors.h"
#include "tools/commands.h"
#include "tools/terminal.h"
#include "tools/train/replay.h"

namespace mxo::tools {
namespace {

int print_replay(const std::string& path, const Settings& settings) {
  const std::unique_ptr<Backend> backend = chosen_backend(settings, "cpu");
  std::vector<ReplayRow> rows;
  {
    ProgressBar bar(settings.quiet);
    rows = replay(*backend, read_tensors(path), bar.callback());
  }
  Index values = 0;
  Index differing = 0;
  for (const ReplayRow& row : rows) {
    values += row.values;
    differing += row.differing;
  }
  if (!settings.quiet) {
    fmt::print("{:<6} {:>5}  {:<7} {:>8} {:>10}\n", "mode", "step", "tensor", "values",
               "differing");
    for (const ReplayRow& row : rows) {
      fmt::print("{:<6} {:>5}  {:<7} {:>8} {:>10}\n", row.mode, row.step, row.tensor, row.values,
                 row.differing);
    }
  }
  fmt::print("{} of {} values differ from the capture\n", differing, values);
  return differing == 0 ? kAgree : kDisagree;
}

std::function<int()> prepare(CLI::App& app, const Settings& settings) {
  const auto capture = std::make_shared<std::string>();
  app.add_option("--replay", *capture,
                 "repeat the training steps of a capture and compare weights and outputs")
      ->required();
  return [capture, &settings] { return print_replay(*capture, settings); };
}

}  // namespace

const Command kTrain{"train", "train in emulated precision, or repeat what a GPU trained", prepare};

}  // namespace mxo::tools
