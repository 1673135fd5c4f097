// Ranks of one process run a layer while backends and communicators count.
#include "tools/bench/layer_run.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>

#include <fmt/core.h>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "formats/error.h"
#include "golden/files/sha256.h"
#include "ops/swiglu_quantize.h"
#include "tools/counted.h"

namespace mxo::tools {
namespace {

constexpr std::size_t kExchange = 4;
constexpr std::size_t kOther = std::size(kStages) - 1;

struct StageOf {
  std::string_view op;
  std::size_t stage;
};
constexpr StageOf kStageOf[] = {
    {"grouped_matmul", 0},
    {"grouped_matmul_wgrad", 0},
    {"quantize", 1},
    {"dequantize", 1},
    {"scaling_aware_transpose", 1},
    {"swiglu", 2},
    {"swiglu_backward", 2},
    {"swiglu_quantize", 2},
    {"swiglu_quantize_backward", 2},
    {"permute", 3},
    {"unpermute", 3},
    {"pad_groups", 3},
    {"unpad_groups", 3},
    {"permute_indices", 3},
    {"combine_rows", 3},
    {"combine_rows_backward", 3},
    {"fill_zero", 3},
    {"route", 5},
    {"route_backward", 5},
    {"router_gradients", 5},
};
constexpr std::string_view kCasts[] = {"quantize", "swiglu_quantize", "swiglu_quantize_backward"};

std::size_t stage_of(std::string_view op) {
  for (const StageOf& row : kStageOf) {
    if (row.op == op) return row.stage;
  }
  return kOther;
}

std::size_t held_bytes(const Operand& view) {
  if (!view.given()) return 0;
  return static_cast<std::size_t>(view.elements()) * size_of(view.dtype);
}
std::size_t held_bytes(const BackendTensor& tensor) {
  return tensor.given() ? held_bytes(tensor.operand()) : 0;
}
std::size_t held_bytes(const OwnedScaledTensor& tensor) {
  return held_bytes(tensor.codes()) + held_bytes(tensor.scales());
}

/// The maps of a plan that lie with the backend, too, where that is not the host.
std::size_t map_bytes(const ExpertPlan& plan) {
  std::size_t sum = 0;
  for (const MirroredTensor* map :
       {&plan.order, &plan.slots, &plan.place, &plan.indices, &plan.group_ends}) {
    sum += map->host().bytes();
  }
  return sum;
}

KeptBytes kept_by(const SavedMoeLayer& saved) {
  KeptBytes kept;
  kept.rows = held_bytes(saved.u);
  kept.h = held_bytes(saved.h);
  kept.activation = held_bytes(saved.act) + held_bytes(saved.act_codes);
  kept.returned = held_bytes(saved.returned);
  kept.routing = held_bytes(saved.logits) + held_bytes(saved.chosen) + held_bytes(saved.weights) +
                 map_bytes(saved.plan) + saved.plan.tokens_per_expert.bytes();
  return kept;
}

/// What the ranks of a run add to, between barriers.
struct Shared {
  Memory memory;
  std::mutex mutex;
  LayerCost cost;
  std::size_t allocated = 0;  ///< by the forward pass, and still there
  std::vector<double> forward;
  std::vector<double> backward;
};

class Rank {
 public:
  Rank(const Bench& bench, Backend& backend, Communicator& communicator, const LayerShape& shape,
       const Pipeline& how, Checkpoint checkpoint, Shared& shared)
      : bench_(bench),
        backend_(backend, shared.memory),
        communicator_(communicator),
        checkpoint_(checkpoint),
        shared_(shared) {
    const Index ranks = communicator.size();
    const Index r = communicator.rank();
    const Index tokens = shape.tokens * (r + 1) / ranks - shape.tokens * r / ranks;
    const Index local = shape.experts / ranks;
    const auto seed = static_cast<unsigned>(3 * r + 10);
    x_ = normal(backend_, {tokens, shape.width}, seed);
    dy_ = normal(backend_, {tokens, shape.width}, seed + 1, 0.1f);
    router_ = normal(backend_, {shape.experts, shape.width}, 1, 0.05f);
    w1_ = normal(backend_, {local, 2 * shape.hidden, shape.width}, seed + 2, 0.02f);
    w2_ = normal(backend_, {local, shape.width, shape.hidden}, seed + 3, 0.02f);
    y_ = BackendTensor(backend_, Dtype::bf16, {tokens, shape.width});
    dx_ = BackendTensor(backend_, Dtype::bf16, {tokens, shape.width});
    drouter_ = BackendTensor(backend_, Dtype::f32, {shape.experts, shape.width});
    dw1_ = BackendTensor(backend_, Dtype::bf16, {local, 2 * shape.hidden, shape.width});
    dw2_ = BackendTensor(backend_, Dtype::bf16, {local, shape.width, shape.hidden});
    for (BackendTensor* result : {&y_, &dx_, &drouter_, &dw1_, &dw2_}) {  // the process has them
      const auto all = held_bytes(*result);
      backend_.fill_zero(static_cast<std::byte*>(result->result().data), all);
    }
    call_.x = x_.operand();
    call_.router = router_.operand();
    call_.w1 = w1_.operand();
    call_.w2 = w2_.operand();
    call_.experts = shape.experts;
    call_.top_k = shape.top_k;
    call_.pipeline = how.pipeline;
    call_.placement = how.placement;
    call_.recipe = how.recipe;
    call_.recompute = checkpoint == Checkpoint::experts;
    call_.y = y_.result();
    backward_.dy = dy_.operand();
    backward_.dx = dx_.result();
    backward_.drouter = drouter_.result();
    backward_.dw1 = dw1_.result();
    backward_.dw2 = dw2_.result();
  }

