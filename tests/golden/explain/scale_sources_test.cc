// Scales taken from elsewhere: of other lines, blocks or experts, or at another stride.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/product/measured.h"
#include "tests/golden/multiplied.h"

namespace mxo {
namespace {

/// A call, and lines of one side whose scales are those that `from` gives, as if measured exactly.
struct TakenScales {
  Call call;
  Product p;
  Side side;
  Observation seen;

  TakenScales(Call c, Side s, const std::vector<Index>& lines,
              const std::function<Index(Index)>& from)
      : call(std::move(c)), p(*product_of(call)), side(s), seen{p, s, {}} {
    const Tensor& scales = *seen.factor().scales;
    for (Index g = 0; g < p.groups(); ++g) {
      for (const Index line : lines) {
        const bool of_group = s == Side::b || (line >= p.first_line(g) && line < p.last_line(g));
        if (!of_group) continue;
        Effective e;
        e.group = g;
        e.line = line;
        e.misfit = 0.0;
        for (Index b = 0; b < ceil_div(p.depth(g), p.block); ++b) {
          const Index own = seen.at(g, line, b);
          e.ratio.push_back(scale_value(scales, from(own)) / scale_value(scales, own));
          e.sigma.push_back(1e-9);
        }
        seen.lines.push_back(std::move(e));
      }
    }
  }
  TakenScales(const TakenScales&) = delete;
  TakenScales& operator=(const TakenScales&) = delete;

