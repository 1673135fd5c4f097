// Runs in a row, each in its own directory.
#include "tools/train/compare.h"

#include <algorithm>

#include "formats/error.h"
#include "golden/files/output_file.h"
#include "tools/train/directory_lock.h"
#include "tools/train/plot.h"

namespace mxo::tools {
namespace {

namespace fs = std::filesystem;

fs::path directory_of(const fs::path& output, const TrainRecipe& recipe, bool several) {
  std::string name = recipe.name;
  std::replace(name.begin(), name.end(), ':', '-');
  return several ? output / name : output;
}

/// Before the first step of the first recipe: nothing is overwritten, every directory is there, and
/// what resumes has a checkpoint.  A comparison that was stopped has one of its first recipes
/// alone.
void prepare_directories(const std::vector<TrainJob>& jobs, const World& world) {
  bool found = false;
  for (const TrainJob& job : jobs) {
    const bool held = fs::exists(job.output / "checkpoint.safetensors");
    if (held && !job.resume) {
      throw Error(Fault::file, "output: " + job.output.string() +
                                   " holds a checkpoint; --resume continues from it");
    }
    found = found || held;
  }
  if (jobs.front().resume && !found) {
    throw Error(Fault::file, "--resume: " + jobs.front().output.string() +
                                 " holds no checkpoint; a first run goes without --resume");
  }
  for (const TrainJob& job : jobs) {
    if (!job.resume || fs::exists(job.output / "checkpoint.safetensors")) continue;
    if (job.say && world.writes()) {
      job.say(job.recipe.name + ": " + job.output.string() + " holds no checkpoint: from step 0");
    }
  }
  for (const TrainJob& job : jobs) {
    std::error_code error;
    fs::create_directories(job.output, error);
    if (error) {
      throw Error(Fault::file, job.output.string() + ": cannot be made: " + error.message());
    }
  }
}

}  // namespace

std::vector<NamedResult> train_recipes(const TrainJob& job, const std::vector<TrainRecipe>& recipes,
                                       const Text& text, World& world, const Progress& progress) {
  std::vector<TrainJob> jobs;
  for (const TrainRecipe& recipe : recipes) {
    for (const TrainJob& other : jobs) {
      if (other.recipe.name == recipe.name) {
        throw Error(Fault::argument, "recipe " + recipe.name + " is named twice");
      }
    }
    TrainJob& one = jobs.emplace_back(job);
    one.recipe = recipe;
    if (!job.output.empty()) one.output = directory_of(job.output, recipe, recipes.size() > 1);
  }
  check(job);
  text.check_room(job.options.context);
  std::vector<DirectoryLock> locks;
  if (!job.output.empty()) {
    prepare_directories(jobs, world);
    for (const TrainJob& one : jobs) {
      if (world.writes()) locks.emplace_back(one.output);
    }
  }

  std::vector<NamedResult> results;
  std::vector<Curve> curves;
  for (const TrainJob& one : jobs) {
    const auto share = [&](double fraction, std::string_view what) {
      const double done = static_cast<double>(results.size()) + fraction;
      if (progress) progress(done / static_cast<double>(jobs.size()), what);
    };
    TrainResult result = train(one, text, world, share);
    curves.push_back({one.recipe.name, result.history.losses, result.history.held_out});
    results.push_back({one.recipe.name, std::move(result)});
    if (!job.output.empty() && world.writes()) {
      write_text_file(job.output / "loss.svg", loss_plot(curves));
    }
  }
  return results;
}

}  // namespace mxo::tools