  void run() {
    step(Round::bytes);
    for (int i = 0; i < bench_.repeats; ++i) step(Round::time);
  }

 private:
  enum class Round : std::uint8_t { bytes, time };  // the first warms up, too
  bool first() const { return communicator_.rank() == 0; }

  void step(Round round) {
    communicator_.barrier();  // the last round of every rank is over, and what it held is free
    std::size_t process_before = 0;
    if (first() && round == Round::bytes) {
      before_ = shared_.memory.live();
      shared_.memory.forget_peak();
      if (forget_process_peak()) process_before = process_bytes();
    }
    forget();
    communicator_.barrier();
    const auto start = std::chrono::steady_clock::now();
    SavedMoeLayer saved = moe_layer(backend_, communicator_, call_);
    if (checkpoint_ == Checkpoint::activation) {
      saved.act = BackendTensor();
      saved.act_codes = OwnedScaledTensor();
    }
    backend_.synchronize();
    communicator_.barrier();
    const auto middle = std::chrono::steady_clock::now();
    note(round, shared_.cost.forward);
    if (round == Round::bytes) note_kept(saved);
    communicator_.barrier();
    const auto second = std::chrono::steady_clock::now();
    if (checkpoint_ == Checkpoint::activation) activate_again(saved);
    moe_layer_backward(backend_, communicator_, saved, backward_);
    backend_.synchronize();
    communicator_.barrier();
    const auto end = std::chrono::steady_clock::now();
    note(round, shared_.cost.backward);
    if (first() && round == Round::bytes) {
      shared_.cost.peak = shared_.memory.peak() - before_;
      if (process_before > 0) shared_.cost.process_peak = process_peak() - process_before;
      for (const BackendTensor* gradient : {&dx_, &dw1_, &dw2_}) {
        const Tensor host = on_host(backend_, gradient->operand());
        shared_.cost.gradients += sha256(host.data(), host.bytes());
      }
    }
    if (first() && round == Round::time) {
      shared_.forward.push_back(std::chrono::duration<double>(middle - start).count());
      shared_.backward.push_back(std::chrono::duration<double>(end - second).count());
    }
    communicator_.barrier();
  }

  void forget() {
    backend_.forget_spent();
    communicator_.forget_traffic();
  }

  /// Adds what this rank did since the last time.
  void note(Round round, Pass& pass) {
    const Traffic& traffic = communicator_.traffic();
    const std::lock_guard lock(shared_.mutex);
    if (round == Round::time) {
      pass.stages[kExchange] += traffic.seconds;
      for (const auto& [op, spent] : backend_.spent()) pass.stages[stage_of(op)] += spent.seconds;
    }
    if (round == Round::bytes) {
      pass.exchanged += traffic.exchanged;
      pass.gathered += traffic.gathered;
      for (const auto& [op, spent] : backend_.spent()) {
        const bool casts = std::find(std::begin(kCasts), std::end(kCasts), op) != std::end(kCasts);
        if (first() && casts) pass.casts += spent.calls;
      }
    }
    forget();
  }

