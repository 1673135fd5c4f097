// Counting sorts of selections, and the exchange of their counts.
#include "ops/expert_plan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/checked.h"
#include "ops/permute.h"

namespace mxo {
namespace {

constexpr std::string_view kName = "dispatch";
constexpr Index kMostExperts = 1 << 20;

void check_selection(const Check& check, const Operand& selected, Index experts, Index ranks,
                     Index alignment) {
  check.rank("experts", selected, 2);
  check.dtype("experts", selected, {Dtype::i32});
  check.that(experts > 0 && experts % ranks == 0,
             "experts: found " + std::to_string(experts) + " experts on " + std::to_string(ranks) +
                 " ranks, needs a positive multiple of the ranks");
  if (experts > kMostExperts) {
    throw Error(Fault::argument, "dispatch: experts: found " + std::to_string(experts) +
                                     ", needs at most " + std::to_string(kMostExperts));
  }
  if (alignment < 1 || alignment > std::numeric_limits<std::int32_t>::max()) {
    throw Error(Fault::argument, "dispatch: alignment: found " + std::to_string(alignment) +
                                     ", needs a positive number of 32 bits");
  }
  const auto expert = selected.as<const std::int32_t, 2>();
  for (Index t = 0; t < selected.extent[0]; ++t) {
    for (Index s = 0; s < selected.extent[1]; ++s) {
      if (expert(t, s) >= -1 && expert(t, s) < experts) continue;
      check.that(false, "experts: entry (" + std::to_string(t) + ", " + std::to_string(s) +
                            ") is " + std::to_string(expert(t, s)) + ", needs -1 or one of " +
                            std::to_string(experts) + " experts");
    }
  }
}

/// Everybody's rows for every expert, [P][E], and after them the selections of -1.
std::vector<std::vector<Index>> exchange_counts(Communicator& communicator, Index experts,
                                                Index top_k, const std::vector<Index>& mine) {
  std::vector<Index> message = {experts, top_k};
  message.insert(message.end(), mine.begin(), mine.end());
  const auto all = communicator.all_gather(std::as_bytes(std::span<const Index>(message)));
  std::vector<std::vector<Index>> counts;
  for (std::size_t p = 0; p < all.size(); ++p) {
    std::vector<Index> theirs(all[p].size() / sizeof(Index));
    std::memcpy(theirs.data(), all[p].data(), all[p].size());
    if (theirs.size() != message.size() || theirs[1] != top_k) {
      throw Error(Fault::shape, "dispatch: rank " + std::to_string(p) + " has " +
                                    std::to_string(theirs[0]) + " experts and top_k " +
                                    std::to_string(theirs[1]) + ", rank " +
                                    std::to_string(communicator.rank()) + " has " +
                                    std::to_string(experts) + " and " + std::to_string(top_k));
    }
    counts.emplace_back(theirs.begin() + 2, theirs.end());
  }
  return counts;
}

/// Sorts this rank's selections by expert, which is by receiving rank, too.  `next` is where the
/// first of each expert goes, and last how many there are.
void sort_selections(Backend& backend, const Operand& selected, std::vector<Index> next,
                     ExpertPlan& plan) {
  const auto expert = selected.as<const std::int32_t, 2>();
  Tensor order(Dtype::i32, {next.back()});
  Tensor slots(Dtype::i32, {plan.tokens, plan.top_k});
  for (Index t = 0; t < plan.tokens; ++t) {
    for (Index s = 0; s < plan.top_k; ++s) {
      if (expert(t, s) < 0) {
        slots.as<std::int32_t>()[t * plan.top_k + s] = -1;
        continue;
      }
      const Index at = next[static_cast<std::size_t>(expert(t, s))]++;
      order.as<std::int32_t>()[at] = static_cast<std::int32_t>(t);
      slots.as<std::int32_t>()[t * plan.top_k + s] = static_cast<std::int32_t>(at);
    }
  }
  plan.order = {backend, std::move(order)};
  plan.slots = {backend, std::move(slots)};
}

/// Rows stay as they come; `most` find room.
void lay_out_by_rank(Backend& backend, Index most, ExpertPlan& plan) {
  Tensor place(Dtype::i32, {plan.received});
  auto* at = place.as<std::int32_t>();
  std::iota(at, at + plan.received, 0);
  plan.rows = most;
  if (most > plan.received) {
    Tensor indices(Dtype::i32, {most});
    auto* from = indices.as<std::int32_t>();
    std::fill(std::copy_n(at, plan.received, from), from + most, -1);
    plan.indices = {backend, std::move(indices)};
  }
  plan.place = {backend, std::move(place)};
  plan.group_ends = {backend, Tensor(Dtype::i32, {plan.local})};
}

void lay_out_by_expert(Backend& backend, Index most, Index alignment, ExpertPlan& plan) {
  plan.rows = round_up(most + plan.local * alignment, alignment);
  const MirroredTensor counts(backend, plan.tokens_per_expert);
  BackendTensor indices(backend, Dtype::i32, {plan.rows});
  BackendTensor sizes(backend, Dtype::i32, {plan.local});
  BackendTensor ends(backend, Dtype::i32, {plan.local});
  permute_indices(backend, {counts.operand(), indices.result(), sizes.result(), ends.result(),
                            plan.local, plan.ranks, alignment});
  plan.indices = {backend, on_host(backend, indices.operand())};
  plan.group_ends = {backend, on_host(backend, ends.operand())};
  Tensor place(Dtype::i32, {plan.received});
  const auto* from = plan.indices.host().as<std::int32_t>();
  for (Index i = 0; i < plan.rows; ++i) {
    if (from[i] >= 0) place.as<std::int32_t>()[from[i]] = static_cast<std::int32_t>(i);
  }
  plan.place = {backend, std::move(place)};
}

}  // namespace

ExpertPlan plan_experts(Backend& backend, Communicator& communicator, const Operand& choice,
                        Index experts, Index alignment, DispatchLayout layout, DispatchRows rows) {
  const Check check(kName);
  ExpertPlan plan;
  plan.ranks = communicator.size();
  const HostView on_host(backend, choice);
  const Operand& selected = on_host.operand();
  check_selection(check, selected, experts, plan.ranks, alignment);
  plan.experts = experts;
  plan.local = experts / plan.ranks;
  plan.tokens = selected.extent[0];
  plan.top_k = selected.extent[1];
  plan.layout = layout;
  check.that(plan.tokens * plan.top_k <= std::numeric_limits<std::int32_t>::max(),
             "experts: found " + describe(selected) + ", needs rows that 32 bits can count");

  std::vector<Index> mine(static_cast<std::size_t>(experts + 1));  // last: those of -1
  const auto expert = selected.as<const std::int32_t, 2>();
  for (Index t = 0; t < plan.tokens; ++t) {
    for (Index s = 0; s < plan.top_k; ++s) {
      ++mine[static_cast<std::size_t>(expert(t, s) < 0 ? experts : expert(t, s))];
    }
  }
  const auto counts = exchange_counts(communicator, experts, plan.top_k, mine);

  const auto ranks = static_cast<std::size_t>(plan.ranks);
  const auto local = static_cast<std::size_t>(plan.local);
  const auto me = static_cast<std::size_t>(communicator.rank());
  plan.tokens_per_expert = Tensor(Dtype::i32, {plan.ranks * plan.local});
  plan.send_counts.resize(ranks);
  plan.receive_counts.resize(ranks);
  for (std::size_t p = 0; p < ranks; ++p) {
    for (std::size_t e = 0; e < local; ++e) {
      const Index coming = counts[p][me * local + e];
      plan.tokens_per_expert.as<std::int32_t>()[p * local + e] = static_cast<std::int32_t>(coming);
      plan.receive_counts[p] += coming;
      plan.send_counts[p] += mine[p * local + e];
    }
    plan.received += plan.receive_counts[p];
  }
  check.that(plan.received <= std::numeric_limits<std::int32_t>::max(),
             "rank " + std::to_string(me) + " receives " + std::to_string(plan.received) +
                 " rows, needs a number of 32 bits");

  std::vector<Index> first(mine.size());
  std::exclusive_scan(mine.begin(), mine.end(), first.begin(), Index{0});
  sort_selections(backend, selected, first, plan);
  Index most = plan.received;
  if (rows == DispatchRows::worst_case) {
    most = 0;
    for (const auto& theirs : counts) most = std::accumulate(theirs.begin(), theirs.end(), most);
  }
  check.that(most <= std::numeric_limits<std::int32_t>::max(),
             "experts: found " + std::to_string(most) +
                 " selections on all ranks, needs rows that 32 bits can count");
  if (layout == DispatchLayout::rank_major) {
    lay_out_by_rank(backend, most, plan);
  } else {
    lay_out_by_expert(backend, most, alignment, plan);
  }
  return plan;
}

}  // namespace mxo
