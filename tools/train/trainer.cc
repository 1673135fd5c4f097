// The loop over steps on every rank.
#include "tools/train/trainer.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "emu/backends.h"
#include "formats/error.h"
#include "golden/files/output_file.h"
#include "golden/files/safetensors.h"
#include "tools/train/adamw.h"
#include "tools/train/checkpoint.h"
#include "tools/train/model.h"
#include "tools/train/run_log.h"
#include "tools/train/weights.h"

namespace mxo::tools {
namespace {

constexpr Index kHeldOutWindows = 64;

int threads_of_rank(const TrainJob& job, bool one_process) {
  const int all = job.threads > 0 ? job.threads : omp_get_max_threads();
  return one_process ? std::max(1, all / job.ranks) : all;
}

/// What must be the same for a run to go on: its steps may grow.
Identity identity_of(const TrainJob& job, const Text& text) {
  Identity identity = job.options.described();
  identity.erase("steps");
  identity.erase("decay_steps");
  identity["recipe"] = job.recipe.name;
  identity["text"] = text.sha256();
  identity["digest_every"] = std::to_string(job.digest_every);
  if (!job.init.empty()) identity["init"] = checkpoint_checksum(read_safetensors(job.init));
  return identity;
}

/// The device of this rank, where ranks of one process have one each.
std::unique_ptr<Backend> backend_of(const TrainJob& job, int rank, int threads) {
  std::unique_ptr<Backend> backend = make_backend(job.backend, threads);
  if (auto own = backend->for_rank(rank)) return own;
  return backend;
}

/// One rank's part of a run.
class RankRun {
 public:
  RankRun(const TrainJob& job, const Text& text, Communicator& communicator,
          std::unique_ptr<Backend> backend, int threads)
      : job_(job),
        text_(text),
        communicator_(communicator),
        backend_(std::move(backend)),
        rank_{job.options, job.recipe, *backend_, communicator, threads, job.recompute},
        model_(rank_),
        identity_(identity_of(job, text)) {}

  TrainResult run(const Progress& progress) {
    begin();
    const auto start = std::chrono::steady_clock::now();
    const Index first = history_.steps();
    const auto speed = [&] {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      return static_cast<double>((history_.steps() - first) * job_.options.tokens) /
             std::max(seconds.count(), 1e-9);
    };
    TrainResult result;
    while (history_.steps() < job_.options.steps) {
      step();
      const Index done = history_.steps();
      const bool last = done == job_.options.steps;
      const bool eval = job_.eval_every > 0 && done % job_.eval_every == 0;
      if (eval || last) result.held_out = held_out();
      if (eval) history_.held_out.back() = static_cast<float>(result.held_out);
      if (last || (job_.checkpoint_every > 0 && done % job_.checkpoint_every == 0)) save();
      if (communicator_.rank() != 0) continue;
      if (log_) log_->add(history_, job_.options.tokens);
      if (job_.log_every > 0 && (last || done % job_.log_every == 0)) job_.say(line(speed()));
      if (progress) {
        progress(static_cast<double>(done) / static_cast<double>(job_.options.steps),
                 fmt::format("{} step {}, loss {:.3f}, {:.0f} tokens/s", job_.recipe.name, done,
                             history_.losses.back(), speed()));
      }
    }
    result.tokens_per_second = speed();
    if (first == job_.options.steps) result.held_out = held_out();
    result.parameters = model_.parameters().count(communicator_.size());
    result.history = history_;
    return result;
  }

 private:
  std::filesystem::path file(const std::string& name) const { return job_.output / name; }

  std::string line(double speed) const {
    const float held_out = history_.held_out.back();
    return fmt::format("{} step {} of {}: loss {:.4f}{}, rate {:.2e}, {:.0f} tokens/s, {:.0f} MB",
                       job_.recipe.name, history_.steps(), job_.options.steps,
                       history_.losses.back(),
                       std::isnan(held_out) ? "" : fmt::format(", held out {:.4f}", held_out),
                       history_.rates.back(), speed, static_cast<double>(peak_memory()) / 1e6);
  }

  void begin() {
    const bool goes_on = job_.resume && std::filesystem::exists(file("checkpoint.safetensors"));
    if (goes_on) {
      go_on();
    } else {
      if (!job_.init.empty()) {
        read_weights(job_.init, job_.options, communicator_, model_.parameters());
      }
      if (job_.digest_every > 0) {
        StageRecorder stages(history_.digests, communicator_, 0);
        stages.shared("text", std::as_bytes(std::span(text_.sha256())));
        record_options(stages);
        stages.state(model_.parameters());
      }
    }
    if (job_.output.empty() || communicator_.rank() != 0) return;
    log_.emplace(job_.output, history_);
    if (goes_on) write_digests();
  }

  void record_options(StageRecorder& stages) {
    std::map<std::string, std::string> all = job_.options.described();
    all.erase("steps");  // a run may be stopped anywhere
    all["decay_steps"] = std::to_string(job_.options.whole_decay());
    std::string options;
    for (const auto& [key, value] : all) options += key + "=" + value + "\n";
    stages.shared("options", std::as_bytes(std::span(options)));
  }

