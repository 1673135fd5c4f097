// The quantisers on the device: the host's bytes for any shape, stride, rule and value.
#include "ops/quantize.h"

#include "ops/convert.h"
#include "ops/quantize.h"
#include "ops/scale_layouts.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

constexpr Dtype kCodes[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz};
constexpr Dtype kWide[] = {Dtype::bf16, Dtype::f32};
constexpr Fill kFills[] = {Fill::blocks, Fill::edges, Fill::anything};
constexpr ScaleMode kModes[] = {ScaleMode::rceil, ScaleMode::floor, ScaleMode::ceil,
                                ScaleMode::even};

/// Along which axis neighbours share a scale.
enum class Axis { columns, rows };

BlockExtents block_along(Axis axis, Index block) {
  return axis == Axis::columns ? BlockExtents{1, block} : BlockExtents{block, 1};
}

std::vector<Index> scaled(const std::vector<Index>& shape, Axis axis, Index block) {
  return shape_of_scales(shape, block_along(axis, block));
}

class CudaQuantize : public OnDevice {};

TEST_F(CudaQuantize, GivesTheHostsBytesForEveryFormatModeAndProfile) {
  std::uint32_t seed = 1;
  for (const Dtype format : kCodes) {
    for (const Dtype wide : kWide) {
      for (const ScaleMode mode : kModes) {
        for (const ScaleProfile& profile : {kTorchao, kTransformerEngine, kOcp, kTorchaoCuda}) {
          for (const Axis axis : {Axis::columns, Axis::rows}) {
            for (const Fill how : kFills) {
              const std::vector<Index> shape = {96, 160};
              Strided x = filled(wide, shape, {"contiguous"}, how, ++seed);
              Strided codes(format, shape, {"contiguous"});
              Strided scales(Dtype::e8m0, scaled(shape, axis, 32), {"contiguous"});
              ASSERT_TRUE(
                  quantized(x, codes, scales, block_along(axis, kMxBlock), mx_rule(mode, profile)))
                  << name_of(format) << " from " << name_of(wide) << ", mode "
                  << static_cast<int>(mode) << ", fill " << static_cast<int>(how);
            }
          }
        }
      }
    }
  }
}

TEST_F(CudaQuantize, GivesTheHostsBytesForHostileShapesAndStrides) {
  const std::vector<Index> shapes[] = {
      {1, 32},  {32, 1},     {0, 64},      {64, 0},   {33, 2048}, {3, 32, 32}, {5, 64, 96},
      {160, 7}, {160, 4100}, {2, 416, 36}, {7, 1056}, {1312, 36}, {300, 160}};
  std::uint32_t seed = 100;
  for (const auto& shape : shapes) {
    for (const Axis axis : {Axis::columns, Axis::rows}) {
      if (shape[shape.size() - (axis == Axis::rows ? 2 : 1)] % 32 != 0) continue;
      for (const Lie& lie : lies()) {
        for (const Dtype wide : kWide) {
          Strided x(wide, shape, ++seed % 2 == 0 ? lie : Lie{"contiguous"});
          fill(x, Fill::edges, seed);
          Strided codes(Dtype::e4m3, shape, lie);
          Strided scales(Dtype::e8m0, scaled(shape, axis, 32), lie);
          ASSERT_TRUE(quantized(x, codes, scales, block_along(axis, kMxBlock)))
              << lie.name << " " << describe(x.operand());
          Strided back(wide, shape, lie);
          ASSERT_TRUE(dequantized(codes, scales, block_along(axis, kMxBlock), back))
              << lie.name << " " << describe(x.operand());
        }
      }
    }
  }
}

TEST_F(CudaQuantize, BlocksOfAnyLengthAgree) {
  for (const Index block : {1, 5, 16, 64}) {
    for (const Axis axis : {Axis::columns, Axis::rows}) {
      const std::vector<Index> shape = {block * 3, block * 5};
      Strided x = filled(Dtype::f32, shape, {"odd_rows", 1, 3, 5}, Fill::blocks,
                         static_cast<std::uint32_t>(block));
      Strided codes(Dtype::e5m2, shape, {"offset", 1, 0, 1});
      Strided scales(Dtype::e8m0, scaled(shape, axis, block), {"contiguous"});
      Strided back(Dtype::bf16, shape, {"contiguous"});
      EXPECT_TRUE(quantized(x, codes, scales, block_along(axis, block), mx_rule(ScaleMode::even)));
      EXPECT_TRUE(dequantized(codes, scales, block_along(axis, block), back));
    }
  }
}

