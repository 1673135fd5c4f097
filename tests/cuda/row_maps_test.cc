// Maps of rows, experts and masks and the scale layouts of other libraries, on the device.
#include "ops/row_maps.h"

#include <numeric>

#include "ops/aligned_blocks.h"
#include "ops/expert_maps.h"
#include "ops/packed_scales.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaRowMaps : public OnDevice {
 protected:
  const Lie& next_lie() {
    static const std::vector<Lie> kLies = test::lies();
    return kLies[++seed_ % kLies.size()];
  }
  Strided ints(std::vector<Index> shape, const std::vector<std::int32_t>& values) {
    Strided tensor(Dtype::i32, shape, next_lie());
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(tensor.at(static_cast<Index>(i)), &values[i], sizeof values[i]);
    }
    return tensor;
  }
  Strided ints(std::vector<Index> shape) { return Strided(Dtype::i32, shape, next_lie()); }

  std::uint32_t seed_ = 1;
};

std::vector<Index> extents(Index a, Index b) { return {a, b}; }

TEST_F(CudaRowMaps, RowsToGroupsAndBackAgree) {
  for (const Index groups : {1, 3, 64}) {
    for (const Index rows : {0, 5, 700}) {
      const std::vector<std::int32_t> ends = random_ends(groups, rows, ++seed_);
      Strided given = ints({groups}, ends);
      std::vector<std::int32_t> half;
      for (std::size_t g = 0; g < ends.size(); ++g)
        half.push_back((ends[g] - (g ? ends[g - 1] : 0)) / 2);
      Strided counts = ints({groups}, half);
      Strided named = ints({rows});
      ASSERT_TRUE(agrees({&given, &counts}, {&named}, [](auto& b, auto& in, auto& out) {
        groups_to_rows(b, {in[0], in[1], out[0]});
      }));
      Strided again = ints({groups});
      ASSERT_TRUE(agrees({&named}, {&again}, [](auto& b, auto& in, auto& out) {
        rows_to_groups(b, {in[0], out[0]});
      }));
    }
  }
}

TEST_F(CudaRowMaps, MaskedMatricesAndBackAgreeInEveryType) {
  for (const Dtype type : {Dtype::e4m3, Dtype::bf16, Dtype::f32}) {
    for (const auto& [groups, rows, width] :
         {std::tuple<Index, Index, Index>{1, 0, 8}, {4, 100, 33}, {17, 300, 64}, {3, 40, 0}}) {
      const std::vector<std::int32_t> ends = random_ends(groups, rows, ++seed_);
      Strided x(type, {rows, width}, next_lie());
      fill_bytes(x, seed_);
      Strided given = ints({groups}, ends);
      Strided y(type, {groups, rows + 2, width}, next_lie());
      Strided counts = ints({groups});
      ASSERT_TRUE(agrees({&x, &given}, {&y, &counts}, [](auto& b, auto& in, auto& out) {
        groups_to_masked(b, {in[0], in[1], out[0], out[1]});
      }));
      Strided back(type, {rows + 3, width}, next_lie());
      Strided again = ints({groups});
      ASSERT_TRUE(agrees({&y, &counts}, {&back, &again}, [](auto& b, auto& in, auto& out) {
        masked_to_groups(b, {in[0], in[1], out[0], out[1]});
      }));
    }
  }
}

