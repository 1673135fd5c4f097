// encode and decode: every instruction set gives the reference's codes.
#include "ops/convert.h"

#include <gtest/gtest.h>

#include "formats/tensor.h"
#include "tests/support/contestants.h"
#include "tests/support/strided.h"

namespace mxo {
namespace {

using test::Fill;
using test::Lie;
using test::Strided;

constexpr Dtype kFormats[] = {Dtype::e4m3, Dtype::e4m3fnuz, Dtype::e5m2, Dtype::e5m2fnuz,
                              Dtype::e8m0};

std::vector<std::vector<std::byte>> encoded(Backend& backend, const Operand& x,
                                            const std::vector<Index>& shape, const Lie& lie) {
  std::vector<std::vector<std::byte>> all;
  for (const Dtype format : kFormats) {
    for (const Overflow overflow : {Overflow::saturate, Overflow::nonfinite}) {
      for (const NanSign nan : {NanSign::positive, NanSign::of_operand}) {
        Strided codes(format, shape, lie);
        const auto rounding = nan == NanSign::positive ? E8M0Rounding::up : E8M0Rounding::nearest;
        encode(backend, {x, codes.result(), overflow, nan, rounding});
        all.push_back(codes.bytes());
      }
    }
  }
  return all;
}

TEST(Convert, EveryBf16AndF16PatternGivesTheReferencesCodes) {
  Tensor x(Dtype::u16, {65536});
  for (Index i = 0; i < 65536; ++i) x.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i);
  const auto reference = make_reference_backend();
  for (const Dtype input : {Dtype::bf16, Dtype::f16}) {
    x.reinterpret_as(input);
    const auto want = encoded(*reference, x.operand(), {65536}, {"contiguous"});
    for (const auto& contestant : test::contestants()) {
      EXPECT_EQ(encoded(*contestant.make(), x.operand(), {65536}, {"contiguous"}), want)
          << contestant.name() << " " << name_of(input);
    }
  }
}

TEST(Convert, ANegativeNanOf16BitsKeepsItsSignIfAsked) {
  Tensor x(Dtype::bf16, {2});
  x.as<std::uint16_t>()[0] = 0xFFC0;
  x.as<std::uint16_t>()[1] = 0x7FC0;
  Tensor codes(Dtype::e4m3, {2});
  encode(*make_reference_backend(),
         {x.operand(), codes.result(), Overflow::saturate, NanSign::of_operand});
  EXPECT_EQ(codes.as<std::uint8_t>()[0], 0xFF);
  EXPECT_EQ(codes.as<std::uint8_t>()[1], 0x7F);
}

// Both sides of every rounding boundary: the 2^17 patterns around each change of the upper bits.
TEST(Convert, F32PatternsAroundEveryStepGiveTheReferencesCodes) {
  Tensor x(Dtype::f32, {1 << 18});
  auto* word = x.as<std::uint32_t>();
  for (std::uint32_t i = 0; i < 1u << 18; ++i) {
    word[i] = (i >> 2 << 16) + (i % 4 == 0 ? 0x7FFFu : i % 4 == 1 ? 0x8000u : i % 4 == 2 ? 1u : 0u);
  }
  const auto reference = make_reference_backend();
  const auto want = encoded(*reference, x.operand(), x.shape(), {"contiguous"});
  for (const auto& contestant : test::contestants()) {
    EXPECT_EQ(encoded(*contestant.make(), x.operand(), x.shape(), {"contiguous"}), want)
        << contestant.name();
  }
}

TEST(Convert, AnyStridesGiveTheReferencesCodesAndValues) {
  const auto reference = make_reference_backend();
  for (const std::vector<Index>& shape :
       {std::vector<Index>{0}, {1}, {5000}, {3, 0, 4}, {33, 65}, {2, 3, 17, 41}}) {
    for (const Lie& lie : test::lies()) {
      Strided x(Dtype::f32, shape, lie);
      fill(x, Fill::anything, 3);
      const auto want = encoded(*reference, x.operand(), shape, lie);
      for (const auto& contestant : test::contestants()) {
        EXPECT_EQ(encoded(*contestant.make(), x.operand(), shape, lie), want)
            << contestant.name() << " " << lie.name << " " << describe(x.operand());
      }
    }
  }
}

TEST(Convert, EveryCodeOfEveryFormatDecodesToTheReferencesBits) {
  Tensor codes(Dtype::u8, {256});
  for (Index i = 0; i < 256; ++i) codes.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  const auto decoded = [&](Backend& backend) {
    Strided x(Dtype::f32, {256}, {"every_third", 3, 1, 1});
    decode(backend, {codes.operand(), x.result()});
    return x.bytes();
  };
  const auto reference = make_reference_backend();
  for (const Dtype format : kFormats) {
    codes.reinterpret_as(format);
    for (const auto& contestant : test::contestants()) {
      EXPECT_EQ(decoded(*contestant.make()), decoded(*reference))
          << contestant.name() << " " << name_of(format);
    }
  }
}

}  // namespace
}  // namespace mxo
