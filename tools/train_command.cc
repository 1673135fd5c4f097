// mxo train: training in emulated precision.
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "emu/communicators.h"
#include "formats/nearest_name.h"
#include "golden/files/read_tensors.h"
#include "golden/reports/text.h"
#include "tools/commands.h"
#include "tools/options_read.h"
#include "tools/terminal.h"
#include "tools/train/compare.h"
#include "tools/train/config.h"
#include "tools/train/replay.h"
#include "tools/train/sample.h"
#include "tools/train/weights.h"
#include "tools/whole_words.h"

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
  if (differing > 0 || !settings.quiet) {
    fmt::print("{} of {} values differ from the capture\n", differing, values);
  }
  return differing == 0 ? kAgree : kDisagree;
}

int print_difference(const std::vector<std::string>& paths, const Settings& settings) {
  std::error_code none;  // what is not there is said by who opens it
  if (std::filesystem::equivalent(paths[0], paths[1], none))
    throw Error(Fault::argument, "--diff-digests: found one file twice, needs those of two runs");
  const std::vector<DigestRow> a = read_digest_csv(paths[0]);
  const std::vector<DigestRow> b = read_digest_csv(paths[1]);
  if (a.empty() || b.empty()) {
    throw Error(Fault::file, paths[a.empty() ? 0 : 1] + ": holds no digests");
  }
  if (const auto difference = first_difference(a, b)) {
    fmt::print("first difference: step {}, stage {}: {}\n", difference->step, difference->stage,
               difference->why);
    return kDisagree;
  }
  if (!settings.quiet) {
    fmt::print("{} digests agree, to step {}: {}\n", a.size(), a.back().step, a.back().chain);
  }
  return kAgree;
}

void print_results(const std::vector<NamedResult>& results, const TrainJob& job) {
  const auto percent = [](double value, double against) { return 100.0 * (value / against - 1.0); };
  const double loss = final_loss(results[0].result.history);
  const double held_out = results[0].result.held_out;
  fmt::print("{} parameters, {} steps of {} tokens\n", results[0].result.parameters,
             job.options.steps, job.options.tokens);
  fmt::print("{:<26} {:>9} {:>8}  {:>9} {:>8}  {:>9}\n", "recipe", "loss", "", "held out", "",
             "tokens/s");
  for (const auto& [name, result] : results) {
    const double mine = final_loss(result.history);
    fmt::print("{:<26} {:>9.5f} {:>+7.3f}%  {:>9.5f} {:>+7.3f}%  {:>9.0f}\n", name, mine,
               percent(mine, loss), result.held_out, percent(result.held_out, held_out),
               result.tokens_per_second);
  }
  fmt::print("loss: nats per byte, mean of the last {} steps; % above {}\n",
             std::min(kFinalSteps, job.options.steps), results[0].name);
  for (const auto& [name, result] : results) {
    const auto& rows = result.history.digests.rows();
    if (!rows.empty())
      fmt::print("digest of {} at step {}: {}\n", name, rows.back().step, rows.back().chain);
  }
}

/// kDisagree where a loss is no finite number, of which a line on stderr says the step.
int code_of(const std::vector<NamedResult>& results) {
  const auto finite = [](double loss) { return std::isfinite(loss); };
  int code = kAgree;
  for (const auto& [name, result] : results) {
    const std::vector<float>& losses = result.history.losses;
    const auto wrong = std::ranges::find_if_not(losses, finite);
    if (wrong == losses.end() && finite(result.held_out)) continue;
    const std::string where = wrong == losses.end()
                                  ? "held-out text"
                                  : fmt::format("step {}", wrong - losses.begin() + 1);
    fmt::print(stderr, "mxo train: {}: the loss of {} is no finite number\n", name, where);
    code = kDisagree;
  }
  return code;
}

/// What the command line says.
struct TrainArguments {
  std::string config;
  std::string replay;
  std::vector<std::string> digests;
  std::vector<std::string> recipes;
  std::string recipe = "mxfp8_rceil";
  std::vector<std::string> texts;
  std::vector<std::string> held_out;
  std::string communicator;
  std::string output;
  std::string init;
  std::string from;
  std::string export_to;
  std::optional<Index> log_every;
  TrainJob job;
  SampleJob sample;
};

using Paths = std::vector<std::filesystem::path>;
Paths paths_of(const std::vector<std::string>& names) { return {names.begin(), names.end()}; }