  std::vector<Hypothesis> shown() const {
    std::vector<Hypothesis> list;
    add_scale_sources(seen, list);
    for (const Hypothesis& h : list) {
      EXPECT_EQ(h.name, seen.factor().scales_name + "=source");
      EXPECT_EQ(h.phrase, list.front().phrase);
      EXPECT_EQ(h.stage, Stage::input);
    }
    return list;
  }
  std::string words() const {
    const std::vector<Hypothesis> list = shown();
    return list.empty() ? "none" : list.front().phrase;
  }
  /// Where the scales come from behind each hypothesis; numbers are told apart by their bits.
  std::vector<std::vector<Index>> sources() const {
    std::vector<std::vector<Index>> all;
    for (const Hypothesis& h : shown()) {
      Call altered = call;
      EXPECT_TRUE(h.alter(altered));
      const Tensor& now = altered.input(seen.factor().scales_name);
      const Tensor& given = *seen.factor().scales;
      std::vector<Index> from;
      for (Index i = 0; i < given.elements(); ++i) {
        Index at = 0;
        while (bits_at(given, at) != bits_at(now, i)) ++at;
        from.push_back(at);
      }
      all.push_back(std::move(from));
    }
    return all;
  }
};

using Taken = TakenScales;
using From = std::function<Index(Index)>;

std::vector<Index> each(Index n, const From& from) {
  std::vector<Index> all;
  for (Index i = 0; i < n; ++i) all.push_back(from(i));
  return all;
}

std::vector<Index> lines_to(Index n) { return range_of(n); }

/// x [8, 128] in two groups, and w [2, 6, 128]: four scales a line.
Call plain() { return product_call({3, 8}, 6, 4); }

From later(Index by, Index n) {
  return [=](Index i) { return (i + by + n) % n; };
}

TEST(ScaleSources, OfXAreRowsAway) {
  const Taken after(plain(), Side::a, lines_to(7), later(4, 32));
  EXPECT_EQ(after.words(), "the scales of x are those of 1 row after");
  EXPECT_EQ(after.sources(), (std::vector{each(32, later(4, 32)),
                                          each(32, [](Index i) { return i < 28 ? i + 4 : i; })}));
  const Taken before(plain(), Side::a, {2, 3, 4, 5, 6, 7}, later(-8, 32));
  EXPECT_EQ(before.words(), "the scales of x are those of 2 rows before");
  EXPECT_EQ(before.sources(), (std::vector{each(32, later(-8, 32)),
                                           each(32, [](Index i) { return i < 8 ? i : i - 8; })}));
}

TEST(ScaleSources, OfXAreBlocksAway) {
  const Taken after(plain(), Side::a, lines_to(7), later(1, 32));
  EXPECT_EQ(after.words(), "the scales of x are those of 1 block after");
  EXPECT_EQ(after.sources(), (std::vector{each(32, later(1, 32)),
                                          each(32, [](Index i) { return i < 31 ? i + 1 : i; })}));
  EXPECT_EQ(Taken(plain(), Side::a, {1, 2, 3, 4}, later(-3, 32)).words(),
            "the scales of x are those of 3 blocks before");
}

TEST(ScaleSources, AreNoneWhereTheyAreTheirOwn) {
  EXPECT_EQ(Taken(plain(), Side::a, lines_to(8), later(0, 32)).words(), "none");
  EXPECT_EQ(Taken(plain(), Side::a, lines_to(8), [](Index i) { return i * 7 % 31; }).words(),
            "none");
}

TEST(ScaleSources, OfGroupsAreEachTheirOwn) {
  // Rows 0 to 2 take those of the next row, and the others those of two before.
  const Taken t(plain(), Side::a, lines_to(8), [](Index i) { return i < 12 ? i + 4 : i - 8; });
  EXPECT_EQ(
      t.words(),
      "the scales of x are those of 2 rows before in group 1, those of 1 row after in group 0");
  EXPECT_EQ(t.sources()[0], each(32, [](Index i) { return i < 12 ? i + 4 : i - 8; }));
}

TEST(ScaleSources, OfEveryLineMayBeThoseOfOne) {
  const Taken t(plain(), Side::a, lines_to(8), [](Index i) { return 8 + i % 4; });
  EXPECT_EQ(t.words(), "every line of x takes the scales of line 2");
  EXPECT_EQ(t.sources()[0], each(32, [](Index i) { return 8 + i % 4; }));
  const Taken groups(plain(), Side::a, lines_to(8),
                     [](Index i) { return (i < 12 ? 0 : 12) + i % 4; });
  EXPECT_EQ(groups.words(), "every line of x takes the scales of line 0 in group 0, 3 in group 1");
}

TEST(ScaleSources, OfEveryBlockMayBeThatOfOne) {
  const Taken t(plain(), Side::a, lines_to(8), [](Index i) { return i / 4 * 4 + 2; });
  EXPECT_EQ(t.words(), "every K block of x takes the scale of block 2");
  EXPECT_EQ(t.sources()[0], each(32, [](Index i) { return i / 4 * 4 + 2; }));
  const Taken first(plain(), Side::a, lines_to(8), [](Index i) { return i / 4 * 4; });
  EXPECT_EQ(first.words(), "every K block of x takes the scale of block 0");
}

TEST(ScaleSources, AreReadAlongTheOtherAxis) {
  // Scales [8, 4], read as if they lay as [4, 8] turned round.
  const From turned = [](Index i) { return i / 4 + i % 4 * 8; };
  const Taken t(plain(), Side::a, lines_to(8), turned);
  EXPECT_EQ(t.words(),
            "the scales of x are read along the wrong axis (blocks 8 apart rather than 1)");
  EXPECT_EQ(t.sources()[0], each(32, turned));
}

TEST(ScaleSources, AreReadAtAnotherStride) {
  // Rows of three scales, read as if they were padded to four.
  const Call call = product_call({8}, 6, 3);
  const From padded = [](Index i) { return std::min<Index>(i / 3 * 4 + i % 3, 23); };
  const Taken t(call, Side::a, lines_to(6), padded);
  EXPECT_EQ(t.words(), "the scales of x are read 4 apart rather than 3");
  EXPECT_EQ(t.sources()[0], each(24, [](Index i) { return (i / 3 * 4 + i % 3) % 24; }));
  const From skewed = [](Index i) { return std::min<Index>(i / 3 * 3 + i % 3 * 2, 23); };
  EXPECT_EQ(Taken(call, Side::a, lines_to(7), skewed).words(),
            "the scales of x are read along the wrong axis (blocks 2 apart rather than 1)");
  const From unit = [](Index i) { return i / 3 + i % 3; };
  EXPECT_EQ(Taken(call, Side::a, lines_to(8), unit).words(),
            "the scales of x are read 1 apart rather than 3");
}

TEST(ScaleSources, OfWAreExpertsAway) {
  const From next = later(24, 48);
  const Taken swapped(plain(), Side::b, lines_to(6), next);
  EXPECT_EQ(swapped.words(),
            "expert 0 takes the scales of expert 1 and expert 1 takes the scales of expert 0 (w)");
  const auto sources = swapped.sources();
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0], each(48, next));
  EXPECT_EQ(sources[2], each(48, next)) << "whole experts are not beyond one";
  const Taken first(plain(), Side::b, lines_to(6), [](Index i) { return i % 24; });
  EXPECT_EQ(first.words(), "every expert takes the scales of w of expert 0");
  EXPECT_EQ(first.sources()[0], each(48, [](Index i) { return i % 24; }));
  const Call three = product_call({3, 6, 8}, 6, 4);
  const Taken two(three, Side::b, lines_to(6), [](Index i) { return i < 48 ? (i + 24) % 48 : i; });
  EXPECT_EQ(two.words(),
            "expert 0 takes the scales of expert 1 and expert 1 takes the scales of expert 0 (w)");
}

