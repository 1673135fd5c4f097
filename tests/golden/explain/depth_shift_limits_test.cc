// Which shifts along the depth are told, by how many elements of the output.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/golden/depth_shifts.h"

namespace mxo {
namespace {

TEST(DepthShiftLimits, IsFoundUpToSixtyFour) {
  // Every line of w is what is read of x, or its negative: the sums are as large as they get.
  const auto size = [](Index by) {
    const auto one = [](Index) { return 127; };
    Call call = forward_call({1}, 12, 256);
    call.replace("x.scales", filled<std::uint8_t>(Dtype::u8, {1, 8}, one));
    call.replace("w.scales", filled<std::uint8_t>(Dtype::u8, {1, 12, 8}, one));
    const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), by, 2));
    const auto* read = wrong.input("x.codes").as<std::uint8_t>();
    const Tensor w = filled<std::uint8_t>(Dtype::u8, {1, 12, 256}, [&](Index i) {
      return read[i % 256] ^ (i / 256 % 2 == 0 ? 0x80 : 0);
    });
    return found(with(call, "w.codes", w), with(wrong, "w.codes", w)).size();
  };
  EXPECT_EQ(size(64), 8u) << "of x after its place, or of w before it";
  EXPECT_EQ(size(-64), 8u);
  EXPECT_EQ(size(65), 0u);
  EXPECT_EQ(size(-65), 0u);
}

TEST(DepthShiftLimits, NeedsTwelveElementsThatDiffer) {
  const Call call = forward_call({2}, 8, 256);
  const Tensor right = sums_of(*product_of(call));
  const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), 1, 0));
  const auto with_differing = [&](Index n) {
    return found(call, wrong, [&](float* y) {
      std::copy(right.as<float>() + n, right.as<float>() + 16, y + n);
    });
  };
  EXPECT_EQ(with_differing(11).size(), 0u);
  EXPECT_EQ(with_differing(12).size(), 4u);
}

TEST(DepthShiftLimits, IsOfElementsThatDifferAndAreNumbers) {
  const Call call = gradient_call({0, 160, 288}, 5, 6);
  const Tensor right = sums_of(*product_of(call));
  const Call wrong = with(call, "x.codes", rows_on(call.input("x.codes"), 1, 0, {0, 160, 288}));
  const auto list = found(call, wrong, [&](float* y) {
    std::fill_n(y, 30, 5.0f);  // of a group without rows
    y[31] = std::numeric_limits<float>::quiet_NaN();
    y[34] = std::numeric_limits<float>::infinity();
    std::copy(right.as<float>() + 60, right.as<float>() + 75, y + 60);
  });
  EXPECT_EQ(list.size(), 4u);
}

TEST(DepthShiftLimits, IsNotHeldAgainstGroupsWithoutRows) {
  const Call call = gradient_call({0, 160}, 5, 6);
  const auto list = found(call, call, [&](float* y) {
    std::fill_n(y, 30, 1e6f);
    for (Index i = 30; i < 60; ++i) y[i] = i % 2 == 0 ? 50.0f : -50.0f;
  });
  EXPECT_EQ(list.size(), 0u);
}

TEST(DepthShiftLimits, IsFoundInEverySecondColumn) {
  const Call call = forward_call({8}, 12, 256);
  const Tensor right = sums_of(*product_of(call));
  const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), 1, 0));
  for (const Index odd : {0, 1}) {
    const auto list = found(call, wrong, [&](float* y) {
      for (Index i = odd; i < 96; i += 2) y[i] = right.as<float>()[i];
    });
    EXPECT_EQ(list.size(), 4u) << odd;
  }
}

TEST(DepthShiftLimits, IsFoundWhereTheFirstCodeIsMost) {
  Call call = forward_call({2}, 12, 256);
  Tensor codes = call.input("x.codes");
  for (const Index row : {0, 1}) codes.as<std::uint8_t>()[row * 256] = 0x7E;
  call.replace("x.codes", codes);
  const auto list = found(call, with(call, "x.codes", columns_on(codes, -1, 2)));
  ASSERT_EQ(list.size(), 8u) << "w one after is nearly the same";
  EXPECT_EQ(list[0].name, "x.codes=depth_shifted");
  EXPECT_NE(list[0].phrase.find("read 1 element before"), std::string::npos);
}

TEST(DepthShiftLimits, IsToldBySixElementsAtLeast) {
  // Ones by ones are 31 and what is read beyond the end; by ones of either sign, 1 and that.
  const auto size = [](Index told) {
    Call call = forward_call({1}, 20, 32);
    call.replace("x.codes", filled<std::uint8_t>(Dtype::u8, {1, 32}, [](Index) { return 0x38; }));
    call.replace("w.codes", filled<std::uint8_t>(Dtype::u8, {1, 20, 32}, [&](Index i) {
                   return i / 32 >= told && i % 2 == 0 ? 0xB8 : 0x38;
                 }));
    return found(call, with(call, "x.codes", columns_on(call.input("x.codes"), 1, 2))).size();
  };
  EXPECT_EQ(size(5), 0u);
  EXPECT_EQ(size(6), 8u) << "one before, and one after";
}

