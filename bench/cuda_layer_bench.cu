// One expert-parallel MoE layer on H200s, forward and backward, operator by operator: CUDA events
// in the stream, warmed, medians.  A small layer is first held against cpu, bit for bit.
//   cuda_layer_bench [T D F E k ranks pipeline sum]   default: 131072 7168 2048 8 1 1 mxfp8 exact
// T tokens and E experts in all; more than one rank go over NCCL, a GPU each, and rank 0 is shown.
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "emu/backends.h"
#include "emu/communicators.h"
#include "emu/cuda/cuda_backend.h"
#include "emu/cuda/cuda_check.cuh"
#include "emu/cuda/device_backend.cuh"
#include "formats/error.h"
#include "ops/combine_rows.h"
#include "ops/convert.h"
#include "ops/elementwise.h"
#include "ops/fused_dot.h"
#include "ops/grouped_matmul.h"
#include "ops/moe_layer.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "ops/quantize.h"
#include "ops/route.h"
#include "ops/router_gradients.h"
#include "ops/scale_layouts.h"
#include "ops/scaling_aware_transpose.h"
#include "ops/swiglu.h"
#include "ops/swiglu_quantize.h"

namespace mxo::bench {
namespace {

/// An operator of the step.
struct Stage {
  std::string what;
  double flop = 0;
  cudaEvent_t start{};
  cudaEvent_t stop{};
};

/// The name of an operator, and the operand that says how much there is to do.
template <typename Op>
std::string what_of(std::string_view name, const Op& op) {
  const std::string text = std::string(name) + " ";
  if constexpr (requires { op.tokens_per_expert; }) {
    return text + describe(op.tokens_per_expert);
  } else if constexpr (requires { op.logits; }) {
    return text + describe(op.logits);
  } else if constexpr (requires { op.x; }) {
    return text + describe(op.x);
  } else if constexpr (requires { op.codes; }) {
    return text + describe(op.codes);
  } else if constexpr (requires { op.dout; }) {
    return text + describe(op.dout);
  } else if constexpr (requires { op.rows; }) {
    return text + describe(op.rows);
  } else if constexpr (requires { op.y; }) {
    return text + describe(op.y);
  } else {
    return text;
  }
}
std::string what_of(std::string_view name, const RouterGradients& op) {
  return std::string(name) + (op.drouter.given() ? ", drouter " : ", dx ") + describe(op.dlogits);
}
std::string what_of(std::string_view, const GroupedMatmul& op) {
  const char* name = op.x.scaled() ? "grouped_matmul fp8 " : "grouped_matmul bf16 ";
  return name + describe(op.x.codes);
}
std::string what_of(std::string_view, const GroupedMatmulWgrad& op) {
  return (op.dy.scaled() ? "wgrad fp8 " : "wgrad bf16 ") + describe(op.dy.codes);
}

double elements(const Operand& x) { return static_cast<double>(x.elements()); }
template <typename Op>
double flop_of(const Op&) {
  return 0;
}
double flop_of(const GroupedMatmul& op) {
  return 2.0 * elements(op.x.codes) * static_cast<double>(op.w.codes.extent[1]);
}
double flop_of(const GroupedMatmulWgrad& op) {
  return 2.0 * elements(op.dy.codes) * static_cast<double>(op.x.codes.extent[1]);
}

/// The device, with an event before and behind every operator that a layer calls.
class TimedDevice : public cuda::DeviceBackend {
 public:
  using DeviceBackend::DeviceBackend;
  void reset() { stages_.clear(); }
  void mark(const char* what) { close(open(what, 0)); }
  const std::deque<Stage>& stages() const { return stages_; }

 protected:
#define MXO_RUN(Op, name) \
  void run(const Op& op) override { timed(name, op); }
  MXO_OPERATORS(MXO_RUN)
#undef MXO_RUN

