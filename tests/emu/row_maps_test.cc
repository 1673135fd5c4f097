// Rows and experts under other stacks' names, against those stacks' own statements.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "tests/support/every_memory.h"
#include "tests/support/random_tensors.h"

namespace mxo::row_maps_test {
namespace {

using Ints = std::vector<std::int32_t>;

Ints values_of(const Tensor& t) {
  return {t.as<std::int32_t>(), t.as<std::int32_t>() + t.elements()};
}

/// DeepGEMM's test of the contiguous layout: groups aligned, m_indices[start:actual] = e and
/// m_indices[actual:aligned] = -1.
TEST(RowMaps, AlignedGroupsOfDeepGemmGoBothWays) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    const Index alignment = round % 2 == 0 ? 128 : 8;
    Ints rows, counts, ends;
    const int groups = 1 + static_cast<int>(random() % 6);
    for (int e = 0; e < groups; ++e) {
      const auto count = static_cast<Index>(round == 7 ? 0 : random() % 20);
      counts.push_back(static_cast<std::int32_t>(count));
      for (Index i = 0; i < round_up(count, alignment); ++i) rows.push_back(i < count ? e : -1);
      ends.push_back(static_cast<std::int32_t>(rows.size()));
    }
    const auto all = static_cast<Index>(rows.size());
    const NamedTensors back = test::call_everywhere(
        "groups_to_rows",
        {{"group_ends", test::integers_of(ends)}, {"counts", test::integers_of(counts)}},
        "rows=" + std::to_string(all));
    EXPECT_EQ(values_of(back.at("m_indices")), rows);
    // The last group ends at its last row: what is behind belongs to none.
    const NamedTensors there =
        test::call_everywhere("rows_to_groups", {{"m_indices", test::integers_of(rows)}},
                              "experts=" + std::to_string(groups));
    Ints want(ends.size(), 0);
    const auto last = std::find_if(rows.rbegin(), rows.rend(), [](int e) { return e >= 0; });
    for (std::size_t e = 0; e < want.size(); ++e)
      want[e] = std::min(ends[e], static_cast<std::int32_t>(rows.rend() - last));
    EXPECT_EQ(values_of(there.at("group_ends")), want);
  }
}

TEST(RowMaps, MaskedMatricesGoBothWaysInEveryType) {
  for (const Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32}) {
    const Ints counts = {3, 0, 5, 1};
    const Index width = 19;  // more than there are rows
    Tensor x(dtype, {9, width});
    for (std::size_t i = 0; i < x.bytes(); ++i) x.data()[i] = static_cast<std::byte>(i % 119 + 1);
    const NamedTensors masked = test::call_everywhere(
        "groups_to_masked", {{"x", x}, {"group_ends", test::integers_of({3, 3, 8, 9})}},
        "max_rows=6");
    EXPECT_EQ(values_of(masked.at("counts")), counts);
    const Tensor& y = masked.at("y");
    ASSERT_EQ(y.shape(), (std::vector<Index>{4, 6, width}));
    const std::size_t row = x.bytes() / 9;
    std::size_t from = 0;
    for (std::size_t e = 0; e < 4; ++e) {
      for (std::size_t i = 0; i < 6; ++i) {
        const std::byte* at = y.data() + (e * 6 + i) * row;
        const bool owned = i < static_cast<std::size_t>(counts[e]);
        for (std::size_t b = 0; b < row; ++b)
          ASSERT_EQ(at[b], owned ? x.data()[from * row + b] : std::byte{0});
        from += owned;
      }
    }
    const NamedTensors back = test::call_everywhere(
        "masked_to_groups", {{"y", y}, {"counts", test::integers_of(counts)}}, "rows=9");
    EXPECT_EQ(values_of(back.at("group_ends")), (Ints{3, 3, 8, 9}));
    EXPECT_EQ(std::memcmp(back.at("x").data(), x.data(), x.bytes()), 0);
  }
}

/// What vLLM's test takes as golden: a stable sort by expert, blocks counted, zeros in the rest.
TEST(ExpertMaps, AlignedBlocksAreAStableSortByExpert) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const auto tokens = static_cast<Index>(random() % 40);
    const auto k = static_cast<Index>(1 + random() % 4);
    const int experts = 4 + static_cast<int>(random() % 9);
    const auto block = static_cast<Index>(1 + random() % 16);
    const bool mapped = round % 3 == 1;
    const std::int32_t unused = mapped && round % 2 == 0 ? -1 : 0;
    Ints ids(static_cast<std::size_t>(tokens * k));
    for (auto& id : ids) id = static_cast<std::int32_t>(random() % static_cast<unsigned>(experts));
    if (round % 4 == 3) std::replace(ids.begin(), ids.end(), 2, -1);
    Ints map(static_cast<std::size_t>(experts));
    for (int e = 0; e < experts; ++e) map[static_cast<std::size_t>(e)] = e % 2 == 0 ? e / 2 : -1;

    Ints order(ids.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto i, auto j) {
      return ids[static_cast<std::size_t>(i)] < ids[static_cast<std::size_t>(j)];
    });
    const Index length = round_up(tokens * k + experts * (block - 1), block);
    Ints sorted(static_cast<std::size_t>(length), static_cast<std::int32_t>(ids.size()));
    Ints blocks(static_cast<std::size_t>(length / block), unused);
    std::size_t row = 0;
    std::size_t at = static_cast<std::size_t>(std::count(ids.begin(), ids.end(), -1));
    for (int e = 0; e < experts; ++e) {
      const std::size_t first = row;
      while (at < order.size() && ids[static_cast<std::size_t>(order[at])] == e)
        sorted[row++] = order[at++];
      while (row % static_cast<std::size_t>(block) != 0) ++row;
      for (std::size_t r = first; r < row; r += static_cast<std::size_t>(block))
        blocks[r / static_cast<std::size_t>(block)] = e;
    }
    if (mapped) {
      for (auto& e : blocks) e = e < 0 ? -1 : map[static_cast<std::size_t>(e)];
    }
    NamedTensors in{{"experts", test::integers_of({tokens, k}, ids)}};
    if (mapped) in.emplace("expert_map", test::integers_of(map));
    const NamedTensors out = test::call_everywhere(
        "moe_align_block_size", in,
        "pad_sorted_ids=true experts=" + std::to_string(experts) +
            " block=" + std::to_string(block) + " unused=" + std::to_string(unused));
    ASSERT_EQ(values_of(out.at("sorted_token_ids")), sorted) << round;
    ASSERT_EQ(values_of(out.at("expert_ids")), blocks) << round;
    ASSERT_EQ(values_of(out.at("num_tokens_post_pad")), Ints{static_cast<std::int32_t>(row)});

    NamedTensors aligned = out;
    aligned.erase("group_ends");
    const NamedTensors back = test::call_everywhere("blocks_to_experts", aligned,
                                                    "block=" + std::to_string(block) +
                                                        " tokens=" + std::to_string(tokens) +
                                                        " top_k=" + std::to_string(k));
    Ints local = ids;
    for (auto& id : local) {
      if (mapped && id >= 0) id = map[static_cast<std::size_t>(id)];
    }
    ASSERT_EQ(values_of(back.at("experts")), local) << round;
  }
}

