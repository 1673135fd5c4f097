// Movement and scale layouts on the device: the host's bytes, counts never read back.
#include "ops/pad_groups.h"
#include "ops/permute.h"
#include "ops/scale_layouts.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaMovement : public OnDevice {};

constexpr Dtype kSizes[] = {Dtype::e4m3, Dtype::bf16, Dtype::f32, Dtype::i64};

TEST_F(CudaMovement, PadsAndUnpadsAsTheHostDoes) {
  std::uint32_t seed = 1;
  for (const Index groups : {0, 1, 6, 1500}) {
    for (const auto& shape : {std::vector<Index>{0, 8}, {97, 0}, {97, 1}, {300, 72}, {131, 4100}}) {
      for (const Index alignment : {1, 3, 32, 128}) {
        for (const Lie& lie : lies()) {
          const Dtype dtype = kSizes[++seed % 4];
          if (groups > 6 && shape[1] > 100) continue;  // gigabytes of padding
          Strided x(dtype, shape, lie);
          fill_bytes(x, seed);
          Strided ends = integers(random_ends(groups, shape[0], seed), {"apart", 2, 0, 1});
          Strided y(dtype, {padded_rows(shape[0], groups, alignment), shape[1]}, lie);
          Strided starts(Dtype::i32, {groups}, {"contiguous"});
          Strided padded(Dtype::i32, {groups}, {"offset", 1, 0, 1});
          ASSERT_TRUE(agrees({&x, &ends}, {&y, &starts, &padded},
                             [&](auto& b, auto& in, auto& out) {
                               pad_groups(b, {in[0], in[1], out[0], out[1], out[2], alignment});
                             }))
              << lie.name << " " << groups << " groups, " << describe(x.operand());
          Strided back(dtype, shape, lie);
          ASSERT_TRUE(agrees({&y, &ends, &starts}, {&back},
                             [&](auto& b, auto& in, auto& out) {
                               unpad_groups(b, {in[0], in[1], in[2], out[0]});
                             }))
              << lie.name << " " << groups << " groups, " << describe(x.operand());
        }
      }
    }
  }
}

TEST_F(CudaMovement, PadsAHundredThousandGroups) {
  const Index rows = 250000;
  const Index groups = 100000;
  Strided x(Dtype::bf16, {rows, 24}, {"offset", 1, 0, 1});
  fill_bytes(x, 5);
  Strided ends = integers(random_ends(groups, rows, 7));
  Strided y(Dtype::bf16, {padded_rows(rows, groups, 32), 24}, {"contiguous"});
  Strided starts(Dtype::i32, {groups}, {"contiguous"});
  Strided padded(Dtype::i32, {groups}, {"contiguous"});
  EXPECT_TRUE(agrees({&x, &ends}, {&y, &starts, &padded}, [&](auto& b, auto& in, auto& out) {
    pad_groups(b, {in[0], in[1], out[0], out[1], out[2], 32});
  }));
}

TEST_F(CudaMovement, PermutesAndUnpermutesAsTheHostDoes) {
  std::uint32_t seed = 50;
  for (const auto& shape : {std::vector<Index>{0, 8}, {97, 0}, {97, 1}, {300, 72}, {131, 4100}}) {
    for (const Lie& lie : lies()) {
      for (const Dtype dtype : kSizes) {
        std::minstd_rand random(++seed);
        std::vector<std::int32_t> order(static_cast<std::size_t>(shape[0]) + 40, -1);
        for (Index i = 0; i < shape[0]; ++i) {
          if (i % 5 != 0) order[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i);
        }
        std::shuffle(order.begin(), order.end(), random);
        Strided x(dtype, shape, lie);
        fill_bytes(x, seed);
        Strided indices = integers(order, lie);
        Strided y(dtype, {static_cast<Index>(order.size()), shape[1]}, lie);
        ASSERT_TRUE(agrees({&x, &indices}, {&y},
                           [&](auto& b, auto& in, auto& out) {
                             permute(b, {in[0], in[1], out[0]});
                           }))
            << lie.name << " " << describe(x.operand());
        Strided back(dtype, shape, lie);
        ASSERT_TRUE(agrees({&y, &indices}, {&back},
                           [&](auto& b, auto& in, auto& out) {
                             unpermute(b, {in[0], in[1], out[0]});
                           }))
            << lie.name << " " << describe(x.operand());
      }
    }
  }
}