 private:
  Stage& open(std::string what, double flop) {
    Stage& stage = stages_.emplace_back();
    stage.what = std::move(what);
    stage.flop = flop;
    cuda::check(cudaEventCreate(&stage.start), "cudaEventCreate");
    cuda::check(cudaEventCreate(&stage.stop), "cudaEventCreate");
    cuda::check(cudaEventRecord(stage.start, stream()), "cudaEventRecord");
    return stage;
  }
  void close(const Stage& stage) {
    cuda::check(cudaEventRecord(stage.stop, stream()), "cudaEventRecord");
  }
  template <typename Op>
  void timed(std::string_view name, const Op& op) {
    if (inside_) return DeviceBackend::run(op);  // an operator that another is made of
    const Stage& stage = open(what_of(name, op), flop_of(op));
    inside_ = true;
    DeviceBackend::run(op);
    inside_ = false;
    close(stage);
  }
  std::deque<Stage> stages_;
  bool inside_ = false;
};

struct Shape {
  Index tokens, width, hidden, experts, top_k;
};

/// Normal numbers: a run of them again and again, at a stride that no row length shares.
BackendTensor normal(Backend& backend, std::initializer_list<Index> shape, unsigned seed,
                     float spread) {
  constexpr std::size_t kRun = 4194301;  // a prime
  static const std::vector<float> bell = [] {
    std::vector<float> values(kRun);
    std::minstd_rand random(1);
    std::normal_distribution<float> draw;
    for (float& value : values) value = draw(random);
    return values;
  }();
  std::vector<std::uint16_t> run(kRun);
  for (std::size_t i = 0; i < kRun; ++i) {
    run[i] = encode<kBF16>(bell[(i * 3 + seed * 7919) % kRun] * spread).bits;
  }
  BackendTensor t(backend, Dtype::bf16, shape);
  const auto all = static_cast<std::size_t>(t.operand().elements());
  auto* to = static_cast<std::byte*>(t.result().data);
  for (std::size_t i = 0; i < all; i += kRun) {
    backend.upload(to + 2 * i, reinterpret_cast<const std::byte*>(run.data()),
                   2 * std::min(kRun, all - i));
  }
  return t;
}

/// One rank's tensors.
struct Layer {
  Shape shape;
  BackendTensor x, router, w1, w2, dy, y, dx, drouter, dw1, dw2;
  Layer(Backend& b, const Shape& s, int rank, int ranks)
      : shape(s),
        x(normal(b, {s.tokens / ranks, s.width}, 1 + seed(rank), 1.0f)),
        router(normal(b, {s.experts, s.width}, 2, 0.05f)),
        w1(normal(b, {s.experts / ranks, 2 * s.hidden, s.width}, 3 + seed(rank), 0.02f)),
        w2(normal(b, {s.experts / ranks, s.width, s.hidden}, 4 + seed(rank), 0.02f)),
        dy(normal(b, {s.tokens / ranks, s.width}, 5 + seed(rank), 0.1f)),
        y(b, Dtype::bf16, {s.tokens / ranks, s.width}),
        dx(b, Dtype::bf16, {s.tokens / ranks, s.width}),
        drouter(b, Dtype::f32, {s.experts, s.width}),
        dw1(b, Dtype::bf16, {s.experts / ranks, 2 * s.hidden, s.width}),
        dw2(b, Dtype::bf16, {s.experts / ranks, s.width, s.hidden}) {}
  static unsigned seed(int rank) { return static_cast<unsigned>(10 * rank); }

