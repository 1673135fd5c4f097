// Training: the same bits on any threads and ranks, from a checkpoint as without a stop.
#include <set>

#include <gtest/gtest.h>

#include "emu/communicators.h"
#include "golden/files/output_file.h"
#include "tests/golden/scratch.h"
#include "tests/support/refusal.h"
#include "tools/train/adamw.h"
#include "tools/train/compare.h"
#include "tools/train/plot.h"
#include "tools/train/sample.h"
#include "tools/train/weights.h"

namespace mxo::tools {
namespace {

/// 4 kB of text with something to learn in it.
class Training : public testing::Test {
 protected:
  Training() {
    std::string words;
    for (int i = 0; i < 300; ++i) words += i % 3 == 0 ? "one fish " : "two fish, ";
    write_text_file(scratch_.path() / "text", words);
    text_ = std::make_unique<Text>(std::vector<std::filesystem::path>{scratch_.path() / "text"});
  }
  static TrainJob small(const char* recipe = "mxfp8_rceil") {
    TrainJob job;
    job.options = {.seed = 7,
                   .steps = 5,
                   .tokens = 64,
                   .context = 16,
                   .layers = 2,
                   .width = 32,
                   .heads = 2,
                   .experts = 4,
                   .expert_width = 32,
                   .top_k = 2,
                   .learning_rate = 1e-2,
                   .warm_up = 2};
    job.recipe = train_recipe_named(recipe);
    job.threads = 1;
    job.digest_every = 1;
    return job;
  }
  TrainResult run(const TrainJob& job) { return train(job, *text_, *world_, {}); }
  static std::string last_chain(const TrainResult& result) {
    return result.history.digests.rows().back().chain;
  }