/// What every process of a job must have been asked.
std::string question_of(const TrainJob& job, const std::vector<std::string>& recipes,
                        const Text& text) {
  std::string question = text.sha256() + fmt::format(" {} {} {} {} {} {} {}", job.ranks, job.resume,
                                                     job.checkpoint_every, job.digest_every,
                                                     job.eval_every, job.keep, job.init.string());
  for (const auto& [key, value] : job.options.described()) question += " " + key + "=" + value;
  for (const std::string& recipe : recipes) question += " " + recipe;
  return question;
}

/// Every step asks for the same blocks: without this the pages of large ones come and go each time.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);  // never
}

int run_training(TrainArguments options, const Settings& settings) {
  keep_freed_memory();
  TrainJob& job = options.job;
  job.backend = settings.backend.empty() ? "cpu" : settings.backend;
  job.threads = settings.threads;
  job.output = options.output;
  job.init = options.init;
  if (options.recipes.empty()) options.recipes = {options.recipe};
  std::vector<TrainRecipe> recipes;
  for (const std::string& name : options.recipes) {
    recipes.push_back(train_recipe_named(name, job.options.format));
    check(job.options, recipes.back());
  }
  // Lines where no bar is drawn, and where they are asked for.
  const bool bar_is_seen = ProgressBar(false).seen();
  job.log_every =
      options.log_every.value_or(bar_is_seen ? 0 : std::max<Index>(1, job.options.steps / 10));
  check(job);
  if (job.resume && job.output.empty()) {
    throw Error(Fault::argument, "--resume: needs --output, the directory of the checkpoint");
  }
  const Text text(options.texts.empty() ? default_text() : paths_of(options.texts),
                  paths_of(options.held_out));
  const std::unique_ptr<World> world = make_world(options.communicator);
  world->agree_on(question_of(job, options.recipes, text));
  job.say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (settings.quiet || !world->writes()) job.log_every = 0;
  std::vector<NamedResult> results;
  {
    ProgressBar bar(settings.quiet || !world->writes() || job.log_every > 0);
    results = train_recipes(job, recipes, text, *world, bar.callback());
  }
  if (world->writes() && !settings.quiet) print_results(results, job);
  return code_of(results);
}

std::filesystem::path checkpoint_at(const std::string& from) {
  if (from.empty()) {
    throw Error(Fault::argument,
                "--sample and --export need --from: a checkpoint, or the directory of a run");
  }
  const std::filesystem::path path = from;
  return std::filesystem::is_directory(path) ? path / "checkpoint.safetensors" : path;
}

int print_sample(TrainArguments options, const Settings& settings) {
  options.sample.backend = settings.backend.empty() ? "cpu" : settings.backend;
  options.sample.threads = settings.threads;
  options.sample.seed = options.job.options.seed;
  check(options.sample);
  std::istringstream text(sample(read_snapshot(checkpoint_at(options.from)), options.sample));
  for (std::string line; std::getline(text, line);) fmt::print("{}\n", one_line(line));
  return kAgree;
}

/// Options that the command line does not name, from a file.
void apply_config(CLI::App& app, const std::string& path) {
  for (const auto& [name, words] : read_config(path)) {
    std::vector<std::string> known;
    CLI::Option* option = nullptr;
    for (CLI::Option* one : app.get_options()) {
      const std::string& own = one->get_lnames().empty() ? "" : one->get_lnames()[0];
      if (own == "help" || own == "config") continue;
      known.push_back(own);
      if (own == name) option = one;
    }
    if (option == nullptr) {
      throw Error(Fault::argument,
                  path + ": " + unknown_name("option", name, {known.begin(), known.end()}));
    }
    if (option->count() > 0) continue;
    try {
      if (words.empty()) throw CLI::ValidationError(name, "needs a value");
      for (const std::string& word : words) option->add_result(word);
      option->run_callback();
    } catch (const CLI::ConversionError&) {
      throw Error(Fault::argument,
                  path + ": " + name + ": found " + words.front() + ", needs a number");
    } catch (const CLI::Error& error) {  // its words name the option
      throw Error(Fault::argument, path + ": " + error.what());
    }
  }
}

