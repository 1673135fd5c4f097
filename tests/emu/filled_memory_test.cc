// Operators write all that they own, whatever lay there before.
#include <gtest/gtest.h>

#include <cstring>

#include "emu/backends.h"
#include "ops/aligned_blocks.h"
#include "ops/combine_rows.h"
#include "ops/expert_maps.h"
#include "ops/packed_scales.h"
#include "tests/support/named_calls.h"

namespace mxo {
namespace {

class FilledMemory : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Backend> backend = make_backend(GetParam(), 2);
};

Tensor filled(Dtype dtype, std::vector<Index> shape) {
  Tensor t(dtype, std::move(shape));
  std::memset(t.data(), 0x5A, t.bytes());
  return t;
}

template <typename T>
Tensor of(Dtype dtype, std::vector<Index> shape, const std::vector<T>& values) {
  Tensor t(dtype, std::move(shape));
  std::copy(values.begin(), values.end(), t.as<T>());
  return t;
}

template <typename T>
std::vector<T> values_of(const Tensor& t) {
  return {t.as<T>(), t.as<T>() + t.elements()};
}

using Ints = std::vector<std::int32_t>;
using Bytes = std::vector<std::uint8_t>;
using Floats = std::vector<float>;

TEST_P(FilledMemory, SlotsNobodyTakesAreNamedSo) {
  const Tensor mask = of<std::uint8_t>(Dtype::u8, {2, 3}, {0, 1, 0, 0, 0, 0});
  const Tensor probs = of<float>(Dtype::f32, {2, 3}, {9, 2, 9, 9, 9, 9});
  Tensor experts = filled(Dtype::i32, {2, 3});
  Tensor weights = filled(Dtype::f32, {2, 3});
  mask_to_experts(*backend, {.mask = mask.operand(),
                             .probs = probs.operand(),
                             .experts = experts.result(),
                             .weights = weights.result()});
  EXPECT_EQ(values_of<std::int32_t>(experts), (Ints{1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(values_of<float>(weights), (Floats{2, 0, 0, 0, 0, 0}));
  Tensor again = filled(Dtype::u8, {2, 3});
  Tensor theirs = filled(Dtype::f32, {2, 3});
  experts_to_mask(*backend, {.experts = experts.operand(),
                             .weights = weights.operand(),
                             .mask = again.result(),
                             .probs = theirs.result()});
  EXPECT_EQ(values_of<std::uint8_t>(again), values_of<std::uint8_t>(mask));
  EXPECT_EQ(values_of<float>(theirs), (Floats{0, 2, 0, 0, 0, 0}));
}

TEST_P(FilledMemory, ExpertsWithoutSlotsCountNone) {
  const Tensor experts = of<std::int32_t>(Dtype::i32, {1, 2}, {2, -1});
  Tensor local = filled(Dtype::i32, {1, 2});
  Tensor counts = filled(Dtype::i32, {4});
  map_experts(*backend, {.experts = experts.operand(),
                         .expert_map = {},
                         .weights = {},
                         .local = local.result(),
                         .tokens_per_expert = counts.result()});
  EXPECT_EQ(values_of<std::int32_t>(local), (Ints{2, -1}));
  EXPECT_EQ(values_of<std::int32_t>(counts), (Ints{0, 0, 1, 0}));
}

TEST_P(FilledMemory, BlocksWithoutRowsNameTheUnusedExpert) {
  for (const std::int32_t unused : {0, -1}) {
    const Tensor experts = of<std::int32_t>(Dtype::i32, {2, 1}, {0, 0});
    const Tensor map = of<std::int32_t>(Dtype::i32, {1}, {7});
    Tensor ids = filled(Dtype::i32, {8});
    Tensor blocks = filled(Dtype::i32, {4});
    Tensor rows = filled(Dtype::i32, {1});
    Tensor ends = filled(Dtype::i32, {1});
    moe_align_block_size(*backend, {.experts = experts.operand(),
                                    .expert_map = map.operand(),
                                    .sorted_token_ids = ids.result(),
                                    .expert_ids = blocks.result(),
                                    .num_tokens_post_pad = rows.result(),
                                    .group_ends = ends.result(),
                                    .block = 2,
                                    .unused = unused});
    const std::int32_t rest = unused == 0 ? 7 : -1;
    EXPECT_EQ(values_of<std::int32_t>(blocks), (Ints{7, rest, rest, rest}));
    EXPECT_EQ(values_of<std::int32_t>(ids), (Ints{0, 1, 2, 2, 2, 2, 2, 2}));
    EXPECT_EQ(values_of<std::int32_t>(ends), Ints{2});
    Tensor back = filled(Dtype::i32, {2, 1});
    blocks_to_experts(*backend, {.sorted_token_ids = ids.operand(),
                                 .expert_ids = blocks.operand(),
                                 .num_tokens_post_pad = rows.operand(),
                                 .experts = back.result(),
                                 .block = 2});
    EXPECT_EQ(values_of<std::int32_t>(back), (Ints{7, 7}));
  }
}

TEST_P(FilledMemory, RowsThatNoSlotNamesHaveNoGradient) {
  const Tensor rows = of<float>(Dtype::f32, {4, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tensor slots = of<std::int32_t>(Dtype::i32, {2, 2}, {3, -1, 1, -1});
  const Tensor weights = of<float>(Dtype::f32, {2, 2}, {2, 9, 4, 9});
  const Tensor dout = of<float>(Dtype::f32, {2, 3}, {1, 0, 2, 3, 1, 0});
  Tensor drows = filled(Dtype::f32, {4, 3});
  Tensor dweights = filled(Dtype::f32, {2, 2});
  combine_rows_backward(*backend, {.rows = rows.operand(),
                                   .slots = slots.operand(),
                                   .weights = weights.operand(),
                                   .dout = dout.operand(),
                                   .drows = drows.result(),
                                   .dweights = dweights.result()});
  EXPECT_EQ(values_of<float>(drows), (Floats{0, 0, 0, 12, 4, 0, 0, 0, 0, 2, 0, 4}));
  EXPECT_EQ(values_of<float>(dweights), (Floats{34, 0, 17, 0}));
}

TEST_P(FilledMemory, PaddingOfPackedScalesIsZero) {
  const Tensor scales = of<std::uint8_t>(Dtype::e8m0, {2, 1}, {3, 4});
  Tensor packed = filled(Dtype::u8, {8 * 4});
  pack_scales(
      *backend,
      {.scales = scales.operand(), .packed = packed.result(), .layout = PackedLayout::tiles_8x4});
  Bytes want(32, 0);
  want[0] = 3;
  want[4] = 4;
  EXPECT_EQ(values_of<std::uint8_t>(packed), want);
}

INSTANTIATE_TEST_SUITE_P(Backends, FilledMemory, testing::Values("reference", "cpu"),
                         [](const auto& row) { return std::string(row.param); });

}  // namespace
}  // namespace mxo