/// Results, or the operand, lie across memory: blocks down columns of the one, along rows of the
/// other.
TEST_F(CudaQuantize, TransposedTensorsAgree) {
  const Lie plain{"contiguous"}, turned{"turned", 1, 0, 0, true};
  std::uint32_t seed = 300;
  for (const bool operand : {false, true}) {
    const Axis axis = operand ? Axis::columns : Axis::rows;
    for (std::vector<Index> shape :
         {std::vector<Index>{32, 8}, {416, 132}, {3, 160, 260}, {128, 128}, {1312, 132}, {64, 7}}) {
      if (operand) std::swap(shape[shape.size() - 2], shape[shape.size() - 1]);
      for (const Dtype wide : kWide) {
        for (const Fill how : kFills) {
          Strided x = filled(wide, shape, operand ? turned : plain, how, ++seed);
          Strided codes(Dtype::e4m3, shape, operand ? plain : turned);
          Strided scales(Dtype::e8m0, scaled(shape, axis, 32), operand ? plain : turned);
          ASSERT_TRUE(quantized(x, codes, scales, block_along(axis, kMxBlock)))
              << describe(x.operand());
        }
      }
    }
  }
}

TEST_F(CudaQuantize, FusedWithTheSwizzleAgrees) {
  std::uint32_t seed = 400;
  for (const auto& shape :
       {std::vector<Index>{1, 32}, {129, 160}, {3, 200, 288}, {0, 64}, {256, 4096}, {2, 5, 96}}) {
    for (const Lie& lie : {Lie{"contiguous"}, Lie{"offset", 1, 0, 1}, Lie{"odd", 1, 3, 5}}) {
      std::vector<Index> blocked = {
          blocked_bytes(shape[shape.size() - 2], shape.back() / kMxBlock)};
      if (shape.size() == 3) blocked.insert(blocked.begin(), shape[0]);
      Strided x = filled(Dtype::bf16, shape, lie, Fill::edges, ++seed);
      Strided codes(Dtype::e4m3, shape, lie);
      Strided scales(Dtype::e8m0, blocked, {"place", 1, 0, lie.offset});
      ASSERT_TRUE(quantized(x, codes, scales, kMxColumns, {}, ScaleStorage::blocked))
          << lie.name << " " << describe(x.operand());
    }
  }
}

/// What a block of threads takes, one block of 32 less and more, and rows that cross its end.
TEST_F(CudaQuantize, ScalesAgreeFromAnyByteOnAndAtTheEndsOfStretches) {
  std::uint32_t seed = 450;
  for (const auto& shape : {std::vector<Index>{1, 4064}, {1, 4096}, {1, 4128}, {3, 5, 1056}}) {
    for (const Index offset : {0, 1, 2, 4}) {
      for (const Dtype wide : kWide) {
        for (const bool blocked : {false, true}) {
          std::vector<Index> scales_shape = scaled(shape, Axis::columns, kMxBlock);
          if (blocked) {
            const Index bytes = blocked_bytes(shape[shape.size() - 2], scales_shape.back());
            scales_shape.resize(shape.size() - 2);
            scales_shape.push_back(bytes);
          }
          Strided x = filled(wide, shape, {"contiguous"}, Fill::blocks, ++seed);
          Strided codes(Dtype::e4m3, shape, {"contiguous"});
          Strided scales(Dtype::e8m0, scales_shape, {"offset", 1, 0, offset});
          ASSERT_TRUE(quantized(x, codes, scales, kMxColumns, {},
                                blocked ? ScaleStorage::blocked : ScaleStorage::row_major))
              << describe(x.operand()) << ", scales at " << offset << (blocked ? ", blocked" : "");
        }
      }
    }
  }
}

TEST_F(CudaQuantize, ColumnsOfGroupsWithOneFloatScaleAgree) {
  std::uint32_t seed = 600;
  for (const Index groups : {0, 1, 5, 300}) {
    for (const auto& shape : {std::vector<Index>{0, 7}, {201, 0}, {201, 300}, {64, 8}}) {
      for (const Lie& lie : lies()) {
        Strided x(++seed % 2 == 0 ? Dtype::f32 : Dtype::bf16, shape, lie);
        fill(x, Fill::edges, seed);
        Strided ends = integers(random_ends(groups, shape[0], seed), {"apart", 2, 0, 1});
        Strided codes(Dtype::e4m3, shape, lie);
        Strided scales(Dtype::f32, {groups, shape[1]}, lie);
        ASSERT_TRUE(agrees(
            {&x, &ends}, {&codes, &scales},
            [&](auto& b, auto& in, auto& out) {
              quantize(b,
                       {in[0], in[1], {out[0], out[1], kWholeColumn}, f32_rule(kTorchaoRowwise)});
            }))
            << lie.name << " " << groups << " groups " << describe(x.operand());
      }
    }
  }
}

