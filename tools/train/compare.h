// One job, recipe after recipe, and the picture of all their losses.
#pragma once

#include "tools/train/trainer.h"

namespace mxo::tools {

struct NamedResult {
  std::string name;
  TrainResult result;
};

/// Runs the job once for every recipe.  With an output directory: one recipe writes to it, several
/// to a directory each in it ("mxfp8_rceil:mxfp8" to "mxfp8_rceil-mxfp8"), and loss.svg lies in it.
/// Errors: those of train(); Error(argument) where a checkpoint would be overwritten and the job
/// does not resume; Error(file) where another run writes to the same directory; Error(argument) for
/// a recipe named twice.
std::vector<NamedResult> train_recipes(const TrainJob& job, const std::vector<TrainRecipe>& recipes,
                                       const Text& text, World& world, const Progress& progress);

}  // namespace mxo::tools