TEST(DepthShiftLimits, OfSmallCodesIsFound) {
  Call given = forward_call({2, 4}, 12, 256);
  given.replace("x.scales", filled<std::uint8_t>(Dtype::u8, {4, 8}, [](Index) { return 110; }));
  const auto* codes = given.input("x.codes").as<std::uint8_t>();
  const Call call = with(given, "x.codes", filled<std::uint8_t>(Dtype::u8, {4, 256}, [&](Index i) {
                           return codes[i] - 0x28;  // by 32
                         }));
  const Tensor read = columns_on(call.input("x.codes"), 1, 0);
  EXPECT_EQ(found(call, with(call, "x.codes", read)).size(), 4u);
}

TEST(DepthShiftLimits, IsNotToldByZeros) {
  const Call call = with(
      forward_call({4}, 12, 96), "x.codes",
      filled<std::uint8_t>(Dtype::u8, {4, 96}, [](Index i) { return i % 96 == 5 ? 0x38 : 0; }));
  const Call of_w = with(call, "w.codes", filled<std::uint8_t>(Dtype::u8, {1, 12, 96}, [](Index i) {
                           return i % 96 == 5 ? 0x38 : 0;
                         }));
  EXPECT_EQ(found(of_w, of_w, [](float* y) { std::fill_n(y, 48, 0.0f); }).size(), 0u);
}

TEST(DepthShiftLimits, IsMeasuredByTheSizeOfSums) {
  Call call = forward_call({2}, 12, 256);
  call.replace("x.scales", filled<std::uint8_t>(Dtype::u8, {2, 8}, [](Index) { return 137; }));
  const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), 1, 0));
  const auto size = [&](float off) {
    return found(call, wrong, [off](float* y) { y[5] += off; }).size();
  };
  const Tensor sums = sums_of(*product_of(wrong));
  double square = 0.0;
  for (Index i = 0; i < 24; ++i) square += std::pow(double{sums.as<float>()[i]}, 2.0);
  const double rms = std::sqrt(square / 24.0);
  EXPECT_GT(rms, 1e4);
  EXPECT_EQ(size(static_cast<float>(0.001 * rms)), 4u);
  EXPECT_EQ(size(static_cast<float>(4.0 * rms)), 0u);
}

/// Of x [1, 256] read one on nine columns hold nothing, but for `first`, and seven large numbers.
std::vector<Hypothesis> after_nine(float first) {
  const auto codes = [](Index i) {
    return i == 100 ? 0x38 : i >= 160 && i < 192 ? 0x68 + i * 5 % 13 : 0;
  };
  Call call =
      with(forward_call({1}, 16, 256), "x.codes", filled<std::uint8_t>(Dtype::u8, {1, 256}, codes));
  call.replace("w.codes", filled<std::uint8_t>(Dtype::u8, {1, 16, 256}, [](Index i) {
                 const Index d = i % 256;
                 return (i / 256 < 9 ? d == 100 : d >= 168 && d < 192) ? 0x38 : 0;
               }));
  const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), 1, 2));
  return found(call, wrong, [first](float* y) { y[0] = first; });
}

TEST(DepthShiftLimits, IsHeldAgainstNineElementsFirst) {
  ASSERT_EQ(after_nine(0.0f).size(), 8u) << "of x after its place, or of w before it";
  EXPECT_NE(after_nine(0.0f)[0].phrase.find("read 1 element after"), std::string::npos);
  EXPECT_EQ(after_nine(0.7f).size(), 0u);
}

TEST(DepthShiftLimits, IsNotByNothing) {
  const Call call = forward_call({4}, 12, 256);
  const auto list = found(call, call, [](float* y) {
    for (Index i = 0; i < 48; ++i) y[i] *= 1.00001f;
  });
  EXPECT_EQ(list.size(), 0u);
}

TEST(DepthShiftLimits, HasToGiveEveryElement) {
  const Call call = forward_call({2}, 12, 256);
  const Call wrong = with(call, "x.codes", columns_on(call.input("x.codes"), 1, 0));
  for (const Index at : {0, 5, 23}) {
    EXPECT_EQ(found(call, wrong, [at](float* y) { y[at] += 1000.0f; }).size(), 0u) << at;
  }
}

TEST(DepthShiftLimits, IsNotToldWhereMostIsReadBeyond) {
  // Of 96 elements any shift by many fits: what is read beyond the end is not known.
  const Call call = forward_call({4}, 12, 96);
  EXPECT_EQ(found(call, call,
                  [](float* y) {
                    for (Index i = 0; i < 48; ++i) y[i] = static_cast<float>(i % 7 - 3);
                  })
                .size(),
            0u);
  EXPECT_EQ(found(call, call, [](float* y) { std::fill_n(y, 48, 0.0f); }).size(), 0u);
}

TEST(DepthShiftLimits, IsToldOfTwoDistancesAtMost) {
  // Codes that come again every four: one on is three back, and five on.
  Call call = forward_call({3}, 8, 512);
  const Tensor given = call.input("x.codes");
  call.replace("x.codes", filled<std::uint8_t>(Dtype::u8, {3, 512}, [&](Index i) {
                 return given.as<std::uint8_t>()[i / 512 * 512 + i % 4];
               }));
  const auto list = found(call, with(call, "x.codes", columns_on(call.input("x.codes"), 1, 3)));
  ASSERT_EQ(list.size(), 8u);
  EXPECT_NE(list[0].phrase.find("read 1 element after"), std::string::npos);
  EXPECT_NE(list[4].phrase.find("read 3 elements before"), std::string::npos);
}

}  // namespace
}  // namespace mxo