TEST_F(CudaQuantize, BlocksWithOneFloatScaleAgree) {
  std::uint32_t seed = 700;
  for (const auto& shape : {std::vector<Index>{1, 1},
                            {130, 300},
                            {256, 512},
                            {2, 129, 136},
                            {2, 3, 4, 50},
                            {1, 777},
                            {33, 1024},
                            {3, 65, 264},
                            {0, 5},
                            {5, 0},
                            {0, 3, 3}}) {
    for (const BlockExtents block :
         {kRowBlock, kColumnBlock, kSquareBlock, kWholeRow, kWholeTensor, BlockExtents{5, 33}}) {
      const std::vector<Index> scales_shape = shape_of_scales(shape, block);
      for (const F32ScaleRule& rule :
           {kTorchaoBlockwise, kTeBlockwise, kFlowBlockwise, kTorchaoRowwise}) {
        for (const Lie& lie : lies()) {
          Strided x(++seed % 2 == 0 ? Dtype::f32 : Dtype::bf16, shape, lie);
          fill(x, seed % 3 == 0 ? Fill::noise : Fill::edges, seed);
          Strided codes(kCodes[seed % 4], shape, lie);
          Strided scales(Dtype::f32, scales_shape, lie);
          ASSERT_TRUE(quantized(x, codes, scales, block, f32_rule(rule)))
              << lie.name << " " << name_of(block) << " " << describe(x.operand());
        }
      }
    }
  }
}

TEST_F(CudaQuantize, BlocksThatRestartAtGroupsAgree) {
  std::uint32_t seed = 800;
  for (const Index groups : {0, 1, 7, 400}) {
    for (const auto& shape : {std::vector<Index>{0, 7}, {777, 140}, {300, 256}}) {
      Strided x = filled(Dtype::bf16, shape, {"contiguous"}, Fill::edges, ++seed);
      const auto ends = random_ends(groups, shape[0], seed);
      Index blocks = 2;  // two rows of scales that no block has
      for (Index g = 0; g < groups; ++g) {
        const auto at = static_cast<std::size_t>(g);
        blocks += ceil_div(ends[at] - (g > 0 ? ends[at - 1] : 0), kScaledBlock);
      }
      Strided ends_there = integers(ends);
      Strided codes(Dtype::e4m3, shape, {"contiguous"});
      Strided scales(Dtype::f32, {blocks, shape[1]}, {"contiguous"});
      ASSERT_TRUE(agrees(
          {&x, &ends_there}, {&codes, &scales},
          [&](auto& b, auto& in, auto& out) {
            quantize(b, {in[0], in[1], {out[0], out[1], kColumnBlock}, f32_rule(kFlowBlockwise)});
          }))
          << groups << " groups " << describe(x.operand());
    }
  }
}

TEST_F(CudaQuantize, ConversionsAgreeForEveryFormatAndStride) {
  std::uint32_t seed = 900;
  for (const auto& shape : {std::vector<Index>{0}, {1}, {8192}, {33, 77}, {3, 5, 16}}) {
    for (const Lie& lie : lies()) {
      for (const Dtype wide : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        for (const Dtype format :
             {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz, Dtype::e8m0}) {
          Strided x = filled(wide, shape, lie, Fill::anything, ++seed);
          Strided codes(format, shape, lie);
          const auto overflow = seed % 2 == 0 ? Overflow::saturate : Overflow::nonfinite;
          const auto sign = seed % 3 == 0 ? NanSign::of_operand : NanSign::positive;
          ASSERT_TRUE(agrees(
              {&x}, {&codes},
              [&](auto& b, auto& in, auto& out) {
                encode(b, {in[0], out[0], overflow, sign, static_cast<E8M0Rounding>(seed % 3)});
              }))
              << lie.name << " " << name_of(format) << " " << describe(x.operand());
          Strided back(Dtype::f32, shape, lie);
          ASSERT_TRUE(agrees({&codes}, {&back},
                             [&](auto& b, auto& in, auto& out) {
                               decode(b, {in[0], out[0]});
                             }))
              << lie.name << " " << name_of(format);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test
