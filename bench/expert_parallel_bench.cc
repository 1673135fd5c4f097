// Rows to their experts and into padded order, across ranks of one process, against memcpy of as
// many bytes; each row straight to its place against permute, all_to_all, permute and pad.
#include <omp.h>

#include <mutex>
#include <random>

#include "bench/rival.h"
#include "emu/backends.h"
#include "emu/communicators.h"
#include "ops/expert_parallel.h"
#include "ops/pad_groups.h"
#include "ops/permute.h"

namespace mxo {
namespace {

constexpr Index kTokens = 4096;  // of all ranks
constexpr Index kWidth = 7168;
constexpr Index kExperts = 64;
constexpr Index kTopK = 6;

/// What one rank brings: distinct experts for each token, and its tokens on the wire.
struct RankTokens {
  Tensor experts;
  OwnedScaledTensor made;

  RankTokens(Backend& backend, Index tokens, const Wire& how, unsigned seed)
      : experts(Dtype::i32, {tokens, kTopK}), x(bench::activations(tokens, kWidth)) {
    std::mt19937 random(seed);
    for (Index t = 0; t < tokens; ++t) {
      const auto first = static_cast<Index>(random() % kExperts);
      for (Index s = 0; s < kTopK; ++s) {  // an odd step: no expert twice
        experts.as<std::int32_t>()[t * kTopK + s] =
            static_cast<std::int32_t>((first + s * 11) % kExperts);
      }
    }
    if (how.precision == WirePrecision::bf16) {
      made = OwnedScaledTensor::borrowed({x.operand(), {}, {}});
      return;
    }
    const bool mx = how.precision == WirePrecision::mxfp8;
    const BlockExtents block = mx ? kMxColumns : kRowBlock;
    made = OwnedScaledTensor(backend, Dtype::e4m3, x.shape(), mx ? Dtype::e8m0 : Dtype::f32,
                             shape_of_scales(x.shape(), block), block);
    quantize(backend, {x.operand(), {}, made.result(), how.rule});
  }