TEST_F(CudaMovement, LaysOutPermutedRowsAsTheHostDoes) {
  std::minstd_rand random(3);
  for (const auto& [experts, ranks] :
       {std::pair<Index, Index>{1, 1}, {8, 4}, {1, 300}, {2000, 1}, {700, 3}, {50000, 2}}) {
    for (const Index alignment : {1, 7, 128}) {
      std::vector<std::int32_t> counts;
      Index total = 0;
      for (Index i = 0; i < experts * ranks; ++i) {
        counts.push_back(random() % 3 == 0 ? 0 : static_cast<std::int32_t>(random() % 9));
        total += counts.back();
      }
      Strided given = integers(counts, {"apart", 2, 0, 1});
      const Index length = round_up(total + experts * alignment, alignment) + 5;
      Strided indices(Dtype::i32, {length}, {"apart", 3, 0, 0});
      Strided sizes(Dtype::i32, {experts}, {"contiguous"});
      Strided ends(Dtype::i32, {experts}, {"apart", 2, 0, 1});
      ASSERT_TRUE(agrees({&given}, {&indices, &sizes, &ends},
                         [&, e = experts, p = ranks](auto& b, auto& in, auto& out) {
                           permute_indices(b, {in[0], out[0], out[1], out[2], e, p, alignment});
                         }))
          << experts << " experts of " << ranks << " ranks, alignment " << alignment;
    }
  }
}

TEST_F(CudaMovement, LaysScalesOutAsTheHostDoes) {
  std::uint32_t seed = 90;
  for (const ScaleLayout layout : {ScaleLayout::blocked, ScaleLayout::m_groups,
                                   ScaleLayout::k_groups, ScaleLayout::per_group_3d}) {
    const bool grouped = layout == ScaleLayout::m_groups || layout == ScaleLayout::k_groups;
    for (const auto& matrix : {std::vector<Index>{0, 4},
                               {4, 0},
                               {1, 1},
                               {128, 4},
                               {131, 7},
                               {300, 224},
                               {257, 400},
                               {64, 1030}}) {
      for (const Index groups : {0, 1, 5, 300}) {
        if (!grouped && groups > 5) continue;
        for (const Lie& lie : lies()) {
          std::vector<Index> shape = matrix;
          if (layout == ScaleLayout::per_group_3d) shape.insert(shape.begin(), groups);
          Strided scales(Dtype::e8m0, shape, lie);
          fill_bytes(scales, ++seed);
          const Index along = layout == ScaleLayout::k_groups ? matrix[1] : matrix[0];
          Strided ends = integers(random_ends(groups, along, seed), {"apart", 2, 0, 1});
          const Lie place{"place", 1, 0, seed % 3 == 0 ? 1 : 0};
          Strided blocked(Dtype::e8m0, blocked_shape(layout, shape, groups), place);
          ASSERT_TRUE(
              agrees({&scales, &ends}, {&blocked},
                     [&](auto& b, auto& in, auto& out) {
                       swizzle_scales(b, {in[0], grouped ? in[1] : Operand{}, out[0], layout});
                     }))
              << static_cast<int>(layout) << " " << lie.name << " " << groups << " groups "
              << describe(scales.operand());
          Strided back(Dtype::e8m0, shape, lie);
          ASSERT_TRUE(
              agrees({&blocked, &ends}, {&back},
                     [&](auto& b, auto& in, auto& out) {
                       unswizzle_scales(b, {in[0], grouped ? in[1] : Operand{}, out[0], layout});
                     }))
              << static_cast<int>(layout) << " " << lie.name << " " << groups << " groups "
              << describe(scales.operand());
        }
      }
    }
  }
}

TEST_F(CudaMovement, LaysOutAHundredThousandGroupsOfScales) {
  const Index groups = 100000;
  for (const ScaleLayout layout : {ScaleLayout::m_groups, ScaleLayout::k_groups}) {
    const std::vector<Index> shape = layout == ScaleLayout::m_groups
                                         ? std::vector<Index>{150000, 3}
                                         : std::vector<Index>{5, 150000};
    Strided scales(Dtype::e8m0, shape, {"offset", 1, 0, 1});
    fill_bytes(scales, 11);
    Strided ends = integers(random_ends(groups, 150000, 13));
    Strided blocked(Dtype::e8m0, blocked_shape(layout, shape, groups), {"contiguous"});
    EXPECT_TRUE(agrees({&scales, &ends}, {&blocked}, [&](auto& b, auto& in, auto& out) {
      swizzle_scales(b, {in[0], in[1], out[0], layout});
    }));
  }
}

}  // namespace
}  // namespace mxo::test
