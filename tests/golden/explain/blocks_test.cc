// Blocks of x that share a scale, from shapes, groups and layouts, and what amax may be of.
#include "golden/explain/find/quantiser/quantiser_call.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/golden/tensors.h"

namespace mxo {
namespace {

/// One call of quantize, with codes of the shape of x.
struct Quantised {
  Call call{"quantize", {}, {}};
  Tensor codes;
  Tensor scales;
  Quantised(Tensor x, std::vector<Index> of_scales, const char* block = "1x32",
            Dtype type = Dtype::f32)
      : codes(Dtype::e4m3, x.shape()), scales(type, std::move(of_scales)) {
    call.replace("x", std::move(x));
    call.set.set("block", block);
  }
  std::optional<Blocks> blocks() const {
    return blocks_of(call, make_output(call, "codes", codes, codes), scales);
  }
};

Tensor counted(std::vector<Index> shape) {
  return filled<float>(Dtype::f32, std::move(shape),
                       [](Index i) { return static_cast<float>(i * 37 % 101 - 50) / 8.0f; });
}

TEST(Blocks, AreRunsOfARow) {
  const Quantised q(counted({2, 40}), {2, 2});
  const auto b = q.blocks();
  ASSERT_TRUE(b);
  EXPECT_EQ(b->block_columns, 32);
  EXPECT_EQ(b->scales, 4);
  EXPECT_EQ(b->scale_of(31), 0);
  EXPECT_EQ(b->scale_of(32), 1);
  EXPECT_EQ(b->scale_of(40), 2);
  EXPECT_EQ(b->scale_of(79), 3);
  for (const auto& [columns, scales, extent, block] :
       {std::tuple<Index, Index, Index, const char*>{256, 2, 128, "1x128"},
        {256, 8, 32, "1x32"},
        {64, 4, 16, "1x16"},
        {192, 3, 64, "1x64"},
        {512, 2, 256, "1x256"},
        {8, 8, 1, "32x1"},
        {700, 1, 700, "1xK"}}) {
    const auto of =
        Quantised(counted({3, columns}), {block[0] == '1' ? 3 : 1, scales}, block).blocks();
    ASSERT_TRUE(of) << columns;
    EXPECT_EQ(of->block_columns, extent) << columns;
  }
  EXPECT_FALSE(Quantised(counted({2, 40}), {2, 7}).blocks()) << "no extent has so many";
}

TEST(Blocks, BeginAnewAtEveryGroup) {
  Quantised q(counted({210, 4}), {3, 4}, "Rx1");
  q.call.replace("group_ends", ends_at({130, 130, 200}));
  auto b = q.blocks();
  ASSERT_TRUE(b) << "one for a group and column";
  EXPECT_EQ(b->scale_of(129 * 4), 0);
  EXPECT_EQ(b->scale_of(130 * 4 + 1), 9);
  EXPECT_EQ(b->scale_of(199 * 4), 8);
  EXPECT_EQ(b->scale_of(200 * 4), -1) << "of no group";
  q.call.set.set("block", "128x1");
  b = q.blocks();
  ASSERT_TRUE(b) << "runs of 128 rows";
  EXPECT_EQ(b->scale_of(127 * 4), 0);
  EXPECT_EQ(b->scale_of(128 * 4), 4);
  EXPECT_EQ(b->scale_of(130 * 4), 8);
  EXPECT_EQ(b->scale_of(200 * 4), -1);
  EXPECT_GT(amax_of(*b)[8], 0.0f);
}

/// The largest magnitude among the elements that `takes(row, place along the row)` lets in.
template <typename Takes>
float largest_where(const Blocks& b, const Takes& takes) {
  float most = 0.0f;
  for (Index i = 0; i < b.x->elements(); ++i) {
    if (takes(i / b.columns, i % b.columns)) most = std::max(most, std::fabs(b.value(i)));
  }
  return most;
}

/// The last of every block is the largest, and every row larger than those before.
Tensor rising(std::vector<Index> shape) {
  return filled<float>(Dtype::f32, std::move(shape), [](Index i) { return i + 1; });
}

class AmaxOf : public testing::TestWithParam<Tensor (*)(std::vector<Index>)> {};
INSTANTIATE_TEST_SUITE_P(Numbers, AmaxOf, testing::Values(counted, rising),
                         [](const auto& numbers) {
                           return numbers.index == 0 ? "counted" : "rising";
                         });

TEST_P(AmaxOf, MayBeAPartOfTheBlock) {
  const Quantised q(GetParam()({5, 72}), {5, 3});  // the last block of a row is short
  const Blocks b = *q.blocks();
  const std::vector<float> amax = amax_of(b);
  const auto windows = other_windows(b, amax);
  const auto expect = [&](const std::string& words, auto takes) {
    const auto w = std::find_if(windows.begin(), windows.end(),
                                [&](const AmaxWindow& a) { return a.words == words; });
    ASSERT_NE(w, windows.end()) << words;
    ASSERT_EQ(w->amax.size(), amax.size());
    for (Index s = 0; s < 15; ++s) {
      EXPECT_EQ(w->amax[static_cast<std::size_t>(s)],
                largest_where(b, [&](Index r, Index c) { return takes(s, r, c); }))
          << words << " " << s;
    }
  };
  const auto own = [](Index s, Index r, Index c) { return r == s / 3 && c / 32 == s % 3; };
  const auto part = [&](const std::string& words, auto of_place) {
    expect(words, [&](Index s, Index r, Index c) { return own(s, r, c) && of_place(c % 32); });
  };
  part("the first half of its block", [](Index at) { return at < 16; });
  part("the second half of its block", [](Index at) { return at >= 16; });
  part("every second element of its block", [](Index at) { return at % 2 == 0; });
  part("its block without the last element", [](Index at) { return at != 31; });
  part("its block without the first element", [](Index at) { return at != 0; });
  part("the first element of its block", [](Index at) { return at == 0; });
  const auto blocks = [&](const std::string& words, auto holds) {
    expect(words, [&](Index s, Index r, Index c) { return holds(s, r * 3 + c / 32); });
  };
  blocks("the block before", [](Index s, Index o) { return o == (s % 3 > 0 ? s - 1 : s); });
  blocks("the block after", [](Index s, Index o) { return o == (s % 3 < 2 ? s + 1 : s); });
  blocks("the same block of the row before",
         [](Index s, Index o) { return o == (s > 2 ? s - 3 : s); });
  blocks("the same block of the row after",
         [](Index s, Index o) { return o == (s < 12 ? s + 3 : s); });
  blocks("its block and, for every second one from 1, the one before",
         [](Index s, Index o) { return o == s || (s % 3 == 1 && o == s - 1); });
  blocks("its block and, for every second one from 0, the one after",
         [](Index s, Index o) { return o == s || (s % 3 == 0 && o == s + 1); });
  blocks("the whole row", [](Index s, Index o) { return o / 3 == s / 3; });
  blocks("its column in two neighbouring rows of blocks",
         [](Index s, Index o) { return o / 6 == s / 6 && o % 3 == s % 3; });
  blocks("its column in four neighbouring rows of blocks",
         [](Index s, Index o) { return o / 12 == s / 12 && o % 3 == s % 3; });
  blocks("its column in all rows of blocks", [](Index s, Index o) { return o % 3 == s % 3; });
  blocks("its block and all before it in the row, not begun anew",
         [](Index s, Index o) { return o / 3 == s / 3 && o <= s; });
  blocks("its block and all before it in the tensor, not begun anew",
         [](Index s, Index o) { return o <= s; });
  blocks("the whole tensor", [](Index, Index) { return true; });
  expect("its block, and of a short one as much before it as it is short of",
         [&](Index s, Index r, Index c) {
           return own(s, r, c) || (r == s / 3 && s % 3 == 2 && c >= 72 - 32);
         });
  EXPECT_EQ(windows.size(), 23u);
  for (Index s = 0; s < 15; ++s) {
    float most = 0.0f, least = 0.0f;
    for (Index i = 0; i < b.x->elements(); ++i) {
      if (!own(s, i / 72, i % 72)) continue;
      most = std::max(most, b.value(i));
      least = std::max(least, -b.value(i));
    }
    EXPECT_EQ(windows[0].amax[static_cast<std::size_t>(s)], most);
    EXPECT_EQ(windows[1].amax[static_cast<std::size_t>(s)], least);
  }
}

}  // namespace
}  // namespace mxo
