// Blocks along the depth that are left out or added twice, from what lines measured.
#include <gtest/gtest.h>

#include "golden/explain/recover/scales.h"
#include "tests/golden/small_products.h"

namespace mxo {
namespace {

/// A line that measured these multiples of its blocks, all as surely.
Effective line(std::vector<double> ratio, double sigma = 0.01, Index group = 0) {
  Effective e;
  e.group = group;
  e.sigma.assign(ratio.size(), sigma);
  e.ratio = std::move(ratio);
  return e;
}

using Lines = std::vector<Effective>;

std::vector<Hypothesis> found(const Call& call, const Lines& lines) {
  std::vector<Hypothesis> list;
  add_measured_depth(*product_of(call), lines, list);
  return list;
}

std::string phrases(const Call& call, const Lines& lines) {
  std::string text;
  for (const Hypothesis& h : found(call, lines)) {
    text += h.name + ": " + h.phrase + "\n";
    EXPECT_EQ(h.stage, Stage::input);
    EXPECT_TRUE(h.local);
  }
  return text;
}

Call forward(Index k = 96) { return forward_call({1, 4}, 3, k); }

const std::string kLeftOut = "k.missing: the products of k = 32 to 63 are left out\n";
const std::string kTwice = "k.twice: the products of k = 32 to 63 are added twice\n";

TEST(Depth, BlocksThatCountForNothingAreLeftOut) {
  EXPECT_EQ(phrases(forward(), {}), "");
  EXPECT_EQ(phrases(forward(), {line({1, 1, 1})}), "");
  EXPECT_EQ(phrases(forward(), {line({1, 0, 1})}), kLeftOut);
  EXPECT_EQ(phrases(forward(), {line({0, 1, 0})}),
            "k.missing: the products of k = 0 to 31 and 64 to 95 are left out\n");
  EXPECT_EQ(phrases(forward(70), {line({1, 1, 0})}),
            "k.missing: the products of k = 64 to 69 are left out\n");
  EXPECT_EQ(phrases(forward(65), {line({1, 1, 0})}),
            "k.missing: the products of k = 64 are left out\n");
  EXPECT_EQ(phrases(forward(), {line({0, 0, 0})}), "") << "all of them: a factor";
}

TEST(Depth, BlocksThatCountTwiceAreAddedTwice) {
  EXPECT_EQ(phrases(forward(), {line({1, 2, 1})}), kTwice);
  EXPECT_EQ(phrases(forward(), {line({2, 2, 2})}), "");
  EXPECT_EQ(phrases(forward(), {line({2, 0, 1})}),
            kLeftOut + "k.twice: the products of k = 0 to 31 are added twice\n");
}

TEST(Depth, ManyBlocksAreToldByTheirPeriodOrNumber) {
  std::vector<double> odd(12, 1);
  for (std::size_t b = 1; b < 12; b += 2) odd[b] = 0;
  EXPECT_EQ(phrases(forward(384), {line(odd)}),
            "k.missing: the products of k = 32 to 63 of every 64 are left out\n");
  std::vector<double> some(12, 1);
  for (const std::size_t b : {0u, 2u, 5u, 7u, 11u}) some[b] = 0;
  EXPECT_EQ(phrases(forward(384), {line(some)}),
            "k.missing: the products of 160 ks between 0 and 383 are left out\n");
}

TEST(Depth, MostOfTheLinesThatKnowABlockHaveToAgree) {
  for (const auto& [wrong, words] : {std::pair{0.0, kLeftOut}, std::pair{2.0, kTwice}}) {
    const Effective plain = line({1, 1, 1});
    const Effective odd = line({1, wrong, 1});
    EXPECT_EQ(phrases(forward(), {plain, odd, odd, odd}), "") << "three in four";
    EXPECT_EQ(phrases(forward(), {plain, odd, odd, odd, odd}), words);
    EXPECT_EQ(phrases(forward(), {plain, plain, odd, odd, odd, odd}), "");
    // Lines that know nothing of the block have no say.
    const Effective unsure = line({1, 1, 1}, 0.11);
    EXPECT_EQ(phrases(forward(), {unsure, unsure, odd}), words);
    EXPECT_EQ(phrases(forward(), {line({1, 1, 1}, 0.1), odd}), "");
    EXPECT_EQ(phrases(forward(), {line({1, wrong, 1}, 0.11)}), "");
    EXPECT_EQ(phrases(forward(), {line({1, wrong + 0.09, 1})}), words);
    EXPECT_EQ(phrases(forward(), {line({1, wrong - 0.09, 1})}), words);
    EXPECT_EQ(phrases(forward(), {line({1, wrong + 0.11, 1})}), "");
    EXPECT_EQ(phrases(forward(), {line({1, wrong - 0.11, 1})}), "");
  }
  EXPECT_EQ(phrases(forward(), {line({1, 0.1, 1})}), "");
}

TEST(Depth, CodesThatAreLeftOutAreZero) {
  for (const Index k : {70, 96}) {
    Call call = forward(k);
    const Tensor given = call.input("x.codes");
    const auto list = found(call, {line({1, 0, 0})});
    ASSERT_EQ(list.size(), 1u);
    ASSERT_TRUE(list[0].alter(call));
    const Tensor& x = call.input("x.codes");
    for (Index i = 0; i < x.elements(); ++i) {
      EXPECT_EQ(x.as<std::uint8_t>()[i], i % k < 32 ? given.as<std::uint8_t>()[i] : 0) << i;
    }
  }
}

TEST(Depth, BlocksThatAreAddedTwiceAreAppended) {
  for (const Index k : {70, 96}) {
    Call call = forward(k);
    const Call before = call;
    const Product p = *product_of(before);
    const auto list = found(call, {line({2, 1, 2})});
    ASSERT_EQ(list.size(), 1u);
    ASSERT_TRUE(list[0].alter(call));
    const Product wide = *product_of(call);
    EXPECT_EQ(wide.k, 160);
    for (Index g = 0; g < 2; ++g) {
      const auto twice = [](std::vector<double> line) {
        line.resize(96);  // zeros fill up the last block
        for (Index d = 0; d < 96; ++d) {
          if (d < 32 || d >= 64) line.push_back(line[static_cast<std::size_t>(d)]);
        }
        return line;
      };
      EXPECT_EQ(wide.line_a(g, 1), twice(p.line_a(g, 1)));
      EXPECT_EQ(wide.line_b(g, 2), twice(p.line_b(g, 2)));
    }
  }
}

TEST(Depth, BlocksAreAppendedWithTheirScales) {
  const auto with_scales = [](std::vector<Index> of_x, std::vector<Index> of_w) {
    Call call = forward();
    call.replace("x.scales", some_scales(std::move(of_x), 5));
    call.replace("w.scales", some_scales(std::move(of_w), 6));
    return call;
  };
  // One scale for a line, as the last axis or without it, stays.
  for (const bool kept : {true, false}) {
    Call call = with_scales(kept ? std::vector<Index>{4, 1} : std::vector<Index>{4},
                            kept ? std::vector<Index>{2, 3, 1} : std::vector<Index>{2, 3});
    const Tensor x = call.input("x.scales");
    ASSERT_TRUE(append_blocks(call, {1}, 32));
    EXPECT_TRUE(same_bytes(call.input("x.scales"), x));
    EXPECT_EQ(call.input("x.codes").extent(1), 128);
    EXPECT_EQ(call.input("w.codes").extent(2), 128);
  }
  // Two scales for a block.
  Call call = with_scales({4, 6}, {2, 3, 6});
  const Tensor before = call.input("w.scales");
  ASSERT_TRUE(append_blocks(call, {1}, 32));
  const Tensor& after = call.input("w.scales");
  ASSERT_EQ(after.extent(2), 8);
  for (Index row = 0; row < 6; ++row) {
    for (Index s = 0; s < 8; ++s) {
      EXPECT_EQ(after.as<std::uint8_t>()[row * 8 + s],
                before.as<std::uint8_t>()[row * 6 + (s < 6 ? s : s - 4)]);
    }
  }
  Call without = forward();
  without.inputs.erase("x.scales");
  without.inputs.erase("w.scales");
  ASSERT_TRUE(append_blocks(without, {2}, 32));
  EXPECT_EQ(product_of(without)->k, 128);
}

TEST(Depth, BlocksAreNotAppendedWhereScalesCoverMore) {
  Call call = forward();
  call.replace("x.scales", some_scales({4, 2}, 5));  // 48 of K each
  EXPECT_FALSE(append_blocks(call, {1}, 32));
  Call other{"quantize", {}, {}};
  EXPECT_FALSE(append_blocks(other, {1}, 32));
  Call gradient = gradient_call({32, 64}, 3, 2);
  EXPECT_FALSE(append_blocks(gradient, {0}, 32));
}

TEST(Depth, RowsOfAGradientAreLeftOutByGroup) {
  Call call = gradient_call({64, 64, 150}, 3, 2);
  const Effective first = line({1, 0}, 0.01, 0);
  const Effective second = line({1, 1, 0}, 0.01, 2);
  EXPECT_EQ(phrases(call, {line({1, 1}), line({1, 1, 1}, 0.01, 2)}), "");
  EXPECT_EQ(phrases(call, {first}),
            "k.missing: the products of rows 32 to 63 of dy and x are left out\n");
  EXPECT_EQ(phrases(call, {first, second}),
            "k.missing: the products of rows 32 to 63 and 128 to 149 of dy and x are left out\n");
  EXPECT_EQ(phrases(call, {line({0, 0}), line({0, 0, 0}, 0.01, 2)}), "") << "all of them";
  EXPECT_EQ(phrases(call, {line({0}, 0.01, 2)}),
            "k.missing: the products of rows 64 to 95 of dy and x are left out\n");
  const auto list = found(call, {first, second});
  ASSERT_EQ(list.size(), 1u);
  const Tensor given = call.input("dy.codes");
  ASSERT_TRUE(list[0].alter(call));
  for (Index i = 0; i < given.elements(); ++i) {
    const Index row = i / 3;
    const bool gone = (row >= 32 && row < 64) || row >= 128;
    EXPECT_EQ(call.input("dy.codes").as<std::uint8_t>()[i], gone ? 0 : given.as<std::uint8_t>()[i]);
  }
}

TEST(Depth, MostLinesOfAGroupHaveToAgree) {
  const Call call = gradient_call({64, 128}, 3, 2);
  const std::string words = "k.missing: the products of rows 96 to 127 of dy and x are left out\n";
  const Effective plain = line({1, 1}, 0.01, 1);
  const Effective odd = line({1, 0}, 0.01, 1);
  EXPECT_EQ(phrases(call, {plain, odd, odd, odd}), "");
  EXPECT_EQ(phrases(call, {plain, odd, odd, odd, odd}), words);
  EXPECT_EQ(phrases(call, {line({1, 1}), odd}), words) << "of the other group";
  EXPECT_EQ(phrases(call, {line({1, 1}, 0.11, 1), odd}), words);
  EXPECT_EQ(phrases(call, {line({1, 1}, 0.1, 1), odd}), "");
  EXPECT_EQ(phrases(call, {line({1, 0}, 0.11, 1)}), "");
  EXPECT_EQ(phrases(call, {line({1, 0.1}, 0.01, 1)}), "");
  EXPECT_EQ(phrases(call, {line({1, -0.05}, 0.01, 1)}), words);
}

}  // namespace
}  // namespace mxo
