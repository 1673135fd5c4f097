// Maps of rows, experts and blocks in views: what lies beside these, and the largest there are.
#include <gtest/gtest.h>

#include "ops/aligned_blocks.h"
#include "ops/expert_maps.h"
#include "ops/permute.h"
#include "ops/row_maps.h"
#include "ops/scaled_tensor.h"
#include "tests/ops/map_calls.h"

namespace mxo {
namespace {

constexpr Index kMost = 2147483647;

/// Of a vector all but the first and the last; of a matrix all but the last row and column.
Operand inside(const Tensor& all) {
  Operand view = all.operand();
  if (view.rank == 1) view.data = all.as<std::int32_t>() + 1;
  view.extent[0] -= view.rank == 1 ? 2 : 1;
  if (view.rank == 2) view.extent[1] -= 1;
  return view;
}

/// A view of memory that is not there.
Result nowhere(std::vector<Index> shape, std::uintptr_t at) {
  return view_of(reinterpret_cast<void*>(at << 40), Dtype::i32, shape);
}

TEST(MapViews, RowsBesideAViewAreNotRead) {
  const Tensor rows = numbers({6}, {9, 0, -1, 1, 1, 9});
  const Tensor ends = numbers({4}, {2, 3, 6, 99}), counts = numbers({4}, {9, 3, 3, 9});
  Tensor two(Dtype::i32, {2}), six(Dtype::i32, {6}), x(Dtype::bf16, {6, 4}),
      y(Dtype::bf16, {2, 3, 4});
  EXPECT_EQ(refusal_of(rows_to_groups, {inside(rows), two.result()}), "");
  EXPECT_EQ(refusal_of(groups_to_rows, {inside(ends), inside(counts), six.result()}), "");
  EXPECT_EQ(refusal_of(groups_to_masked, {x.operand(), inside(ends), y.result(), two.result()}),
            "");
  EXPECT_EQ(refusal_of(masked_to_groups, {y.operand(), inside(counts), x.result(), two.result()}),
            "");
}

TEST(MapViews, BlocksBesideAViewAreNotRead) {
  const Tensor experts = numbers({4, 3}, {0, 1, 1, 1, -1, 1, 1, 0, 1, 1, 1, 1});
  Tensor ids(Dtype::i32, {8}), blocks(Dtype::i32, {2}), rows(Dtype::i32, {1}),
      ends(Dtype::i32, {2});
  EXPECT_EQ(refusal_of(moe_align_block_size, {inside(experts),
                                              {},
                                              ids.result(),
                                              blocks.result(),
                                              rows.result(),
                                              ends.result(),
                                              4,
                                              -1}),
            "");
  const Tensor sorted = numbers({6}, {7, 0, 3, 4, 1, 7}), taken = numbers({3}, {3, 4, 3});
  Tensor slots(Dtype::i32, {2, 2});
  EXPECT_EQ(refusal_of(blocks_to_experts,
                       {inside(sorted), blocks.operand(), inside(taken), slots.result(), 2}),
            "");
}

TEST(MapViews, MasksAreReadToTheirLastExpert) {
  Tensor mask(Dtype::u8, {2, 4}), experts(Dtype::i32, {2, 1});
  mask.as<std::uint8_t>()[7] = 2;
  EXPECT_EQ(refusal_of(mask_to_experts, {mask.operand(), {}, experts.result(), {}}),
            "mask_to_experts: mask: entry (1, 3) is 2, needs 0 or 1");
}

TEST(MapViews, EntriesOfExpertsFit32Bits) {
  Tensor counts(Dtype::i32, {2});
  const auto mapped = [&](Index entries) {
    return refusal_of(
        map_experts,
        {to_read(nowhere({entries, 1}, 1)), {}, {}, nowhere({entries, 1}, 2), counts.result()},
        false);
  };
  EXPECT_EQ(mapped(kMost), "");
  EXPECT_EQ(mapped(kMost + 1), "map_experts: experts: needs at most 2147483647 entries");
}

}  // namespace
}  // namespace mxo