TEST(ScaleSources, OfWAreColumnsOfTheirExpert) {
  const From next = [](Index i) { return i / 24 * 24 + (i % 24 + 4) % 24; };
  const Taken t(plain(), Side::b, lines_to(6), next);
  EXPECT_EQ(t.words(), "the scales of w are those of 1 row after");
  const auto sources = t.sources();
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0], each(48, later(4, 48)));
  EXPECT_EQ(sources[1], each(48, next)) << "round in an expert";
  EXPECT_EQ(sources[2], each(48, [](Index i) { return i % 24 < 20 ? i + 4 : i; }));
}

/// dy [320, 5] and x [320, 4]; ten rows of scales, one for 32 rows.
Call gradient() {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", mixed_codes({320, 5}, 1));
  call.replace("x.codes", mixed_codes({320, 4}, 3));
  const auto bytes = [](Index i) { return 60 + i * 37 % 101; };
  call.replace("dy.scales", filled<std::uint8_t>(Dtype::e8m0, {10, 5}, bytes));
  call.replace("x.scales", filled<std::uint8_t>(Dtype::e8m0, {10, 4}, bytes));
  const std::int32_t ends[] = {160, 320};
  call.replace("group_ends",
               filled<std::int32_t>(Dtype::i32, {2}, [&](Index g) { return ends[g]; }));
  return call;
}

/// Lines of a gradient, measured: every group has each of them.
struct Columns : Taken {
  Columns(const std::vector<Index>& lines, const From& from)
      : Taken(gradient(), Side::b, lines, from) {}
};

TEST(ScaleSources, OfGradientsAreColumnsAway) {
  const Columns t({0, 1, 2}, later(1, 40));
  EXPECT_EQ(t.words(), "the scales of x are those of 1 column after");
  const auto sources = t.sources();
  ASSERT_EQ(sources.size(), 3u);
  EXPECT_EQ(sources[0], each(40, later(1, 40)));
  EXPECT_EQ(sources[1], each(40, [](Index i) { return i / 4 * 4 + (i + 1) % 4; }))
      << "round in a row";
  EXPECT_EQ(sources[2], each(40, [](Index i) { return i < 39 ? i + 1 : i; }));
  EXPECT_EQ(Columns({2, 3}, later(-2, 40)).words(),
            "the scales of x are those of 2 columns before");
}

TEST(ScaleSources, OfGradientsAreBlocksAway) {
  EXPECT_EQ(Columns({0, 1, 2, 3}, later(4, 40)).words(),
            "the scales of x are those of 1 block after");
}

