// The table of training: tokens a second of the small trainer, recipe by recipe.
#include <algorithm>
#include <cmath>

#include "emu/communicators.h"
#include "tools/bench/bench.h"
#include "tools/train/compare.h"

namespace mxo::tools {
namespace {

/// torchao's MoE training page: Llama 4 Scout cut to 2 layers, 4 x B200; tokens/s and times bf16.
/// Output head, router and embeddings stay in bf16 there.
struct TrainingRow {
  std::string_view what;
  std::string_view recipe;  ///< of mxo train; empty: it has none
  double tokens, speedup;   ///< 0: not published
};
constexpr TrainingRow kTrainingRows[] = {
    {"bf16", "bf16", 49381, 1.0},
    {"MXFP8 linears", "", 52038, 1.05},
    {"MXFP8 grouped products", "mxfp8_rceil", 69350, 1.40},
    {"both", "", 70747, 1.43},
    {"MXFP8 grouped products, quantised before the all-to-all", "mxfp8_rceil:mxfp8", 0, 0},
    {"FP8 block-wise", "fp8_blockwise", 0, 0},
    {"flow", "flow", 0, 0},
};
constexpr Index kSteps = 100;
constexpr Index kLeastSteps = 5;

TrainJob job_of(const Bench& bench) {
  TrainJob job;
  job.backend = bench.backend_name;
  job.threads = bench.threads;
  job.options.tokens = bench.token_count(job.options.tokens);
  const auto steps = static_cast<Index>(std::ceil(static_cast<double>(kSteps) * bench.scale));
  job.options.steps = std::max(steps, kLeastSteps);
  job.options.warm_up = std::min(job.options.warm_up, job.options.steps);
  return job;
}

}  // namespace

Table training_table(const Bench& bench) {
  Table table{
      "training",
      "The small trainer, recipe by recipe; published: torchao's MoE training page, Llama 4 "
      "Scout of 2 layers on 4 x B200",
      {},
      {}};
  const TrainJob job = job_of(bench);
  const Text text(default_text());
  const std::unique_ptr<World> world = make_in_process_world();
  double bf16_rate = 0.0;
  double bf16_loss = 0.0;
  std::size_t done = 0;
  for (const TrainingRow& row : kTrainingRows) {
    bench.tell(done++, std::size(kTrainingRows), row.what);
    Cells cells = {{"what", words(std::string(row.what))}};
    if (row.recipe.empty()) {
      for (const char* column : {"recipe", "tokens/s", "of bf16", "loss %"}) {
        cells.emplace_back(column, absent());
      }
    } else {
      std::vector<double> rates;
      double loss = 0.0;
      for (int i = 0; i < bench.repeats; ++i) {
        const std::vector<NamedResult> results =
            train_recipes(job, {train_recipe_named(row.recipe)}, text, *world, {});
        rates.push_back(results[0].result.tokens_per_second);
        loss = final_loss(results[0].result.history);
      }
      const Sample rate = sample_of(rates);
      if (row.recipe == "bf16") {
        bf16_rate = rate.median;
        bf16_loss = loss;
      }
      cells.emplace_back("recipe", words(std::string(row.recipe)));
      cells.emplace_back("tokens/s", timed(rate, 1.0));
      cells.emplace_back("of bf16", figure(rate.median / bf16_rate, 2));
      cells.emplace_back("loss %", figure(100.0 * (loss / bf16_loss - 1.0), 3));
    }
    const bool known = row.tokens > 0.0;
    cells.emplace_back("published tokens/s", known ? figure(row.tokens, 0) : absent());
    cells.emplace_back("published of bf16", known ? figure(row.speedup, 2) : absent());
    table.rows.push_back(std::move(cells));
  }
  table.notes.push_back(
      "ours: " + std::to_string(job.options.steps) + " steps of " +
      std::to_string(job.options.tokens) +
      " tokens, the model of mxo train, whose dense layers stay in bf16; loss: mean of the last "
      "steps against bf16");
  return table;
}

}  // namespace mxo::tools