void add_run_options(CLI::App& app, TrainArguments& options) {
  TrainJob& job = options.job;
  TrainOptions& o = job.options;
  app.add_option(
         "--recipe", options.recipe,
         "arithmetic of the experts: mxfp8_rceil, bf16, ...; NAME:mxfp8 also sends tokens as codes")
      ->capture_default_str();
  app.add_option("--compare", options.recipes, "recipes to train one after another: A,B,C")
      ->delimiter(',');
  app.add_option("--text", options.texts,
                 "files to learn from; default: the licences of Debian's common-licenses");
  app.add_option("--val-text", options.held_out,
                 "files of held-out text; default: the last sixteenth of the text");
  for (const OptionRow& row : option_rows()) {
    std::string name = "--" + std::string(row.key);
    std::replace(name.begin(), name.end(), '_', '-');
    std::visit(
        [&](auto member) {
          CLI::Option* option = app.add_option(name, o.*member, std::string(row.meaning));
          option->capture_default_str();
          using Value = std::remove_reference_t<decltype(o.*member)>;
          if constexpr (std::is_same_v<Value, std::uint64_t>) option->check(unsigned_word);
          if constexpr (std::is_same_v<Value, Index>) option->check(signed_word);
          if constexpr (std::is_same_v<Value, bool>) option->check(truth_word);
        },
        row.member);
  }
  app.add_flag(
      "--recompute", job.recompute,
      "compute the experts' activations again in the backward pass: less memory, the same bits");
  app.add_option("--ranks", job.ranks, "ranks, among which experts and tokens are divided")
      ->capture_default_str();
  app.add_option("--communicator", options.communicator,
                 "in_process, mpi or nccl; default: mpi under mpirun, else in_process");
  app.add_option(
      "--output", options.output,
      "directory for loss.csv, speed.csv, loss.svg, digests.csv, checkpoint.safetensors");
  app.add_option("--init", options.init,
                 "initial weights: a checkpoint, or a model.safetensors of --export");
  app.add_option("--checkpoint-every", job.checkpoint_every,
                 "steps between checkpoints; 0: only at the end")
      ->check(signed_word)
      ->capture_default_str();
  app.add_option("--keep", job.keep, "checkpoints to keep, including the last one")
      ->check(signed_word)
      ->capture_default_str();
  app.add_option("--eval-every", job.eval_every,
                 "steps between evaluations of held-out text; 0: only at the end")
      ->check(signed_word)
      ->capture_default_str();
  app.add_option(
         "--log-every", options.log_every,
         "steps between lines on stderr; 0: none; default: a tenth of the steps if stderr is not "
         "a terminal")
      ->check(signed_word);
  app.add_option("--digest-every", job.digest_every, "steps between digests; 0: none")
      ->check(signed_word)
      ->capture_default_str();
  app.add_flag("--resume", job.resume, "continue from the checkpoint in --output");
}

std::function<int()> prepare_train(CLI::App& app, const Settings& settings) {
  const auto options = std::make_shared<TrainArguments>();
  add_run_options(app, *options);
  app.add_option(
      "--config", options->config,
      "options from a JSON file: {\"steps\": 500, \"recipe\": \"bf16\"}; the command line takes "
      "precedence");
  app.add_option("--export", options->export_to,
                 "write the model of --from to this directory, as transformers loads it");
  CLI::Option* const sampling = app.add_option("--sample", options->sample.prompt,
                                               "text for the model of --from to continue");
  app.add_option("--from", options->from, "a checkpoint, or the directory of a run");
  app.add_option("--length", options->sample.length, "bytes that --sample prints")
      ->needs(sampling)
      ->check(signed_word)
      ->capture_default_str();
  app.add_option("--temperature", options->sample.temperature,
                 "temperature of --sample; 0: always the likeliest byte")
      ->needs(sampling)
      ->capture_default_str();
  app.add_option("--replay", options->replay,
                 "repeat the training steps of a capture and compare weights and outputs");
  app.add_option("--diff-digests", options->digests,
                 "compare two digests.csv: prints the first step and stage that differ")
      ->expected(2);
  return [options, sampling, &app, &settings] {
    if (!options->replay.empty()) {
      check_options_read(app, "--replay", {});
      return print_replay(options->replay, settings);
    }
    if (!options->digests.empty()) {
      check_options_read(app, "--diff-digests", {});
      return print_difference(options->digests, settings);
    }
    if (sampling->count() > 0) {
      check_options_read(app, "--sample", {"--from", "--length", "--temperature", "--seed"});
      return print_sample(*options, settings);
    }
    if (!options->export_to.empty()) {
      check_options_read(app, "--export", {"--from"});
      export_model(read_snapshot(checkpoint_at(options->from)), options->export_to);
      return int{kAgree};
    }
    if (!options->from.empty()) {
      throw Error(Fault::argument,
                  "--from: needs --sample or --export; --init starts from weights");
    }
    if (!options->config.empty()) apply_config(app, options->config);
    return run_training(*options, settings);
  };
}

}  // namespace

const Command kTrain{"train", "train in emulated precision, or repeat what a GPU trained",
                     prepare_train};

}  // namespace mxo::tools