TEST_F(CudaRowMaps, ExpertsMasksAndBlocksAgree) {
  constexpr Index kExperts = 12;
  for (const auto& [tokens, k] : {std::pair<Index, Index>{0, 2}, {1, 1}, {90, 4}}) {
    std::minstd_rand random(++seed_);
    std::vector<std::int32_t> chosen;
    for (Index t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> order(kExperts);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (Index s = 0; s < k; ++s)
        chosen.push_back(random() % 8 == 0 ? -1 : order[static_cast<std::size_t>(s)]);
    }
    std::vector<std::int32_t> local(kExperts);
    for (std::int32_t e = 0; e < kExperts; ++e)
      local[static_cast<std::size_t>(e)] = e % 3 == 0 ? -1 : e / 3 + e % 3 * 4 - 4;
    Strided experts = ints(extents(tokens, k), chosen);
    Strided map = ints({kExperts}, local);
    Strided weights = filled(Dtype::f32, {tokens, k}, next_lie(), Fill::edges, seed_);
    for (const CapacityDrop drop : {CapacityDrop::position, CapacityDrop::weight}) {
      Strided mapped = ints(extents(tokens, k));
      Strided counts = ints({kExperts});
      ASSERT_TRUE(
          agrees({&experts, &map, &weights}, {&mapped, &counts}, [&](auto& b, auto& in, auto& out) {
            const bool weighed = drop == CapacityDrop::weight;
            map_experts(b, {in[0], in[1], weighed ? in[2] : Operand{}, out[0], out[1], 9, drop});
          }));
    }
    Strided mask(Dtype::u8, {tokens, kExperts}, next_lie());
    Strided probs(Dtype::f32, {tokens, kExperts}, next_lie());
    ASSERT_TRUE(agrees({&experts, &weights}, {&mask, &probs}, [](auto& b, auto& in, auto& out) {
      experts_to_mask(b, {in[0], in[1], out[0], out[1]});
    }));
    Strided named = ints(extents(tokens, k));
    Strided weighed(Dtype::f32, {tokens, k}, next_lie());
    ASSERT_TRUE(agrees({&mask, &probs}, {&named, &weighed}, [](auto& b, auto& in, auto& out) {
      mask_to_experts(b, {in[0], in[1], out[0], out[1]});
    }));
    constexpr Index kBlock = 16;
    const Index length = round_up(tokens * k, kBlock) + kExperts * kBlock;
    Strided ids = ints({length});
    Strided blocks = ints({length / kBlock});
    Strided rows = ints({1});
    Strided ends = ints({kExperts});
    ASSERT_TRUE(
        agrees({&experts, &map}, {&ids, &blocks, &rows, &ends}, [&](auto& b, auto& in, auto& out) {
          moe_align_block_size(b, {in[0], in[1], out[0], out[1], out[2], out[3], kBlock, -1});
        }));
    Strided again = ints(extents(tokens, k));
    ASSERT_TRUE(agrees({&ids, &blocks, &rows}, {&again}, [&](auto& b, auto& in, auto& out) {
      blocks_to_experts(b, {in[0], in[1], in[2], out[0], kBlock});
    }));
  }
}

TEST_F(CudaRowMaps, PackedScalesAgreeInEveryLayout) {
  const std::pair<PackedLayout, Dtype> kinds[] = {{PackedLayout::mn_major_tma, Dtype::f32},
                                                  {PackedLayout::cublas_1x128, Dtype::f32},
                                                  {PackedLayout::packed_ue8m0, Dtype::e8m0},
                                                  {PackedLayout::packed_ue8m0, Dtype::f32},
                                                  {PackedLayout::tiles_8x4, Dtype::u8}};
  for (const auto& kind : kinds) {
    const PackedLayout layout = kind.first;
    const Dtype type = kind.second;
    for (const std::vector<Index>& shape :
         {std::vector<Index>{1, 1}, {130, 7}, {64, 56}, {0, 4}, {5, 0}, {3, 33, 9}}) {
      const bool many =
          layout == PackedLayout::mn_major_tma || layout == PackedLayout::packed_ue8m0;
      if (shape.size() == 3 && !many) continue;
      Strided scales(type, shape, next_lie());
      fill_bytes(scales, ++seed_);
      Strided packed(packed_dtype(layout), packed_shape(layout, shape), {"contiguous"});
      ASSERT_TRUE(agrees({&scales}, {&packed}, [&](auto& b, auto& in, auto& out) {
        pack_scales(b, {in[0], out[0], layout});
      }));
      if (layout == PackedLayout::packed_ue8m0 && type == Dtype::f32) continue;
      Strided back(type, shape, next_lie());
      ASSERT_TRUE(agrees({&packed}, {&back}, [&](auto& b, auto& in, auto& out) {
        unpack_scales(b, {in[0], out[0], layout});
      }));
    }
  }
}

TEST_F(CudaRowMaps, WrongEntriesAreRefusedByNameUnwritten) {
  const Strided rows = integers({0, 2, 1});
  const Strided ends = integers({7, 7, 7});
  const Mirror in(*device_, rows);
  const Mirror out(*device_, ends);
  try {
    rows_to_groups(*device_, {in.operand(), out.result()});
    ADD_FAILURE() << "groups out of order were taken";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "rows_to_groups: m_indices: entry 2 is 1, needs -1 or a group from 2 to 2");
  }
  EXPECT_EQ(out.bytes(), ends.bytes());
}

}  // namespace
}  // namespace mxo::test
