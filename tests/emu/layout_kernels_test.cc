// Transposition and tiles of scales by every table of this machine, against single elements.
#include "emu/cpu/layout_kernels.h"

#include <gtest/gtest.h>

#include "formats/scale_layout.h"

namespace mxo {
namespace {

using cpu::Isa;
using cpu::LayoutKernels;
using cpu::Stores;

class LayoutTables : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!cpu::machine_has(GetParam())) {
      GTEST_SKIP() << "this machine has no " << name_of(GetParam());
    }
  }
  static const LayoutKernels& kernels() { return cpu::layout_kernels(GetParam()); }
};

template <typename Number>
std::vector<Number> numbers(Index count) {
  std::vector<Number> all(static_cast<std::size_t>(count));
  std::uint32_t state = 7;
  for (Number& x : all) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<Number>(state >> 13);
  }
  return all;
}

/// A matrix of numbers that begins `shift` numbers behind a cache line.
template <typename Number>
struct Plane {
  std::vector<Number> memory;
  Number* data;
  Index step;
  Plane(Index rows, Index columns, Index gap, Index shift)
      : memory(numbers<Number>(rows * (columns + gap) + 64 + shift)), step(columns + gap) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
    data = memory.data() + (64 - at % 64) % 64 / sizeof(Number) + shift;
  }
};

template <typename Number, typename Transpose>
void expect_transposed(Transpose transpose, Index rows, Index columns, Index gap, Index shift,
                       Stores stores) {
  const Plane<Number> from(rows, columns, gap, shift);
  const Index lines = 64 - rows % 64 + gap;
  Plane<Number> to(columns, rows, shift == 0 ? lines : gap, shift);
  std::vector<Number> want = to.memory;
  Number* first = want.data() + (to.data - to.memory.data());
  for (Index r = 0; r < rows; ++r) {
    for (Index k = 0; k < columns; ++k) first[k * to.step + r] = from.data[r * from.step + k];
  }
  transpose(from.data, from.step, to.data, to.step, rows, columns, stores);
  EXPECT_TRUE(to.memory == want) << rows << " x " << columns << ", " << sizeof(Number)
                                 << " bytes, gap " << gap << ", shift " << shift;
}

TEST_P(LayoutTables, TransposePlanesOfAnyShapeAndLeaveTheGaps) {
  constexpr Index kExtents[] = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 80, 128, 150};
  for (const Index rows : kExtents) {
    for (const Index columns : kExtents) {
      for (const Stores stores : {Stores::cached, Stores::streamed}) {
        for (const Index shift : {0, 3}) {
          const Index gap = shift == 0 ? 0 : 5;
          expect_transposed<std::uint8_t>(kernels().transpose_bytes, rows, columns, gap, shift,
                                          stores);
          expect_transposed<std::uint16_t>(kernels().transpose_words, rows, columns, gap, shift,
                                           stores);
        }
      }
    }
  }
}

TEST_P(LayoutTables, SwizzleWholeTilesAndBack) {
  for (const Index columns : {16, 32, 80}) {
    for (const Index gap : {0, 3}) {
      const Plane<std::uint8_t> scales(kTileRows, columns, gap, 1);
      std::vector<std::uint8_t> tiles(static_cast<std::size_t>(kTileRows * columns) + 1, 0xCC);
      std::vector<std::uint8_t> want = tiles;
      for (Index r = 0; r < kTileRows; ++r) {
        for (Index c = 0; c < columns; ++c) {
          const Index at = blocked_offset(r, c, columns / kTileColumns);
          want[static_cast<std::size_t>(at)] = scales.data[r * scales.step + c];
        }
      }
      kernels().swizzle(scales.data, scales.step, columns, tiles.data());
      EXPECT_TRUE(tiles == want) << columns << " columns, gap " << gap;

      Plane<std::uint8_t> back = scales;
      back.data = back.memory.data() + (scales.data - scales.memory.data());
      for (Index r = 0; r < kTileRows; ++r) {
        for (Index c = 0; c < columns; ++c) back.data[r * back.step + c] ^= 0xFF;
      }
      kernels().unswizzle(tiles.data(), columns, back.data, back.step);
      EXPECT_TRUE(back.memory == scales.memory) << columns << " columns, gap " << gap;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LayoutTables, testing::ValuesIn(cpu::all_isas()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mxo