From by(Index distance) {
  return [distance](Index i) { return i + distance; };
}

/// Lines of x, all of one group of eight rows but where ends are given.
std::string of_x(const std::vector<Index>& lines, const From& from,
                 const std::vector<Index>& ends = {8}) {
  return TakenScales(product_call(ends, 6, 4), Side::a, lines, from).words();
}

const std::string kAre = "the scales of x are those of ";

TEST(ScaleSources, AreForTheNearest) {
  // Rows are alike by turns: one, three and five rows away are all the same.
  const Call call = edited<float>(product_call({12}, 6, 4), "x.scales", [](float* s) {
    for (Index i = 8; i < 48; ++i) s[i] = s[i - 8];
  });
  EXPECT_EQ(TakenScales(call, Side::a, {3, 4, 5, 6}, by(4)).words(), kAre + "1 row before");
}

TEST(ScaleSources, SayNothingOfGroupsThatAreRight) {
  EXPECT_EQ(of_x(range_of(8), [](Index i) { return i < 12 ? i : i - 8; }, {3, 8}),
            kAre + "2 rows before in group 1");
}

TEST(ScaleSources, AreOfEveryBlock) {
  for (const Index odd : {0, 1, 3}) {
    EXPECT_EQ(of_x(range_of(7), [=](Index i) { return i % 4 == odd ? i * 5 % 28 : i + 4; }), "none")
        << odd;
  }
}

TEST(ScaleSources, OfOneScaleAreOfTheLinesOwn) {
  const auto first_and = [](Index more) { return [more](Index i) { return i / 4 * 4 + more; }; };
  EXPECT_EQ(of_x({1, 2, 3, 4, 5, 6}, first_and(3)),
            "every K block of x takes the scale of block 3");
  EXPECT_EQ(of_x({1, 2, 3, 4, 5, 6}, first_and(4)), "none");
  EXPECT_EQ(of_x({1, 2, 3, 4, 5, 6}, first_and(-1)), "none");
}

TEST(ScaleSources, OfOneExpertAreThatOfAnother) {
  TakenScales t(product_call({3, 8}, 6, 4), Side::b, range_of(6), [](Index i) { return i % 24; });
  std::erase_if(t.seen.lines, [](const Effective& e) { return e.group == 0; });
  EXPECT_EQ(t.words(), "expert 1 takes the scales of expert 0 (w)");
}

TEST(ScaleSources, OfAGradientAreAgreedOn) {
  // Each line takes one scale for all of its blocks, and no two lines at one distance.
  const Index sources[] = {30, 7, 21, 2, 39, 11, 26, 13};
  const TakenScales t(gradient(), Side::b, range_of(4),
                      [&](Index i) { return sources[i % 4 + (i < 20 ? 0 : 4)]; });
  EXPECT_EQ(t.words(), "none");
}

TEST(ScaleSources, OfAGradientAreOfOneDistance) {
  const TakenScales t(gradient(), Side::b, range_of(4),
                      [](Index i) { return i < 20 ? i + 4 : i - 4; });
  EXPECT_EQ(t.words(), "none");
}

TEST(ScaleSources, OfAGradientMayLieAlongRows) {
  const TakenScales t(gradient(), Side::b, range_of(4),
                      [](Index i) { return i / 20 * 20 + i % 4 + i % 20 / 4; });
  EXPECT_EQ(t.words(),
            "the scales of x are read along the wrong axis (blocks 1 apart rather than 4)");
}

TEST(ScaleSources, OfAGradientAreOfEachGroup) {
  const From first = [](Index i) { return i / 20 * 20 + i % 4; };
  const TakenScales t(gradient(), Side::b, range_of(4), first);
  EXPECT_EQ(t.words(), "every K block of x takes the scale of block 0");
  std::vector<Index> expected;
  for (Index i = 0; i < 40; ++i) expected.push_back(first(i));
  EXPECT_EQ(t.sources().at(0), expected);
}

}  // namespace
}  // namespace mxo
