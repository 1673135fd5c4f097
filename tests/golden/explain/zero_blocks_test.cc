// Blocks of zeros with codes or scales of their own, and what they are said to come from.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "golden/explain/find/product/blocks.h"
#include "golden/explain/recover/degenerate_scales.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

constexpr std::uint8_t kNaN = 0x7F;

/// x [6, 64] in blocks of 32 under f32 scales of amax / 448, all of which is right at first.
struct Zeros {
  Call call{"quantize", {}, {}};
  Tensor codes{Dtype::e4m3, {6, 64}};
  Tensor scales{Dtype::f32, {6, 2}};
  Tensor came_codes = codes;
  Tensor came_scales = scales;
  std::set<Index> zeros;
  Index left_codes = 0;
  Index left_scales = 0;

  explicit Zeros(std::set<Index> of_blocks) : zeros(std::move(of_blocks)) {
    Tensor x(Dtype::f32, {6, 64});
    for (Index i = 0; i < x.elements(); ++i) {
      x.as<float>()[i] = is_zero(i) ? 0.0f : static_cast<float>(i / 32 + 3);
      codes.as<std::uint8_t>()[i] = is_zero(i) ? 0 : kNaN - 1;
    }
    call.replace("x", x);
    for (Index s = 0; s < 12; ++s) {
      scales.as<float>()[s] =
          zeros.count(s) > 0 ? 1e-10f / 448.0f : static_cast<float>(s + 3) / 448.0f;
    }
    came_codes = codes;
    came_scales = scales;
  }
  bool is_zero(Index i) const { return zeros.count(i / 32) > 0; }
  Zeros& nan_codes() {
    for (Index i = 0; i < codes.elements(); ++i) {
      if (is_zero(i)) came_codes.as<std::uint8_t>()[i] = kNaN;
    }
    return *this;
  }
  Zeros& scale(float s) {
    for (const Index i : zeros) came_scales.as<float>()[i] = s;
    return *this;
  }
  Zeros& code(Index i, std::uint8_t c) {
    came_codes.as<std::uint8_t>()[i] = c;
    return *this;
  }
  Zeros& other_scale(Index i, float s) {
    came_scales.as<float>()[i] = s;
    return *this;
  }
  std::vector<Claim> claims() {
    std::vector<Output> outputs{make_output(call, "codes", codes, came_codes),
                                make_output(call, "scales", scales, came_scales)};
    std::vector<Claim> found = recover_zero_blocks(call, outputs);
    left_codes = outputs[0].left;
    left_scales = outputs[1].left;
    return found;
  }
  std::string words() {
    const std::vector<Claim> found = claims();
    if (found.empty()) return "none";
    EXPECT_EQ(found.size(), 1u);
    constexpr std::string_view kSubject = "blocks of x that are all zero, and no others, have ";
    EXPECT_TRUE(found[0].sentence.starts_with(kSubject));
    return found[0].id + ": " + found[0].sentence.substr(kSubject.size()) + " (" +
           found[0].where.tensor + ", " + std::to_string(static_cast<int>(found[0].elements)) + ")";
  }
};

constexpr float kNaNScale = std::numeric_limits<float>::quiet_NaN();

TEST(ZeroBlocks, OfNaNCodesAreDividedByZero) {
  Zeros z({1, 4});
  EXPECT_EQ(z.nan_codes().words(),
            "zero_blocks.nan: codes that are NaN: 0 / 0, an amax of zero that has no floor (codes, "
            "64)");
  EXPECT_EQ(z.left_codes, 0);
  EXPECT_EQ(Zeros({0, 11}).nan_codes().words().substr(0, 35),
            "zero_blocks.nan: codes that are NaN");
}

TEST(ZeroBlocks, OfNaNScalesAreDividedByZero) {
  Zeros z({1, 4});
  EXPECT_EQ(z.scale(kNaNScale).words(),
            "zero_blocks.nan: a scale of NaN rather than 2.23214283e-13: 0 / 0, an amax of zero "
            "that has no floor (scales, 2)");
  EXPECT_EQ(z.left_scales, 0);
}

TEST(ZeroBlocks, OfBothAreSaidTogether) {
  Zeros z({1, 4});
  EXPECT_EQ(z.nan_codes().scale(kNaNScale).words(),
            "zero_blocks.nan: codes that are NaN and a scale of NaN rather than 2.23214283e-13: "
            "0 / 0, an amax of zero that has no floor (scales, codes, 66)");
  EXPECT_EQ(z.left_codes + z.left_scales, 0);
  EXPECT_EQ(Zeros({1, 4}).nan_codes().scale(0.0f).words(),
            "zero_blocks.nan: codes that are NaN and a scale of 0 rather than 2.23214283e-13: 0 / "
            "0, an amax of zero that has no floor (scales, codes, 66)");
}