  void note_kept(const SavedMoeLayer& saved) {
    const KeptBytes mine = kept_by(saved);
    const std::lock_guard lock(shared_.mutex);
    KeptBytes& kept = shared_.cost.kept;
    kept.rows += mine.rows;
    kept.h += mine.h;
    kept.activation += mine.activation;
    kept.returned += mine.returned;
    kept.routing += mine.routing;
    shared_.cost.rows += saved.plan.rows;
    // Maps and counts on the host are allocated by the plan alone.
    shared_.allocated += saved.plan.tokens_per_expert.bytes();
    if (backend_.reads_host_memory()) shared_.allocated += map_bytes(saved.plan);
    if (first()) shared_.allocated += shared_.memory.live() - before_;
  }

  void activate_again(SavedMoeLayer& saved) {
    const Index rows = saved.plan.rows;
    const Index features = features_of(call_, call_.w1);
    if (call_.pipeline != MoePipeline::flow) {
      saved.act = BackendTensor(backend_, Dtype::bf16, {rows, features});
      swiglu(backend_, {saved.h.operand(), {}, saved.act.result(), call_.gate});
      return;
    }
    const Index shape[] = {rows, features};
    saved.act_codes = OwnedScaledTensor(backend_, Dtype::e4m3, shape, Dtype::f32,
                                        shape_of_scales(shape, kRowBlock), kRowBlock);
    swiglu_quantize(backend_, {saved.h.operand(),
                               {},
                               {},
                               Dtype::f32,
                               saved.act_codes.result(),
                               f32_rule(kFlowBlockwise),
                               call_.gate});
  }

  const Bench& bench_;
  CountedBackend backend_;
  CountedCommunicator communicator_;
  Checkpoint checkpoint_;
  Shared& shared_;
  BackendTensor x_, dy_, router_, w1_, w2_, y_, dx_, drouter_, dw1_, dw2_;
  MoeLayer call_;
  MoeLayerBackward backward_;
  std::size_t before_ = 0;  ///< of the memory, when a round begins
};

/// The stages of a round of one rank; what no stage has is "other".
void finish(Pass& pass, const std::vector<double>& seconds, int ranks) {
  pass.seconds = sample_of(seconds);
  double mean = 0.0;
  for (const double time : seconds) mean += time / static_cast<double>(seconds.size());
  const double all = static_cast<double>(seconds.size()) * ranks;
  double named = 0.0;
  for (double& stage : pass.stages) {
    stage /= all;
    named += stage;
  }
  pass.stages[kOther] += std::max(mean - named, 0.0);
}

}  // namespace

LayerCost run_layer(const Bench& bench, const LayerShape& shape, const Pipeline& how,
                    Checkpoint checkpoint, int ranks) {
  const int threads = bench.threads > 0 ? bench.threads : omp_get_max_threads();
  // Ranks share the cores; a device has all of itself.
  const std::shared_ptr<Backend> backend =
      bench.backend->reads_host_memory()
          ? std::shared_ptr<Backend>(make_backend(bench.backend_name, std::max(threads / ranks, 1)))
          : bench.backend;
  Shared shared;
  make_in_process_world()->run(ranks, [&](Communicator& communicator) {
    const std::unique_ptr<Backend> own = backend->for_rank(communicator.rank());
    Rank rank(bench, own ? *own : *backend, communicator, shape, how, checkpoint, shared);
    communicator.barrier();
    rank.run();
  });
  if (shared.allocated != shared.cost.kept.all()) {
    throw Error(Fault::internal, fmt::format("bench: {} bytes were kept, {} were allocated",
                                             shared.cost.kept.all(), shared.allocated));
  }
  finish(shared.cost.forward, shared.forward, ranks);
  finish(shared.cost.backward, shared.backward, ranks);
  return shared.cost;
}

double layer_need(const LayerShape& shape, int ranks) {
  const auto d = static_cast<double>(shape.width);
  const auto f = static_cast<double>(shape.hidden);
  const auto tokens = static_cast<double>(shape.tokens);
  const double rows = tokens * static_cast<double>(shape.top_k) +
                      128.0 * static_cast<double>(shape.experts + ranks);
  const double weights = 3.0 * static_cast<double>(shape.experts) * d * f;
  return 6.0 * weights + tokens * d * (16.0 + 2.0 * ranks) + rows * (14.0 * d + 16.0 * f);
}

}  // namespace mxo::tools