TEST(ExpertMaps, CapacityKeepsTheFirstOrTheHeaviestSlots) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const Index tokens = 30;
    const Index k = 3;
    Ints ids(static_cast<std::size_t>(tokens * k));
    std::vector<float> weights(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int32_t>(random() % 7) - 1;
      weights[i] = static_cast<float>(random() % 5);  // with ties
      if (random() % 11 == 0) weights[i] = NAN;
    }
    const Ints map = {2, -1, 0, 1, -1, 3};
    const auto capacity = static_cast<std::size_t>(random() % 8);
    const bool heavy = round % 2 == 0;
    // By expert, the best first; what is beyond the capacity goes.
    std::map<int, std::vector<std::size_t>> slots;
    Ints want(ids.size(), -1);
    Ints counts(4, 0);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int e = ids[i] < 0 ? -1 : map[static_cast<std::size_t>(ids[i])];
      if (e >= 0) slots[e].push_back(i);
    }
    for (auto& [e, list] : slots) {
      while (list.size() > capacity) {
        auto worst = list.end() - 1;
        for (auto i = list.begin(); heavy && i != list.end(); ++i) {
          const auto rank = [&](auto s) { return std::isnan(weights[*s]) ? -1.0f : weights[*s]; };
          if (rank(i) < rank(worst) || (rank(i) == rank(worst) && *i > *worst)) worst = i;
        }
        list.erase(worst);
      }
      for (const std::size_t i : list) want[i] = e;
      counts[static_cast<std::size_t>(e)] = static_cast<std::int32_t>(list.size());
    }
    NamedTensors in{{"experts", test::integers_of({tokens, k}, ids)},
                    {"expert_map", test::integers_of(map)}};
    if (heavy) {
      Tensor w(Dtype::f32, {tokens, k});
      std::copy(weights.begin(), weights.end(), w.as<float>());
      in.emplace("weights", w);
    }
    const NamedTensors out =
        test::call_everywhere("map_experts", in,
                              "experts=4 capacity=" + std::to_string(capacity) +
                                  (heavy ? " drop=weight" : " drop=position"));
    ASSERT_EQ(values_of(out.at("local")), want) << round;
    ASSERT_EQ(values_of(out.at("tokens_per_expert")), counts) << round;
  }
}

TEST(ExpertMaps, MasksAndSlotsAreEachOthersInverse) {
  Tensor mask(Dtype::u8, {3, 4});
  const std::uint8_t kMask[] = {1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0};
  std::memcpy(mask.data(), kMask, sizeof kMask);
  Tensor probs(Dtype::f32, {3, 4});
  for (Index i = 0; i < 12; ++i)
    probs.as<float>()[i] = kMask[i] != 0 ? static_cast<float>(i) + 1 : 0;
  const NamedTensors slots =
      test::call_everywhere("mask_to_experts", {{"mask", mask}, {"probs", probs}}, "top_k=3");
  EXPECT_EQ(values_of(slots.at("experts")), (Ints{0, 3, -1, -1, -1, -1, 1, 2, -1}));
  const float want[] = {1, 4, 0, 0, 0, 0, 10, 11, 0};
  EXPECT_EQ(std::memcmp(slots.at("weights").data(), want, sizeof want), 0);
  Tensor booleans(Dtype::boolean, {3, 4});
  std::memcpy(booleans.data(), kMask, sizeof kMask);
  const Tensor same =
      test::call_everywhere("mask_to_experts", {{"mask", booleans}}, "top_k=3").at("experts");
  EXPECT_EQ(values_of(same), values_of(slots.at("experts")));
  const NamedTensors back = test::call_everywhere("experts_to_mask", slots, "experts=4");
  EXPECT_EQ(std::memcmp(back.at("mask").data(), kMask, sizeof kMask), 0);
  EXPECT_EQ(std::memcmp(back.at("probs").data(), probs.data(), probs.bytes()), 0);
}

}  // namespace
}  // namespace mxo::row_maps_test