  void go_on() {
    const auto path = file("checkpoint.safetensors");
    Identity found;
    history_ = read_checkpoint(path, communicator_, identity_, model_.parameters(), &found);
    if (const auto init = found.find("init"); init != found.end()) identity_.insert(*init);
    const TrainOptions& o = job_.options;
    if (history_.steps() > o.steps) {
      throw Error(Fault::argument, fmt::format("steps: found {}, needs {} or more: those of {}",
                                               o.steps, history_.steps(), path.string()));
    }
    TrainOptions before = o;
    before.set("steps", found["steps"]);
    before.set("decay_steps", found["decay_steps"]);
    if (job_.digest_every == 0 || before.whole_decay() == o.whole_decay()) return;
    StageRecorder stages(history_.digests, communicator_, history_.steps());
    record_options(stages);
  }

  void step() {
    const TrainOptions& o = job_.options;
    const Index number = history_.steps() + 1;
    const bool digests = job_.digest_every > 0 && number % job_.digest_every == 0;
    StageRecorder recorder(history_.digests, communicator_, number);
    StageRecorder* stages = digests ? &recorder : nullptr;
    std::vector<Window> mine;
    for (Index s = rank_.begin_of(o.sequences()); s < rank_.end_of(o.sequences()); ++s) {
      mine.push_back(text_.at(o.seed, number, o.sequences(), s, o.context));
    }
    const double loss = model_.forward(std::move(mine), stages);
    const auto [busiest, idlest] = model_.load();
    model_.backward(1.0f / static_cast<float>(o.tokens), stages);
    const float norm = gradient_norm(communicator_, model_.parameters(), rank_.threads);
    adamw(model_.parameters(), o, number, norm, rank_.threads);
    model_.balance();
    if (stages != nullptr) stages->state(model_.parameters());
    history_.losses.push_back(static_cast<float>(loss / static_cast<double>(o.tokens)));
    history_.rates.push_back(learning_rate(o, number));
    history_.norms.push_back(norm);
    history_.held_out.push_back(NAN);
    history_.busiest.push_back(busiest);
    history_.idlest.push_back(idlest);
  }

  void save() {
    if (job_.output.empty()) return;
    Identity identity = identity_;
    identity["steps"] = std::to_string(job_.options.steps);
    identity["decay_steps"] = std::to_string(job_.options.decay_steps);
    write_checkpoint(file("checkpoint.safetensors"), communicator_, identity, model_.parameters(),
                     history_);
    if (communicator_.rank() != 0) return;
    keep_copies(job_.output, history_.steps(), job_.keep);
    write_digests();
  }

  void write_digests() const {
    if (job_.digest_every == 0) return;
    write_text_file(file("digests.csv"), digest_csv(history_.digests.rows()));
  }

  double held_out() {
    const TrainOptions& o = job_.options;
    const std::vector<Window> all = text_.held_out(o.context, kHeldOutWindows);
    const auto count = static_cast<Index>(all.size());
    double sum = 0.0;
    for (Index from = 0; from < count; from += o.sequences()) {
      const Index batch = std::min(o.sequences(), count - from);
      const auto begin = all.begin() + from;
      sum += model_.forward({begin + rank_.begin_of(batch), begin + rank_.end_of(batch)}, nullptr);
    }
    return sum / static_cast<double>(count * o.context);
  }

  const TrainJob& job_;
  const Text& text_;
  Communicator& communicator_;
  std::unique_ptr<Backend> backend_;
  Rank rank_;
  Model model_;
  Identity identity_;
  History history_;
  std::optional<RunLog> log_;  ///< of the first rank
};

}  // namespace

void check(const TrainJob& job) {
  check(job.options, job.ranks);
  const auto need = [](bool holds, const char* option, Index found, const char* needs) {
    if (holds) return;
    throw Error(Fault::argument, fmt::format("{}: found {}, needs {}", option, found, needs));
  };
  need(job.checkpoint_every >= 0, "checkpoint-every", job.checkpoint_every, "0 or more");
  need(job.eval_every >= 0, "eval-every", job.eval_every, "0 or more");
  need(job.digest_every >= 0, "digest-every", job.digest_every, "0 or more");
  need(job.log_every >= 0, "log-every", job.log_every, "0 or more");
  need(job.keep >= 1, "keep", job.keep, "1 or more");
}

TrainResult train(const TrainJob& job, const Text& text, World& world, const Progress& progress) {
  check(job);
  text.check_room(job.options.context);
  TrainResult result;
  world.run(job.ranks, [&](Communicator& communicator) {
    const int threads = threads_of_rank(job, world.one_process());
    std::unique_ptr<Backend> backend = backend_of(job, communicator.rank(), threads);
    world.check(*backend);
    RankRun rank(job, text, communicator, std::move(backend), threads);
    TrainResult mine = rank.run(progress);
    if (communicator.rank() == 0) result = std::move(mine);
  });
  return result;
}

}  // namespace mxo::tools