TEST(ZeroBlocks, ThatAreTheFirstAreSaidAsOthers) {
  const std::string divided = ": 0 / 0, an amax of zero that has no floor (";
  const std::string scale = " rather than 2.23214283e-13" + divided;
  const auto nan = [] {
    Zeros z({0, 5});
    return z.nan_codes();
  };
  EXPECT_EQ(nan().words(), "zero_blocks.nan: codes that are NaN" + divided + "codes, 64)");
  EXPECT_EQ(nan().scale(0.0f).words(),
            "zero_blocks.nan: codes that are NaN and a scale of 0" + scale + "scales, codes, 66)");
  EXPECT_EQ(
      nan().scale(kNaNScale).words(),
      "zero_blocks.nan: codes that are NaN and a scale of NaN" + scale + "scales, codes, 66)");
  EXPECT_EQ(Zeros({0, 5}).scale(kNaNScale).words(),
            "zero_blocks.nan: a scale of NaN" + scale + "scales, 2)");
}

TEST(ZeroBlocks, WithAScaleNameTheRule) {
  constexpr float kFloor = 1e-4f / 448.0f;
  Zeros z({1, 4});
  const auto blocks = blocks_of(z.call, make_output(z.call, "codes", z.codes, z.codes), z.scales);
  ASSERT_TRUE(blocks);
  z.scale(kFloor);
  const auto rule = rule_of(amax_of(*blocks), z.came_scales, Dtype::e4m3);
  ASSERT_TRUE(rule);
  ASSERT_NE(rule->stacks, "");
  EXPECT_EQ(z.words(), "zero_blocks.scale: a scale of 2.23214286e-07 rather than 2.23214283e-13" +
                           rule->stacks + " (scales, 2)");
  EXPECT_EQ(Zeros({1, 4}).scale(std::numeric_limits<float>::infinity()).words(),
            "zero_blocks.scale: a scale of infinity rather than 2.23214283e-13 (scales, 2)");
  EXPECT_EQ(Zeros({1, 4}).scale(1.0f).words().substr(0, 32), "zero_blocks.scale: a scale of 1 ");
  EXPECT_EQ(Zeros({0, 11}).scale(1.0f).words().substr(0, 32), "zero_blocks.scale: a scale of 1 ");
}

TEST(ZeroBlocks, AreAloneInWhatIsWrong) {
  EXPECT_EQ(Zeros({1, 4}).words(), "none");
  EXPECT_EQ(Zeros({1, 4}).scale(1.0f).other_scale(2, 9.0f).words(), "none");
  EXPECT_EQ(Zeros({1, 4}).scale(1.0f).other_scale(0, 9.0f).words(), "none");
  EXPECT_EQ(Zeros({1, 4}).scale(1.0f).other_scale(4, 2.0f).words(), "none") << "two scales";
  EXPECT_EQ(Zeros({0, 4}).scale(1.0f).other_scale(4, 2.0f).words(), "none");
  EXPECT_EQ(Zeros({1, 4}).scale(kNaNScale).other_scale(4, 1.0f).words(), "none");
  EXPECT_EQ(Zeros({1, 4}).scale(1.0f).other_scale(4, kNaNScale).words(), "none");
  EXPECT_EQ(Zeros({1, 4}).nan_codes().code(32, 0).words(), "none") << "one is zero";
  EXPECT_EQ(Zeros({1, 4}).nan_codes().code(32, 1).words(), "none");
  EXPECT_EQ(Zeros({1, 4}).nan_codes().code(0, kNaN).words(), "none") << "of another block";
  EXPECT_EQ(Zeros({0, 4}).nan_codes().code(0, 0).words(), "none");
}

TEST(ZeroBlocks, LeaveOtherCodesToOthers) {
  Zeros z({1, 4});
  z.nan_codes().code(0, 0x31);
  EXPECT_NE(z.words(), "none");
  EXPECT_EQ(z.left_codes, 1);
  Zeros both({1, 4});
  both.nan_codes().other_scale(3, 9.0f);
  EXPECT_NE(both.words(), "none");
  EXPECT_EQ(both.left_scales, 1);
}

TEST(ZeroBlocks, OfWholeRowsMayBePadding) {
  const auto padded = [](std::set<Index> zeros) {
    const std::string words = Zeros(std::move(zeros)).nan_codes().words();
    EXPECT_NE(words, "none");
    return words.find(", or rows that were never written (") != std::string::npos;
  };
  EXPECT_TRUE(padded({10, 11}));
  EXPECT_TRUE(padded({8, 9, 10, 11}));
  EXPECT_TRUE(padded({0, 1}));
  EXPECT_FALSE(padded({8, 10}));
  EXPECT_FALSE(padded({9, 10, 11}));
  EXPECT_FALSE(padded({0, 1, 10, 11})) << "in two places";
}

