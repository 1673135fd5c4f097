// Single elements: what a comparison reads of their bits.
#include "golden/judge/elements.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace mxo {
namespace {

struct Row {
  Dtype type;
  std::uint64_t bits;
  double value;
};

TEST(Elements, IntegersAreFiniteNumbersOfTheirRange) {
  for (const Row& row :
       {Row{Dtype::u8, 255, 255}, Row{Dtype::boolean, 1, 1}, Row{Dtype::i8, 0xFF, -1},
        Row{Dtype::u16, 0xFFFF, 65535}, Row{Dtype::i16, 0x8000, -32768},
        Row{Dtype::u32, 0xFFFFFFFF, 4294967295}, Row{Dtype::i32, 0xFFFFFFFE, -2},
        Row{Dtype::i64, ~0ull, -1}, Row{Dtype::u64, 1ull << 63, 0x1p63}, Row{Dtype::u64, 0, 0}}) {
    const Element element = ElementReader(row.type)(row.bits);
    EXPECT_EQ(element.value, row.value) << name_of(row.type);
    EXPECT_FALSE(element.nan) << name_of(row.type);
    EXPECT_FALSE(element.infinite) << name_of(row.type);
  }
}

TEST(Elements, NeighboursDifferByOneStep) {
  const auto steps = [](Dtype type, std::uint64_t below, std::uint64_t above) {
    const ElementReader read(type);
    EXPECT_LE(read(below).order, read(above).order) << name_of(type);
    return ulp_distance(read(below).order, read(above).order);
  };
  EXPECT_EQ(steps(Dtype::u64, (1ull << 63) - 1, 1ull << 63), 1u);
  EXPECT_EQ(steps(Dtype::u64, 0, 1), 1u);
  EXPECT_EQ(steps(Dtype::i64, ~0ull, 0), 1u);
  EXPECT_EQ(steps(Dtype::f64, 1ull << 63, 0), 0u);
  EXPECT_EQ(steps(Dtype::f64, (1ull << 63) + 1, 1), 2u);
  EXPECT_EQ(steps(Dtype::f32, 0x80000001, 0), 1u);
  EXPECT_EQ(steps(Dtype::bf16, 0x8001, 1), 2u);
  EXPECT_EQ(steps(Dtype::e4m3, 0x81, 0), 1u);
  EXPECT_EQ(steps(Dtype::e8m0, 127, 128), 1u);
}

TEST(Elements, InfinityAndNanAreMarked) {
  const ElementReader read(Dtype::f32);
  EXPECT_TRUE(read(0x7F800000).infinite);
  EXPECT_FALSE(read(0x7F800000).nan);
  EXPECT_TRUE(read(0x7FC00000).nan);
  EXPECT_FALSE(read(0x7F7FFFFF).infinite);
}

}  // namespace
}  // namespace mxo