  template <typename Mark>
  void step(Backend& backend, Communicator& communicator, const MoeLayer& how, Mark&& mark) {
    MoeLayer op = how;
    op.x = x.operand();
    op.router = router.operand();
    op.w1 = w1.operand();
    op.w2 = w2.operand();
    op.experts = shape.experts;
    op.top_k = shape.top_k;
    op.y = y.result();
    mark("-- forward");
    const SavedMoeLayer saved = moe_layer(backend, communicator, op);
    mark("-- backward");
    moe_layer_backward(backend, communicator, saved,
                       {dy.operand(),
                        dx.result(),
                        drouter.result(),
                        {},
                        dw1.result(),
                        dw2.result(),
                        {},
                        {},
                        {},
                        {}});
    mark("-- end");
  }
  std::vector<Tensor> results(Backend& backend) const {
    std::vector<Tensor> all;
    for (const BackendTensor* t : {&y, &dx, &drouter, &dw1, &dw2}) {
      all.push_back(on_host(backend, t->operand()));
    }
    return all;
  }
};

/// Elements that differ between a small layer here and on cpu.
Index differing(const MoeLayer& how) {
  const Shape small{1000, 512, 384, 8, 2};
  std::vector<Tensor> found[2];
  TimedDevice device(0);
  const auto cpu = make_cpu_backend();
  Backend* const backends[] = {&device, cpu.get()};
  for (int i = 0; i < 2; ++i) {
    Backend& backend = *backends[i];
    make_in_process_world()->run(1, [&](Communicator& alone) {
      Layer layer(backend, small, 0, 1);
      layer.step(backend, alone, how, [](const char*) {});
      found[i] = layer.results(backend);
    });
  }
  Index count = 0;
  for (std::size_t t = 0; t < found[0].size(); ++t) {
    const std::size_t size = size_of(found[0][t].dtype());
    for (std::size_t i = 0; i < found[0][t].bytes(); i += size) {
      count += std::memcmp(found[0][t].data() + i, found[1][t].data() + i, size) != 0 ? 1 : 0;
    }
  }
  return count;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double between(cudaEvent_t start, cudaEvent_t stop) {
  float ms = 0;
  cuda::check(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
  return ms;
}

/// Times of rank 0, a row for each operator in the order of calls.
class Table {
 public:
  void add(const std::deque<Stage>& stages) {
    rows_.resize(stages.size());
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const double before = i > 0 ? between(stages[i - 1].stop, stages[i].start) : 0.0;
      rows_[i].what = stages[i].what;
      rows_[i].flop = stages[i].flop;
      rows_[i].before.push_back(before);
      rows_[i].ms.push_back(between(stages[i].start, stages[i].stop));
    }
    whole_.push_back(between(stages.front().start, stages.back().stop));
  }
  void print() const {
    std::printf("%10s %10s %9s  operator\n", "before ms", "ms", "TFLOP/s");
    double between_all = 0;
    double flop = 0;
    for (const Row& row : rows_) {
      const double ms = median(row.ms);
      between_all += median(row.before);
      flop += row.flop;
      std::printf("%10.3f %10.3f ", median(row.before), ms);
      if (row.flop > 0) {
        std::printf("%9.1f", row.flop / ms / 1e9);
      } else {
        std::printf("%9s", "");
      }
      std::printf("  %s\n", row.what.c_str());
    }
    const double whole = median(whole_);
    std::printf("step %.1f ms, of it between operators %.1f ms; %.1f TFLOP/s of products\n", whole,
                between_all, flop / whole / 1e9);
  }

 private:
  struct Row {
    std::string what;
    double flop;
    std::vector<double> before, ms;
  };
  std::vector<Row> rows_;
  std::vector<double> whole_;
};

void time_layer(const Shape& shape, int ranks, const MoeLayer& how) {
  const auto world = ranks > 1 ? make_nccl_world(make_in_process_world()) : make_in_process_world();
  Table table;
  world->run(ranks, [&](Communicator& communicator) {
    TimedDevice device(communicator.rank());
    Layer layer(device, shape, communicator.rank(), ranks);
    const auto step = [&] {
      device.synchronize();
      communicator.barrier();
      device.reset();
      layer.step(device, communicator, how, [&](const char* what) { device.mark(what); });
      device.synchronize();
    };
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double> first = std::chrono::steady_clock::now() - start;
    double seconds = first.count();
    const auto all = communicator.all_gather(std::as_bytes(std::span(&seconds, 1)));
    std::memcpy(&seconds, all[0].data(), sizeof(seconds));
    const int times = seconds > 2 ? 1 : 5;
    for (int i = 0; i < times; ++i) {
      step();
      if (communicator.rank() == 0) table.add(device.stages());
    }
  });
  table.print();
}

}  // namespace
}  // namespace mxo::bench

int main(int argc, char** argv) try {
  using namespace mxo;
  const auto number = [&](int i, Index otherwise) {
    return argc > i ? static_cast<Index>(std::atoll(argv[i])) : otherwise;
  };
  const auto word = [&](int i, const char* otherwise) {
    return std::string(argc > i ? argv[i] : otherwise);
  };
  if (const std::string why = why_no_cuda(); !why.empty()) {
    std::printf("skipped: %s\n", why.c_str());
    return 2;
  }
  const bench::Shape shape{number(1, 131072), number(2, 7168), number(3, 2048), number(4, 8),
                           number(5, 1)};
  const auto ranks = static_cast<int>(number(6, 1));
  const std::string pipeline = word(7, "mxfp8");
  const std::string sum = word(8, "exact");
  MoeLayer how;
  if (pipeline == "bf16") how.pipeline = MoePipeline::bf16;
  if (pipeline == "quantize_after") how.pipeline = MoePipeline::quantize_after;
  if (pipeline == "flow") how.pipeline = MoePipeline::flow;
  how.sum = sum_named(sum, product_kind(moe_recipe(how), how.format));
  how.wgrad_sum = sum_named(sum, moe_wgrad_kind(how));
  std::printf("layer %s, sums %s: T %lld, D %lld, F %lld, E %lld, k %lld, %d rank%s\n",
              pipeline.c_str(), sum.c_str(), static_cast<long long>(shape.tokens),
              static_cast<long long>(shape.width), static_cast<long long>(shape.hidden),
              static_cast<long long>(shape.experts), static_cast<long long>(shape.top_k), ranks,
              ranks == 1 ? "" : "s");
  std::printf("small layer: %lld elements differ from cpu\n",
              static_cast<long long>(bench::differing(how)));
  bench::time_layer(shape, ranks, how);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "cuda_layer_bench: %s\n", error.what());
  return 1;
}
