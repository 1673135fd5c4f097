// What the scales that a product shows lead to: which hypotheses, and which are left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/golden/shown_scales.h"

namespace mxo {
namespace {

using Names = std::vector<std::string>;

TEST(MeasuredScales, ThatNothingNamesAreOthers) {
  const Call call = bytes_call();
  const Call taken = shifted(call, "x.scales", [](Index i) {
    return i / 4 == 6 || i / 4 == 3 ? static_cast<int>(i * 5 % 7) - 9 : 0;
  });
  const std::vector<Hypothesis> list = shown(call, came_of(call, taken));
  const Hypothesis* other = find(list, "x.scales=other");
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->phrase,
            "the scales of x are not those that were given: by -9 to -3 steps in 8 of the 8 blocks "
            "that were measured");
  EXPECT_EQ(other->stage, Stage::input);
  EXPECT_EQ(other->only.rows, (std::vector<Index>{3, 6}));
  EXPECT_TRUE(other->only.columns.empty());
  EXPECT_FALSE(other->local);
  Call altered = call;
  ASSERT_TRUE(other->alter(altered));
  const Tensor& now = altered.input("x.scales");
  for (Index i = 0; i < 40; ++i) {
    EXPECT_EQ(now.as<std::uint8_t>()[i], taken.input("x.scales").as<std::uint8_t>()[i]) << i;
  }
}

TEST(MeasuredScales, OfNumbersAreNotNamedAlone) {
  const Call call = product_call({10}, 40, 4);
  const Call taken = edited<float>(call, "x.scales", [](float* s) {
    for (Index i = 0; i < 4; ++i) s[24 + i] *= 1.5f + static_cast<float>(i * i);
  });
  EXPECT_EQ(names(call, taken), Names{});
}

TEST(MeasuredScales, TakenFromElsewhereAreNamed) {
  const Call call = product_call({10}, 40, 4);
  const Call taken = edited<float>(call, "x.scales", [](float* s) {
    for (Index i = 0; i < 36; ++i) s[i] = s[i + 4];
  });
  EXPECT_EQ(names(call, taken).front(), "x.scales=source");
  const Call blocks = edited<float>(call, "x.scales", [](float* s) {
    for (Index i = 0; i < 40; i += 4) s[i + 3] = s[i];
  });
  const Names of_blocks = names(call, blocks);
  EXPECT_NE(std::find(of_blocks.begin(), of_blocks.end(), "x.scales=blocks"), of_blocks.end());
}

TEST(MeasuredScales, OfOneFactorAreNoMatterOfScales) {
  const Call call = bytes_call();
  EXPECT_EQ(names(call, shifted(call, "x.scales", [](Index) { return 2; })), Names{});
  EXPECT_EQ(names(call, shifted(call, "x.scales", [](Index i) { return i / 4 == 2; })), Names{});
}

TEST(MeasuredScales, OfLinesAreLookedForElsewhere) {
  // Each row has one factor of its own: other scales, but nothing that is said of the values.
  const Call call = bytes_call();
  const Names found =
      names(call, shifted(call, "x.scales", [](Index i) { return static_cast<int>(i / 4 % 3); }));
  EXPECT_EQ(std::count(found.begin(), found.end(), "x.scales=other"), 0);
  // Rows that count on by three bytes a block: one block on is a factor of each row.
  const Call rows = [] {
    Call c = product_call({10}, 40, 4);
    c.replace("x.scales", filled<std::uint8_t>(Dtype::e8m0, {10, 4},
                                               [](Index i) { return 90 + i / 4 * i / 4; }));
    return c;
  }();
  const Call later = edited<std::uint8_t>(rows, "x.scales", [](std::uint8_t* s) {
    for (Index i = 0; i < 36; ++i) s[i] = s[i + 4];
  });
  const Names elsewhere = names(rows, later);
  EXPECT_EQ(std::count(elsewhere.begin(), elsewhere.end(), "x.scales=source"), 1);
}

TEST(MeasuredScales, OfNoneAreOfTheDepthAlone) {
  Call call = product_call({10}, 40, 4);
  call.inputs.erase("x.scales");
  call.inputs.erase("w.scales");
  const Call missing = edited<std::uint8_t>(call, "x.codes", [](std::uint8_t* c) {
    for (Index i = 0; i < 1280; ++i) {
      if (i % 128 / 32 == 1) c[i] = 0;
    }
  });
  EXPECT_EQ(names(call, missing), Names{"k.missing"});
}

TEST(MeasuredScales, SayOnceWhatBothSidesShow) {
  const Call call = product_call({40}, 40, 4);
  const Call missing = edited<std::uint8_t>(call, "x.codes", [](std::uint8_t* c) {
    for (Index i = 0; i < 5120; ++i) {
      if (i % 128 / 32 == 1) c[i] = 0;
    }
  });
  const auto times = [](const Call& given, const Call& taken) {
    const std::vector<Hypothesis> list = shown(given, came_of(given, taken));
    return std::count_if(list.begin(), list.end(), [](const Hypothesis& h) {
      return h.phrase == "the products of k = 32 to 63 are left out";
    });
  };
  // x says it of the block and w does not say it again.  A term misses its multiple by the root of
  // what is missing, a quarter, times the depth over the number of sums: 0.14 of 1600 sums, and
  // what is off by less than 0.25 is said of the terms, too.
  EXPECT_EQ(times(call, missing), 2);
  // A line of four blocks takes eight sums: rows of six say nothing, and lines of w say it.  A
  // term misses its multiple by 0.37: nothing is said of terms.
  const Call narrow = product_call({40}, 6, 4);
  const Call of_w = edited<std::uint8_t>(narrow, "w.codes", [](std::uint8_t* c) {
    for (Index i = 0; i < 768; ++i) {
      if (i % 128 / 32 == 1) c[i] = 0;
    }
  });
  EXPECT_EQ(times(narrow, of_w), 1);
}

TEST(MeasuredScales, AreOfTheProductThatFails) {
  const Call call = bytes_call();
  const Call taken = shifted(
      call, "x.scales", [](Index i) { return i / 4 == 6 ? static_cast<int>(i * 5 % 7) - 9 : 0; });
  const Came came = came_of(call, taken);
  EXPECT_FALSE(shown(call, came).empty());
  Call other = call;
  other.op = "quantize";
  EXPECT_TRUE(shown(other, came).empty());
  const Came named(multiplied(call), multiplied(taken), call, "z");
  EXPECT_TRUE(shown(call, named).empty());
  Came settled = came_of(call, taken);
  settled.output.left = 0;
  EXPECT_TRUE(shown(call, settled).empty());
}

}  // namespace
}  // namespace mxo