  Scratch scratch_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<World> world_ = make_in_process_world();
};

TEST_F(Training, GivesTheSameBitsOnAnyThreadsAndRanksWithEveryRecipe) {
  for (const char* recipe :
       {"bf16", "mxfp8_rceil", "mxfp8_rceil:mxfp8", "mxfp8_floor", "mxfp8_rceil_wgrad_with_hp",
        "fp8_rowwise", "fp8_blockwise", "e4m3fnuz", "e4m3fnuz:mxfp8", "flow"}) {
    TrainJob job = small(recipe);
    job.options.steps = 3;
    const TrainResult one = run(job);
    for (const auto& [threads, ranks] : {std::pair{2, 1}, {2, 2}, {4, 4}}) {
      job.threads = threads;
      job.ranks = ranks;
      const TrainResult many = run(job);
      const auto difference =
          first_difference(one.history.digests.rows(), many.history.digests.rows());
      EXPECT_FALSE(difference.has_value())
          << recipe << " " << threads << " threads, " << ranks << " ranks: step "
          << difference->step << " " << difference->stage;
      EXPECT_EQ(last_chain(one), last_chain(many)) << recipe;
      EXPECT_EQ(one.history.losses, many.history.losses);
      EXPECT_EQ(one.history.norms, many.history.norms);
      EXPECT_EQ(one.held_out, many.held_out);
    }
  }
}

void deepseek(TrainOptions& o) {
  o.score = "sigmoid", o.groups = 2, o.limited_groups = 1, o.shared_experts = 1;
  o.scale = 2.5, o.bias_rate = 0.01, o.linears = "mxfp8_rceil";
}

TEST_F(Training, AModelLikeDeepSeekV3HasTheSameBitsOnAnyRanksAndBackend) {
  TrainJob job = small();
  deepseek(job.options);
  const TrainResult one = run(job);
  for (const char* backend : {"cpu", "reference"}) {
    job.backend = backend;
    job.ranks = 4;
    job.threads = 4;
    job.recompute = true;
    EXPECT_EQ(last_chain(one), last_chain(run(job))) << backend;
  }
  job.options.linears = "fp8_blockwise";  // and with a cut of the ranks that leaves some none
  job.backend = "cpu";
  const std::string chain = last_chain(run(job));
  job.ranks = 1;
  EXPECT_EQ(chain, last_chain(run(job)));
  EXPECT_NE(chain, last_chain(one));
}

TEST_F(Training, TheBiasEvensOutTheLoad) {
  TrainJob job = small();
  job.options.steps = 30;
  job.options.score = "sigmoid";
  const auto last = [](const TrainResult& result) { return result.history.busiest.back(); };
  const float without = last(run(job));
  job.options.bias_rate = 0.02;
  EXPECT_LT(last(run(job)), without);
}

TEST_F(Training, RanksMayHaveNoTokens) {
  TrainJob job = small();
  job.options.tokens = job.options.context;
  const TrainResult one = run(job);
  job.ranks = 4;
  EXPECT_EQ(last_chain(one), last_chain(run(job)));
}

TEST_F(Training, AnotherSeedOrRecipeGivesOtherBits) {
  const std::string chain = last_chain(run(small()));
  TrainJob other = small();
  other.options.seed = 8;
  EXPECT_NE(chain, last_chain(run(other)));
  EXPECT_NE(chain, last_chain(run(small("mxfp8_floor"))));
}

TEST_F(Training, ThePipelineOfTheWireLeavesItsMarkInTheStages) {
  const auto stages = [&](const char* recipe) {
    std::string all;
    const TrainResult result = run(small(recipe));
    for (const DigestRow& row : result.history.digests.rows()) all += row.stage + " ";
    return all;
  };
  EXPECT_NE(stages("mxfp8_rceil:mxfp8").find("layer0.moe.permuted.codes"), std::string::npos);
  EXPECT_EQ(stages("mxfp8_rceil").find("layer0.moe.permuted.codes"), std::string::npos);
  EXPECT_NE(stages("mxfp8_rceil").find("layer1.moe.dh "), std::string::npos);
}

TEST_F(Training, GoesOnFromACheckpointAsIfItHadNotStopped) {
  TrainJob job = small();
  job.options.steps = 6;
  const TrainResult whole = run(job);
  for (const Index every : {1, 2, 4, 5}) {
    for (const int ranks : {1, 2}) {  // stopped on one rank, gone on with on others
      TrainJob part = job;
      part.output = scratch_.path() / (std::to_string(every) + "_" + std::to_string(ranks));
      std::filesystem::create_directories(part.output);
      part.checkpoint_every = every;
      part.ranks = 3 - ranks;
      struct Stopped {};
      const auto stop = [&](double fraction, std::string_view) {
        if (fraction > 5.5 / 6.0) throw Stopped{};  // after the fifth checkpoint was due
      };
      EXPECT_ANY_THROW(train(part, *text_, *world_, stop));
      ASSERT_TRUE(std::filesystem::exists(part.output / "checkpoint.safetensors"));
      part.resume = true;
      part.ranks = ranks;
      const TrainResult resumed = run(part);
      EXPECT_EQ(whole.history.losses, resumed.history.losses) << every;
      EXPECT_EQ(whole.history.digests.rows(), resumed.history.digests.rows()) << every;
    }
  }
}

TEST_F(Training, MoreStepsOnTheSameScheduleAreAsIfThereHadBeenNoStop) {
  TrainJob job = small();
  job.options.steps = job.options.decay_steps = 6;
  job.eval_every = 2;
  const TrainResult whole = run(job);
  job.options.steps = 3;
  job.output = scratch_.path() / "part";
  job.keep = 2;
  job.checkpoint_every = 1;
  std::filesystem::create_directories(job.output);
  write_text_file(job.output / "checkpoint-9.safetensors", "of a run that was given up");
  run(job);
  job.resume = true;
  job.options.steps = 6;
  const TrainResult resumed = run(job);
  EXPECT_EQ(last_chain(whole), last_chain(resumed));
  EXPECT_EQ(loss_csv(whole.history), loss_csv(resumed.history));
  EXPECT_EQ(whole.held_out, resumed.held_out);
  std::set<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(job.output)) {
    if (entry.path().extension() == ".safetensors") kept.insert(entry.path().stem().string());
  }
  EXPECT_EQ(kept,
            (std::set<std::string>{"checkpoint-5", "checkpoint-6", "checkpoint-9", "checkpoint"}));
  std::filesystem::remove(job.output / "digests.csv");  // killed before it was written
  EXPECT_EQ(last_chain(run(job)), last_chain(resumed));
  EXPECT_EQ(read_digest_csv(job.output / "digests.csv"), resumed.history.digests.rows());
  job.options.decay_steps = 0;
  job.options.steps = 8;
  EXPECT_GT(run(job).history.rates[6], resumed.history.rates[5]);
  job.options.steps = 5;
  EXPECT_THROW(run(job), Error);
}

TEST_F(Training, ExportedWeightsAreTheWeights) {
  for (const bool glm : {false, true}) {
    TrainJob job = small("bf16");
    if (glm) deepseek(job.options);
    job.output = scratch_.path() / (glm ? "glm" : "mixtral");
    std::filesystem::create_directories(job.output);
    const TrainResult trained = run(job);
    const Snapshot snapshot = read_snapshot(job.output / "checkpoint.safetensors");
    export_model(snapshot, job.output / "hf");
    TrainJob next = job;
    next.output.clear();
    next.options.learning_rate = 0;
    next.options.steps = 1;
    next.ranks = 2;
    for (const char* from : {"checkpoint.safetensors", "hf/model.safetensors"}) {
      next.init = job.output / from;
      if (glm) continue;  // whose bias moves
      EXPECT_EQ(run(next).held_out, trained.held_out) << from;
      TrainJob smaller = next;
      smaller.options.layers = 1;
      EXPECT_NE(refusal([&] { run(smaller); }).find("the model has no '"), std::string::npos)
          << from;
    }
    make_in_process_world()->run(2, [&](Communicator& communicator) {
      Parameters exported(job.options, communicator.rank(), 2);
      Parameters saved(job.options, communicator.rank(), 2);
      read_weights(job.output / "hf/model.safetensors", job.options, communicator, exported);
      read_weights(job.output / "checkpoint.safetensors", job.options, communicator, saved);
      for (const Parameter& p : saved.all())
        EXPECT_TRUE(std::equal(p.data(), p.data() + p.elements(), exported[p.name].data()))
            << p.name;
    });
  }
}

TEST_F(Training, ACheckpointOfAnotherRunIsRefusedByName) {
  TrainJob job = small();
  job.output = scratch_.path() / "run";
  std::filesystem::create_directories(job.output);
  run(job);
  job.resume = true;
  TrainJob other = job;
  other.options.width = 64;
  const auto message = [&](const TrainJob& changed) {
    return refusal([&] { run(changed); }, Fault::file);
  };
  EXPECT_NE(message(other).find("width: found '32', needs '64'"), std::string::npos);
  other = job;
  other.recipe = train_recipe_named("bf16");
  EXPECT_NE(message(other).find("recipe: found 'mxfp8_rceil', needs 'bf16'"), std::string::npos);
  other = job;
  other.init = job.output / "checkpoint.safetensors";
  EXPECT_NE(message(other).find("init: found ''"), std::string::npos);
  write_text_file(job.output / "checkpoint.safetensors", "no checkpoint");
  EXPECT_NE(message(job).find("checkpoint.safetensors"), std::string::npos);
}

TEST_F(Training, ATrainedModelGoesOnWithItsText) {
  TrainJob job = small();
  job.options.steps = 60;
  job.digest_every = 0;
  job.output = scratch_.path() / "run";
  std::filesystem::create_directories(job.output);
  run(job);
  const Snapshot snapshot = read_snapshot(job.output / "checkpoint.safetensors");
  SampleJob text{.prompt = "one fish two fish, t", .length = 12, .temperature = 0};
  const std::string cold = sample(snapshot, text);
  EXPECT_TRUE(cold.starts_with("one fish two fish, two fish, ")) << cold;
  text.temperature = 2.0;
  const std::string warm = sample(snapshot, text);
  EXPECT_NE(warm, cold);
  text.threads = 2;
  EXPECT_EQ(sample(snapshot, text), warm);
  text.seed = 2;
  EXPECT_NE(sample(snapshot, text), warm);
}

TEST_F(Training, ARunIsNotOverwritten) {
  TrainJob job = small();
  job.output = scratch_.path() / "run";
  const std::vector<TrainRecipe> recipes = {train_recipe_named("bf16"),
                                            train_recipe_named("e4m3fnuz")};
  std::string second;  // that is started while the first is in its first step
  const auto results = train_recipes(job, recipes, *text_, *world_, [&](double, std::string_view) {
    if (second.empty()) second = refusal([&] { train_recipes(job, recipes, *text_, *world_, {}); });
  });
  EXPECT_NE(second.find("another run is writing to"), std::string::npos) << second;
  ASSERT_EQ(results.size(), 2u);
  for (const char* name : {"loss.svg", "bf16/loss.csv", "bf16/digests.csv", "e4m3fnuz/loss.csv",
                           "e4m3fnuz/checkpoint.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(job.output / name)) << name;
  }
  EXPECT_THROW(train_recipes(job, recipes, *text_, *world_, {}), Error);
  job.resume = true;
  std::filesystem::remove(job.output / "e4m3fnuz/checkpoint.safetensors");  // stopped before it
  std::string said;
  job.say = [&said](const std::string& line) { said += line; };
  const auto again = train_recipes(job, recipes, *text_, *world_, {});
  EXPECT_TRUE(said.starts_with("e4m3fnuz: ") && said.ends_with("no checkpoint: from step 0"));
  EXPECT_EQ(again[1].result.history.losses, results[1].result.history.losses);
  EXPECT_EQ(again[0].result.history.losses, results[0].result.history.losses);
  EXPECT_EQ(again[0].result.held_out, results[0].result.held_out);
}

TEST(Digests, TheFirstDifferenceIsNamed) {
  const auto log = [](std::initializer_list<std::pair<const char*, unsigned>> stages) {
    DigestLog digests;
    make_in_process_world()->run(1, [&](Communicator& communicator) {
      Index step = 0;
      for (const auto& [stage, value] : stages)
        digests.add(communicator, ++step, stage, {std::as_bytes(std::span(&value, 1))});
    });
    return digests.rows();
  };
  const auto a = log({{"x", 1u}, {"h", 2u}, {"y", 3u}, {"z", 4u}});
  EXPECT_FALSE(first_difference(a, a).has_value());
  EXPECT_EQ(first_difference(log({{"x", 1u}, {"h", 2u}}), a).value().stage, "y");
  const auto other = first_difference(a, log({{"x", 1u}, {"h", 2u}, {"y", 0u}, {"z", 4u}}));
  EXPECT_EQ(other.value().step, 3);
  EXPECT_EQ(other->stage, "y");
  const auto lacks = first_difference(a, log({{"x", 1u}, {"y", 3u}}));
  EXPECT_EQ(lacks.value().stage, "h");
  EXPECT_NE(lacks->why.find("second"), std::string::npos);
  EXPECT_EQ(parse_digest_csv(digest_csv(a), "text"), a);
  std::string forged = digest_csv(a);
  forged.replace(forged.find("2,h,") + 4, 1, forged[forged.find("2,h,") + 4] == '0' ? "1" : "0");
  EXPECT_THROW(parse_digest_csv(forged, "text"), Error);
}

TEST(Adamw, TakesTheStepsOfTheAlgorithm) {
  TrainOptions options{.steps = 10, .layers = 1, .width = 32, .experts = 1, .expert_width = 32};
  options.warm_up = 0;
  Parameters parameters(options, 0, 1);
  Parameter& p = parameters["head"];
  const double first = static_cast<double>(p.data()[5]);
  double w = first, m = 0, v = 0;
  for (Index step = 1; step <= 3; ++step) {
    const double g = 0.3 * static_cast<double>(step);
    p.gradient.as<float>()[5] = static_cast<float>(g);
    adamw(parameters, options, step, 0.0f, 1);
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    const double t = static_cast<double>(step);
    const double rate = 3e-3 * (0.1 + 0.45 * (1 + std::cos(3.14159265358979 * t / 10)));
    w -= rate *
         (m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-8) + 0.1 * w);
    EXPECT_NEAR(p.data()[5], w, 1e-6);
  }
  EXPECT_EQ(parameters["final.gain"].data()[0], 1.0f);  // no gradient, no decay
}

TEST(LossCsv, SaysNanButOfWhatIsNotMeasured) {
  const History history{{-NAN}, {0.5f}, {NAN}, {NAN}, {2.0f}, {0.25f}, {}};
  EXPECT_EQ(loss_line(history, 0), "1,0.5,nan,nan,,2,0.25\n");
}

TEST(LossPlot, DrawsACurveForEachNameAndNothingThatIsNotANumber) {
  const std::string svg = loss_plot({{"bf16", {5.0f, 4.0f, 3.0f}, {NAN, 4.5f, 4.1f}},
                                     {"mxfp8_rceil", {5.1f, 4.0f, NAN}, {}},
                                     {"short", {5.0f}, {}}});
  EXPECT_EQ(svg.find("class='held'"), svg.rfind("class='held'"));
  EXPECT_NE(svg.find("class='held'"), svg.npos);
  for (const char* none : {"nan", "inf"}) EXPECT_EQ(svg.find(none), std::string::npos);
  for (const char* part : {">bf16<", ">mxfp8_rceil<", ">short<", "% above bf16", "</svg>"})
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  EXPECT_NE(loss_plot({{"alone", {}, {}}}).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace mxo::tools