 private:
  Tensor x;
};

/// Bytes that a dispatch reads and writes.
std::size_t moved_bytes(const ExpertPlan& plan, const ScaledTensor& wire) {
  std::size_t bytes = 0;
  for (const Operand* part : {&wire.codes, &wire.scales}) {
    if (!part->given()) continue;
    const auto row = static_cast<std::size_t>(part->extent[1]) * size_of(part->dtype);
    bytes += static_cast<std::size_t>(plan.received + plan.rows) * row;
  }
  return bytes;
}

bool same(const Operand& x, const Operand& y) {
  if (!x.given()) return !y.given();
  return std::memcmp(x.data, y.data, static_cast<std::size_t>(x.elements()) * size_of(x.dtype)) ==
         0;
}

/// Seconds of one dispatch on all ranks, by the clock of the first.
double time_of(Backend& backend, Communicator& communicator, const ExpertPlan& plan,
               const ScaledTensor& wire, const Wire& how) {
  communicator.barrier();
  const auto start = std::chrono::steady_clock::now();
  const OwnedScaledTensor rows = dispatch(backend, communicator, plan, wire, how);
  communicator.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void BM_Dispatch(benchmark::State& state, WirePrecision precision) {
  const auto ranks = static_cast<int>(state.range(0));
  const int threads = omp_get_max_threads();
  const auto backend = make_cpu_backend({"best", std::max(threads / ranks, 1)});
  Wire fused;
  fused.precision = precision;
  Wire unfused = fused;
  unfused.placement = Placement::unfused;
  std::vector<double> of_memcpy;
  std::vector<double> gains;
  std::vector<double> times;
  std::size_t total = 0;
  Index sent = 0;
  Index sent_bf16 = 0;
  std::mutex mutex;
  constexpr int kRounds = 9;
  for (auto _ : state) {
    make_in_process_world()->run(ranks, [&](Communicator& communicator) {
      const RankTokens mine(*backend, kTokens / ranks, fused,
                            static_cast<unsigned>(communicator.rank()));
      const ExpertPlan plan = plan_experts(*backend, communicator, mine.experts.operand(), kExperts,
                                           32, DispatchLayout::expert_major_padded);
      {
        const std::lock_guard lock(mutex);
        total += moved_bytes(plan, mine.made.view());
        sent += wire_bytes(plan, communicator.rank(), kWidth, fused);
        sent_bf16 +=
            wire_bytes(plan, communicator.rank(), kWidth, {WirePrecision::bf16, Dtype::e4m3});
      }
      const OwnedScaledTensor a = dispatch(*backend, communicator, plan, mine.made.view(), fused);
      const OwnedScaledTensor b = dispatch(*backend, communicator, plan, mine.made.view(), unfused);
      if (!same(a.codes(), b.codes()) || !same(a.scales(), b.scales())) {
        throw Error(Fault::internal, "dispatch: fused and unfused differ");
      }
      std::unique_ptr<bench::MemcpyRival> rival;
      if (communicator.rank() == 0) {
        rival = std::make_unique<bench::MemcpyRival>(total, threads);
        rival->run();
      }
      for (int round = 0; round < kRounds; ++round) {
        communicator.barrier();
        const double copied = rival ? bench::seconds([&] { rival->run(); }) : 0.0;
        const double one = time_of(*backend, communicator, plan, mine.made.view(), fused);
        const double two = time_of(*backend, communicator, plan, mine.made.view(), unfused);
        if (communicator.rank() != 0) continue;
        times.push_back(one);
        of_memcpy.push_back(copied / one);
        gains.push_back(two / one);
      }
    });
    state.SetIterationTime(bench::median(times));
  }
  state.counters["GB/s"] = static_cast<double>(total) * 1e-9 / bench::median(times);
  state.counters["of_memcpy"] = bench::median(of_memcpy);
  state.counters["unfused/fused"] = bench::median(gains);
  if (sent_bf16 > 0) {
    state.counters["sent/bf16"] = static_cast<double>(sent) / static_cast<double>(sent_bf16);
  }
}

void ranks(benchmark::internal::Benchmark* bench) {
  bench->ArgName("ranks")->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);
  for (const int count : {1, 2, 4, 8}) bench->Arg(count);
}

BENCHMARK_CAPTURE(BM_Dispatch, mxfp8, WirePrecision::mxfp8)->Name("dispatch/mxfp8")->Apply(ranks);
BENCHMARK_CAPTURE(BM_Dispatch, blockwise, WirePrecision::fp8_blockwise)
    ->Name("dispatch/fp8_blockwise")
    ->Apply(ranks);
BENCHMARK_CAPTURE(BM_Dispatch, bf16, WirePrecision::bf16)->Name("dispatch/bf16")->Apply(ranks);

/// Codes and scales of tokens into expert order with padded groups, and back: one permutation that
/// knows of the padding against two steps each way.
void BM_PermutePad(benchmark::State& state) {
  const int threads = omp_get_max_threads();
  const auto backend = make_cpu_backend({"best", threads});
  Wire how;
  std::unique_ptr<RankTokens> tokens;
  ExpertPlan plan;
  make_in_process_world()->run(1, [&](Communicator& communicator) {
    tokens = std::make_unique<RankTokens>(*backend, kTokens, how, 1);
    plan = plan_experts(*backend, communicator, tokens->experts.operand(), kExperts, 32,
                        DispatchLayout::expert_major_padded);
  });
  // Which token each padded row is, and which each row is before the groups are padded.
  Tensor padded(Dtype::i32, {plan.rows});
  for (Index i = 0; i < plan.rows; ++i) {
    const std::int32_t row = plan.indices.host().as<std::int32_t>()[i];
    padded.as<std::int32_t>()[i] = row < 0 ? -1 : plan.order.host().as<std::int32_t>()[row];
  }
  Tensor ends(Dtype::i32, {kExperts});
  Index end = 0;
  for (Index e = 0; e < kExperts; ++e) {
    end += plan.tokens_per_expert.as<std::int32_t>()[e];
    ends.as<std::int32_t>()[e] = static_cast<std::int32_t>(end);
  }
  const Index most = padded_rows(plan.received, kExperts, 32);
  Tensor starts(Dtype::i32, {kExperts});
  Tensor padded_ends(Dtype::i32, {kExperts});
  const Operand parts[] = {tokens->made.codes(), tokens->made.scales()};
  std::vector<Tensor> direct;
  std::vector<Tensor> permuted;
  std::vector<Tensor> two_steps;
  std::vector<Tensor> back;
  for (const Operand& part : parts) {
    direct.emplace_back(part.dtype, std::vector<Index>{plan.rows, part.extent[1]});
    permuted.emplace_back(part.dtype, std::vector<Index>{plan.received, part.extent[1]});
    two_steps.emplace_back(part.dtype, std::vector<Index>{most, part.extent[1]});
    back.emplace_back(part.dtype, std::vector<Index>{plan.received, part.extent[1]});
  }
  const Tensor identity = [&] {
    Tensor all(Dtype::i32, {plan.received});
    for (Index i = 0; i < plan.received; ++i)
      all.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
    return all;
  }();
  std::vector<double> there;
  std::vector<double> home;
  for (auto _ : state) {
    const double one = bench::seconds([&] {
      for (std::size_t i = 0; i < 2; ++i) {
        permute(*backend, {parts[i], padded.operand(), direct[i].result()});
      }
    });
    const double two = bench::seconds([&] {
      for (std::size_t i = 0; i < 2; ++i) {
        permute(*backend, {parts[i], plan.order.operand(), permuted[i].result()});
        pad_groups(*backend, {permuted[i].operand(), ends.operand(), two_steps[i].result(),
                              starts.result(), padded_ends.result(), 32});
      }
    });
    const double one_back = bench::seconds([&] {
      for (std::size_t i = 0; i < 2; ++i) {
        unpermute(*backend, {direct[i].operand(), plan.indices.operand(), back[i].result()});
      }
    });
    const double two_back = bench::seconds([&] {
      for (std::size_t i = 0; i < 2; ++i) {
        unpad_groups(*backend, {two_steps[i].operand(), ends.operand(), starts.operand(),
                                permuted[i].result()});
        unpermute(*backend, {permuted[i].operand(), identity.operand(), back[i].result()});
      }
    });
    state.SetIterationTime(one);
    there.push_back(two / one);
    home.push_back(two_back / one_back);
  }
  state.counters["unfused/fused"] = bench::median(there);
  state.counters["back"] = bench::median(home);
}
BENCHMARK(BM_PermutePad)
    ->Name("permute_pad/mxfp8")
    ->UseManualTime()
    ->Iterations(9)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mxo
