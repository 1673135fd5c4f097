// The loop over steps on every rank.
#include "tools/train/trainer.h"

#include <omp.h>

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "emu/backends.h"
#include "golden/files/output_file.h"
#include "tools/train/adamw.h"
#include "tools/train/checkpoint.h"
#include "tools/train/model.h"

namespace mxo::tools {
namespace {

constexpr Index kHeldOutWindows = 64;

int threads_of_rank(const TrainJob& job, bool one_process) {
  const int all = job.threads > 0 ? job.threads : omp_get_max_threads();
  return one_process ? std::max(1, all / job.ranks) : all;
}

Identity identity_of(const TrainJob& job, const Text& text) {
  Identity identity = job.options.described();
  identity["recipe"] = job.recipe.name;
  identity["text"] = text.sha256();
  identity["digest_every"] = std::to_string(job.digest_every);
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
        model_(rank_) {}

  TrainResult run(const Progress& progress) {
    const auto start = std::chrono::steady_clock::now();
    begin();
    const Index first = history_.steps();
    const auto speed = [&] {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      return static_cast<double>((history_.steps() - first) * job_.options.tokens) /
             std::max(seconds.count(), 1e-9);
    };
    while (history_.steps() < job_.options.steps) {
      step();
      const Index done = history_.steps();
      if (progress && communicator_.rank() == 0) {
        progress(static_cast<double>(done) / static_cast<double>(job_.options.steps),
                 fmt::format("{} step {}, loss {:.3f}, {:.0f} tokens/s", job_.recipe.name, done,
                             history_.losses.back(), speed()));
      }
      const bool due = job_.checkpoint_every > 0 && done % job_.checkpoint_every == 0;
      if (due || done == job_.options.steps) save();
    }
    TrainResult result;
    result.tokens_per_second = speed();
    result.held_out = held_out();
    result.parameters = model_.parameters().count(communicator_.size());
    result.history = history_;
    return result;
  }

 private:
  std::filesystem::path file(const char* name) const { return job_.output / name; }

  void begin() {
    if (job_.resume && std::filesystem::exists(file("checkpoint.safetensors"))) {
      history_ = read_checkpoint(file("checkpoint.safetensors"), communicator_,
                                 identity_of(job_, text_), model_.parameters());
      return;
    }
    if (job_.digest_every == 0) return;
    StageRecorder stages(history_.digests, communicator_, 0);
    stages.shared("text", std::as_bytes(std::span(text_.sha256())));
    std::string options;
    for (const auto& [key, value] : job_.options.described()) options += key + "=" + value + "\n";
    stages.shared("options", std::as_bytes(std::span(options)));
    stages.state(model_.parameters());
  }

  /// This rank's part of `count` things.
  Index first_of(Index count, int rank) const { return count * rank / communicator_.size(); }

  void step() {
    const TrainOptions& o = job_.options;
    const Index number = history_.steps() + 1;
    const bool digests = job_.digest_every > 0 && number % job_.digest_every == 0;
    StageRecorder recorder(history_.digests, communicator_, number);
    StageRecorder* stages = digests ? &recorder : nullptr;
    std::vector<Window> mine;
    const int rank = communicator_.rank();
    for (Index s = first_of(o.sequences(), rank); s < first_of(o.sequences(), rank + 1); ++s) {
      mine.push_back(text_.at(o.seed, number, o.sequences(), s, o.context));
    }
    const double loss = model_.forward(std::move(mine), stages);
    model_.backward(1.0f / static_cast<float>(o.tokens), stages);
    const float norm = gradient_norm(communicator_, model_.parameters(), rank_.threads);
    adamw(model_.parameters(), o, number, norm, rank_.threads);
    model_.balance();
    if (stages != nullptr) stages->state(model_.parameters());
    history_.losses.push_back(static_cast<float>(loss / static_cast<double>(o.tokens)));
    history_.rates.push_back(learning_rate(o, number));
    history_.norms.push_back(norm);
  }

  void save() {
    if (job_.output.empty()) return;
    write_checkpoint(file("checkpoint.safetensors"), communicator_, identity_of(job_, text_),
                     model_.parameters(), history_);
    if (communicator_.rank() != 0) return;
    write_text_file(file("loss.csv"), loss_csv(history_));
    if (job_.digest_every > 0) {
      write_text_file(file("digests.csv"), digest_csv(history_.digests.rows()));
    }
  }

  double held_out() {
    const TrainOptions& o = job_.options;
    const std::vector<Window> all = text_.held_out(o.context, kHeldOutWindows);
    const auto count = static_cast<Index>(all.size());
    double sum = 0.0;
    for (Index from = 0; from < count; from += o.sequences()) {
      const Index batch = std::min(o.sequences(), count - from);
      const auto begin = all.begin() + from;
      sum += model_.forward({begin + first_of(batch, communicator_.rank()),
                             begin + first_of(batch, communicator_.rank() + 1)},
                            nullptr);
    }
    return sum / static_cast<double>(count * o.context);
  }

  const TrainJob& job_;
  const Text& text_;
  Communicator& communicator_;
  std::unique_ptr<Backend> backend_;
  Rank rank_;
  Model model_;
  History history_;
};

}  // namespace

TrainResult train(const TrainJob& job, const Text& text, World& world, const Progress& progress) {
  check(job.options, job.ranks);
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
