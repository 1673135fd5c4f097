// One training run, from its first step or a checkpoint to its last.
#pragma once

#include <filesystem>
#include <functional>

#include "golden/judge/progress.h"
#include "tools/train/history.h"
#include "tools/train/options.h"
#include "tools/train/recipe.h"
#include "tools/train/text.h"

namespace mxo::tools {

struct TrainJob {
  TrainOptions options;
  TrainRecipe recipe;
  std::string backend = "cpu";
  int threads = 0;  ///< of all ranks together; 0: as many as there are cores
  int ranks = 1;
  /// Where loss.csv, speed.csv, digests.csv and checkpoints go; empty: nowhere.
  std::filesystem::path output;
  std::filesystem::path init;    ///< weights to begin with; empty: those of the seed
  Index checkpoint_every = 100;  ///< steps; there is one at the end in any case
  Index keep = 1;                ///< checkpoints: the last, and copies of those before it
  Index eval_every = 0;          ///< steps; 0: held-out text is looked at at the end only
  Index digest_every = 0;        ///< steps; 0: no digests
  Index log_every = 0;           ///< steps; 0: nothing is said
  bool recompute = false;        ///< experts compute h and act again for the way back
  bool resume = false;           ///< go on from the checkpoint in `output`, if there is one
  std::function<void(const std::string&)> say;  ///< takes the lines of log_every
};

struct TrainResult {
  History history;
  double held_out = 0.0;  ///< loss a byte, of text that was not trained on
  Index parameters = 0;
  double tokens_per_second = 0.0;  ///< of the steps of this call
};

/// Throws Error(argument) "<option>: found ..., needs ...".
void check(const TrainJob& job);

/// Runs the job on the ranks of `world`.  The same job gives the same history on any number of
/// threads and ranks, any communicator and any backend, and from a checkpoint as without a stop;
/// where steps are added to a run that was done, the schedule of rates is the new one from there
/// on. Errors: Error(argument), Error(file); Error(unsupported) for a backend that lacks an
/// operator.
TrainResult train(const TrainJob& job, const Text& text, World& world, const Progress& progress);

}  // namespace mxo::tools