TEST(ZeroBlocks, NeedEightOfNumbers) {
  EXPECT_NE(Zeros({1, 2, 4, 5}).nan_codes().words(), "none");
  EXPECT_EQ(Zeros({1, 2, 4, 5, 7}).nan_codes().words(), "none");
  EXPECT_EQ(Zeros({}).code(3, kNaN).words(), "none");
}

TEST(ZeroBlocks, AreOfQuantisedCodes) {
  Zeros z({1, 4});
  z.nan_codes();
  std::vector<Output> outputs{make_output(z.call, "codes", z.codes, z.came_codes)};
  EXPECT_TRUE(recover_zero_blocks(z.call, outputs).empty()) << "no scales";
  outputs = {make_output(z.call, "scales", z.scales, z.scales)};
  EXPECT_TRUE(recover_zero_blocks(z.call, outputs).empty()) << "no codes";
  z.call.set.set("format", "bf16");
  EXPECT_TRUE(z.claims().empty());
  z.call.set.set("format", "e5m2");
  EXPECT_FALSE(z.claims().empty()) << "0x7F is NaN there, too";
  z.scales = z.came_scales = Tensor(Dtype::f32, {5, 3});
  EXPECT_TRUE(z.claims().empty()) << "no blocks are known";
}

TEST(ZeroBlocks, LeaveRowsOfNoGroupAlone) {
  // Two groups of three rows, a scale for each column of each, and two rows of no group.
  Call call{"quantize", {}, {}};
  Tensor x(Dtype::f32, {8, 5});
  Tensor codes(Dtype::e4m3, {8, 5});
  const auto zero = [](Index i) { return i % 5 == 1 && i < 15; };
  for (Index i = 0; i < 40; ++i) x.as<float>()[i] = zero(i) || i >= 30 ? 0.0f : 1.0f;
  call.replace("x", x);
  call.replace("group_ends",
               filled<std::int32_t>(Dtype::i32, {2}, [](Index g) { return 3 * g + 3; }));
  Tensor came = codes;
  for (Index i = 0; i < 40; ++i) {
    if (zero(i)) came.as<std::uint8_t>()[i] = kNaN;
  }
  const Tensor scales(Dtype::f32, {2, 5});
  std::vector<Output> outputs{make_output(call, "codes", codes, came),
                              make_output(call, "scales", scales, scales)};
  const std::vector<Claim> claims = recover_zero_blocks(call, outputs);
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 3.0);
  EXPECT_EQ(claims[0].sentence,
            "blocks of x that are all zero, and no others, have codes that are NaN: 0 / 0, an amax "
            "of zero that has no floor");
}

/// A scale for each column of each group of x [8, 10]: what is said where the codes of those
/// blocks that are zero came as NaN.
std::string of_columns(const std::vector<Index>& ends,
                       const std::function<bool(Index row, Index column)>& zero) {
  Call call{"quantize", {}, {}};
  const auto x =
      filled<float>(Dtype::f32, {8, 10}, [&](Index i) { return zero(i / 10, i % 10) ? 0 : 1; });
  const Tensor codes(Dtype::e4m3, {8, 10});
  call.replace("x", x);
  const auto groups = static_cast<Index>(ends.size());
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {groups}, [&](Index g) {
                 return ends[static_cast<std::size_t>(g)];
               }));
  const auto came = filled<std::uint8_t>(Dtype::e4m3, {8, 10},
                                         [&](Index i) { return zero(i / 10, i % 10) ? kNaN : 0; });
  const Tensor scales(Dtype::f32, {groups, 10});
  std::vector<Output> outputs{make_output(call, "codes", codes, came),
                              make_output(call, "scales", scales, scales)};
  const std::vector<Claim> claims = recover_zero_blocks(call, outputs);
  return claims.empty() ? "none" : claims[0].sentence;
}

TEST(ZeroBlocks, OfColumnsAreOfEveryRow) {
  const std::string words =
      "blocks of x that are all zero, and no others, have codes that are NaN: 0 / 0, an amax of "
      "zero that has no floor";
  EXPECT_EQ(of_columns({1, 8}, [](Index r, Index c) { return r == 0 && c == 0; }), words);
  EXPECT_EQ(of_columns({1, 8}, [](Index r, Index c) { return r > 0 && c == 9; }), words);
  EXPECT_EQ(of_columns({3, 8}, [](Index r, Index c) { return r < 3 && c > 0; }), words);
  EXPECT_EQ(of_columns({3, 8}, [](Index r, Index c) { return r < 3 && c < 9; }), words);
  EXPECT_EQ(of_columns({3, 8}, [](Index r, Index) { return r < 3; }),
            words + ", or rows that were never written");
}

}  // namespace
}  // namespace mxo
