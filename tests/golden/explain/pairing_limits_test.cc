// Which blocks are told to have met others, by how much of an output.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/golden/met_blocks.h"

namespace mxo {
namespace {

TEST(PairingLimits, IsNotSoughtWhereLinesFit) {
  const Call call = forward();
  const Tensor actual = met_so(call, {0, 2, 1, 3});
  EXPECT_EQ(found(call, actual, 0.0029).size(), 0u);
  EXPECT_EQ(found(call, actual, 0.003).size(), 4u);
}

TEST(PairingLimits, ThatIsRightOrNoneIsNotTold) {
  const Call call = forward();
  EXPECT_EQ(found(call, met_so(call, {0, -1, 2, 3})).size(), 0u) << "nothing moved";
  EXPECT_EQ(found(call, Tensor(Dtype::f32, {9, 40})).size(), 0u);
  Tensor odd = met_so(call, {0, 2, 1, 3});
  for (Index i = 0; i < odd.elements(); ++i) odd.as<float>()[i] += static_cast<float>(i % 11) - 5;
  EXPECT_EQ(found(call, odd).size(), 0u);
  const Call one = forward(32);
  EXPECT_EQ(found(one, Tensor(Dtype::f32, {9, 40})).size(), 0u);
}

TEST(PairingLimits, IsOfRowsWhoseHalfDiffers) {
  const Call call = forward_call({4}, 40, 128);
  const Tensor right = sums_of(*product_of(call));
  const auto of_rows = [&](Index rows) {
    Tensor y = met_so(call, {0, 2, 1, 3});
    std::copy(right.as<float>() + rows * 40, right.as<float>() + 160, y.as<float>() + rows * 40);
    return found(call, y).size();
  };
  EXPECT_EQ(of_rows(1), 0u);
  EXPECT_EQ(of_rows(2), 4u);
}

TEST(PairingLimits, IsOfTheGroupWithMostRowsThatFail) {
  const Call call = forward_call({6, 10}, 40, 128);
  // Group 1 fails otherwise, in fewer rows.
  Tensor y = met_so(call, {0, 2, 1, 3}, 0);
  for (Index i = 240; i < 400; ++i) y.as<float>()[i] += static_cast<float>(i % 7) - 3;
  EXPECT_EQ(found(call, y).size(), 4u);
  Tensor other = met_so(call, {0, 2, 1, 3}, 1);
  for (Index i = 0; i < 240; ++i) other.as<float>()[i] += static_cast<float>(i % 7) - 3;
  EXPECT_EQ(found(call, other).size(), 0u);
}

TEST(PairingLimits, LeavesOutRowsWithoutANumber) {
  const Call call = forward_call({4}, 40, 128);
  for (const float odd :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Tensor y = met_so(call, {0, 2, 1, 3});
    y.as<float>()[7] = odd;
    EXPECT_EQ(found(call, y).size(), 4u);
    for (Index r = 0; r < 4; ++r) y.as<float>()[r * 40 + 7] = odd;
    EXPECT_EQ(found(call, y).size(), 0u);
  }
}

TEST(PairingLimits, CountsLoudRowsAndColumnsAsOthers) {
  Call call = forward_call({6}, 40, 128);
  Tensor scales = call.input("x.scales");
  for (Index s = 0; s < 4; ++s) scales.as<std::uint8_t>()[s] = 160;
  call.replace("x.scales", std::move(scales));
  Tensor of_w = call.input("w.scales");
  for (Index s = 0; s < 4; ++s) of_w.as<std::uint8_t>()[s] = 160;
  call.replace("w.scales", std::move(of_w));
  EXPECT_EQ(words(found(call, met_so(call, {0, 2, 1, 3}))), of_both(kExchanged));
}

TEST(PairingLimits, IsFoundWhereARowHasZeros) {
  Call call = forward_call({6}, 40, 128);
  Tensor codes = call.input("x.codes");
  std::fill_n(codes.as<std::uint8_t>() + 2 * 128 + 64, 32, std::uint8_t{0});
  call.replace("x.codes", std::move(codes));
  EXPECT_EQ(words(found(call, met_so(call, {0, 2, 1, 3}))), of_both(kExchanged));
}

TEST(PairingLimits, HasToGiveEveryColumn) {
  const Call call = forward_call({6}, 40, 128);
  for (const Index column : {0, 17, 39}) {
    Tensor y = met_so(call, {0, 2, 1, 3});
    for (Index r = 0; r < 6; ++r) y.as<float>()[r * 40 + column] += static_cast<float>(40 + r);
    EXPECT_EQ(found(call, y).size(), 0u) << column;
  }
}

TEST(PairingLimits, IsWhatLeavesThreeThousandths) {
  const Call call = forward_call({6}, 40, 128);
  const auto size = [&](float off) {
    Tensor y = met_so(call, {0, 2, 1, 3});
    for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= i % 3 == 0 ? 1 + off : 1 - off;
    return found(call, y).size();
  };
  EXPECT_EQ(size(0.001f), 4u);
  EXPECT_EQ(size(0.01f), 0u);
}

TEST(PairingLimits, IsFoundWhateverTheFactor) {
  const Call call = forward_call({6}, 40, 128);
  Tensor y = met_so(call, {0, 2, 1, 3});
  for (Index i = 0; i < y.elements(); ++i) y.as<float>()[i] *= -3.0f;
  EXPECT_EQ(words(found(call, y)), of_both(kExchanged));
}

/// `operand` of a call of rows of 128 with codes of zero in block `block` of the lines that `in`.
template <typename In>
Call without_block(Call call, const std::string& operand, Index block, const In& in) {
  Tensor codes = call.input(operand);
  for (Index i = 0; i < codes.elements(); ++i) {
    if (in(i / 128) && i % 128 / 32 == block) codes.as<std::uint8_t>()[i] = 0;
  }
  call.replace(operand, std::move(codes));
  return call;
}

TEST(PairingLimits, IsFoundByOneRow) {
  for (const Index row : {0, 5}) {
    const Call call = without_block(forward_call({6}, 40, 128), "x.codes", 2,
                                    [row](Index r) { return r != row; });
    EXPECT_EQ(words(found(call, met_so(call, {0, 2, 1, 3}))), of_both(kExchanged)) << row;
  }
}

TEST(PairingLimits, IsFoundByTwoColumns) {
  for (const Index column : {0, 38}) {
    const Call call = without_block(forward_call({6}, 40, 128), "w.codes", 1,
                                    [column](Index c) { return c != column && c != column + 1; });
    EXPECT_EQ(words(found(call, met_so(call, {0, 2, 1, 3}))), of_both(kExchanged)) << column;
  }
}

TEST(PairingLimits, IsFoundWhereAColumnIsZero) {
  Call call = forward_call({6}, 40, 128);
  Tensor codes = call.input("w.codes");
  std::fill_n(codes.as<std::uint8_t>() + 7 * 128, 128, std::uint8_t{0});
  call.replace("w.codes", std::move(codes));
  EXPECT_EQ(words(found(call, met_so(call, {0, 2, 1, 3}))), of_both(kExchanged));
}

TEST(PairingLimits, IsOfRowsOfWhichMoreThanHalfDiffers) {
  const auto size = [](Index columns) {
    Call call = forward_call({6}, 40, 128);
    for (const Index block : {1, 2}) {
      call = without_block(call, "w.codes", block, [&](Index c) { return c >= columns; });
    }
    return found(call, met_so(call, {0, 2, 1, 3})).size();
  };
  EXPECT_EQ(size(20), 0u);
  EXPECT_EQ(size(21), 4u);
}

TEST(PairingLimits, IsOfTheFirstOfEqualGroups) {
  const Call call = forward_call({6, 12}, 40, 128);
  for (const Index group : {0, 1}) {
    Tensor y = met_so(call, {0, 2, 1, 3}, group);
    for (Index i = 0; i < 240; ++i) {
      y.as<float>()[i + 240 * (1 - group)] += static_cast<float>(i % 7) - 3.5f;
    }
    EXPECT_EQ(found(call, y).size(), group == 0 ? 4u : 0u);
  }
}

TEST(PairingLimits, IsOfGroupsOfTwoBlocksAndMore) {
  for (const Index end : {0, 1, 32}) {
    const Call call = gradient_call({end, end + 96}, 6, 40);
    Tensor y = met_so(call, {1, 0, 2}, 1);
    for (Index i = 0; i < 240; ++i) y.as<float>()[i] = static_cast<float>(i % 7) - 3.5f;
    EXPECT_GE(found(call, y).size(), 2u) << end;
  }
}

TEST(PairingLimits, IsOfSixRowsSpreadOverTheGroup) {
  const Call call = forward_call({12}, 40, 128);
  for (const Index odd : {0, 1}) {
    Tensor y = met_so(call, {0, 2, 1, 3});
    for (Index i = 0; i < 480; ++i) {
      if (i / 40 % 2 == odd) y.as<float>()[i] += static_cast<float>(i % 7) - 3.5f;
    }
    EXPECT_EQ(found(call, y).size(), odd == 1 ? 4u : 0u) << "rows 0, 2, 4, ..";
  }
}

/// What is said where the first two blocks, of `block`, are exchanged, and all others are zero; a
/// scale for two of K.
std::string of_fine_scales(Index k, Index block) {
  Call call = forward_call({4}, 20, k);
  call.replace("x.scales", some_scales({4, k / 2}, 2));
  call.replace("w.scales", some_scales({1, 20, k / 2}, 4));
  for (const char* name : {"x.codes", "w.codes"}) {
    Tensor codes = call.input(name);
    for (Index i = 0; i < codes.elements(); ++i) {
      if (i % k >= 2 * block) codes.as<std::uint8_t>()[i] = 0;
    }
    call.replace(name, std::move(codes));
  }
  Met met = range_of((k + block - 1) / block);
  std::swap(met[0], met[1]);
  const auto list = found(call, met_so(call, met, -1, block));
  return list.empty() ? "none" : list[0].phrase.substr(0, list[0].phrase.find(','));
}

TEST(PairingLimits, HasAtMost64Blocks) {
  EXPECT_EQ(of_fine_scales(128, 2), "k = 2 to 3 of x meet k = 0 to 1 of w");
  EXPECT_EQ(of_fine_scales(130, 4), "k = 4 to 7 of x meet k = 0 to 3 of w");
}

}  // namespace
}  // namespace mxo
