// Scales taken from elsewhere: of other lines, blocks or experts, or at another stride.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "golden/explain/find/quantiser/seen.h"
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

Tensor floats_of(std::vector<Index> shape, const std::vector<float>& values) {
  Tensor t(Dtype::f32, std::move(shape));
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

/// Scales of one side, and lines that were measured.
struct Measured {
  Tensor scales;
  Product p;
  Observation seen;
  Measured(Side side, Tensor s) : scales(std::move(s)), seen{p, side, {}} {
    ProductSide& f = side == Side::a ? p.a : p.b;
    f.name = "f";
    f.scales = &scales;
    f.scales_name = "f.scales";
    p.k = 64;
    p.n = scales.rank() == 1 ? 1 : scales.extent(1);
    p.ends.assign(static_cast<std::size_t>(scales.extent(0)), scales.extent(0));
  }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

  /// Line `line` took `took` in place of its scale.
  void add(Index line, double took, double sigma = 0.0, Index group = 0) {
    Effective e{group, line, {1.0}, {sigma}, 0.0};
    e.ratio[0] = took / scale_value(scales, seen.at(e, 0));
    seen.lines.push_back(e);
  }
  std::vector<Hypothesis> found() const {
    std::vector<Hypothesis> list;
    add_line_sources(seen, list);
    return list;
  }
  std::string words() const {
    const std::vector<Hypothesis> list = found();
    return list.empty() ? "none" : list.front().phrase;
  }
};

/// Rows of x whose scales are 2, 4, 6 and so on.
struct Rows : Measured {
  explicit Rows(Index n) : Measured(Side::a, even(n)) {}
  static Tensor even(Index n) {
    Tensor t(Dtype::f32, {n});
    for (Index i = 0; i < n; ++i) t.as<float>()[i] = 2.0f * static_cast<float>(i + 1);
    return t;
  }
  /// Row `line` took the scale of row `from`.
  void took(Index line, Index from, double sigma = 0.0) {
    add(line, 2.0 * static_cast<double>(from + 1), sigma);
  }
};

TEST(LineSources, AreLinesAtOneDistance) {
  Rows after(8);
  for (const Index line : {1, 2, 4}) after.took(line, line + 3);
  EXPECT_EQ(after.words(), "the scales of f are those of 3 rows after");
  EXPECT_EQ(after.found()[0].name, "f.scales=source");
  EXPECT_EQ(after.found()[0].stage, Stage::input);
  Rows before(8);
  for (const Index line : {1, 2, 7}) before.took(line, line - 1);
  EXPECT_EQ(before.words(), "the scales of f are those of 1 row before");
  Rows last(8);
  for (const Index line : {0, 1, 2}) last.took(line, line + 5);
  EXPECT_EQ(last.words(), "the scales of f are those of 5 rows after") << "the last of all";
}

TEST(LineSources, AreSoForThreeLinesAndMostOfThem) {
  Rows two(8);
  for (const Index line : {1, 2}) two.took(line, line + 3);
  EXPECT_EQ(two.words(), "none");
  Rows five(8);
  for (const Index line : {1, 2, 4}) five.took(line, line + 3);
  five.took(5, 5);
  five.took(6, 5);
  EXPECT_EQ(five.words(), "the scales of f are those of 3 rows after") << "three of five";
  five.took(7, 5);
  EXPECT_EQ(five.words(), "none") << "three of six";
  Rows own(8);
  for (const Index line : {1, 2, 4}) own.took(line, line);
  EXPECT_EQ(own.words(), "none") << "they took their own";
  for (const Index line : {0, 3}) own.took(line, line + 2);
  EXPECT_EQ(own.words(), "none");
}

TEST(LineSources, AreTheNearestThatFit) {
  // Scales come again after three rows.
  const Tensor again = floats_of({9}, {2, 4, 6, 2, 4, 6, 2, 4, 6});
  Measured after(Side::a, again);
  for (const Index line : {3, 4, 5}) after.add(line, line == 5 ? 2.0 : 2.0 * double(line - 1));
  EXPECT_EQ(after.words(), "the scales of f are those of 1 row after") << "or of two before";
  Measured before(Side::a, again);
  for (const Index line : {3, 4, 5}) before.add(line, line == 3 ? 6.0 : 2.0 * double(line - 3));
  EXPECT_EQ(before.words(), "the scales of f are those of 1 row before") << "or of two after";
  Measured even(Side::a, floats_of({6}, {2, 4, 2, 4, 2, 4}));
  for (const Index line : {1, 2, 3}) even.add(line, line == 2 ? 4.0 : 2.0);
  EXPECT_EQ(even.words(), "the scales of f are those of 1 row before") << "the first of two";
}

TEST(LineSources, OfWeightsAreExperts) {
  const auto shifted = [](std::vector<Index> shape, Index by) {
    Measured w(Side::b, Rows::even(shape[0] * shape[1]));
    w.p.n = shape[1];
    w.p.ends.assign(static_cast<std::size_t>(shape[0]), 1);
    w.scales = Tensor(Dtype::f32, shape);
    for (Index i = 0; i < w.scales.elements(); ++i) {
      w.scales.as<float>()[i] = 2.0f * static_cast<float>(i + 1);
    }
    for (Index i = 3; i < 6; ++i) {
      w.add(i % shape[1], 2.0 * static_cast<double>(i + by + 1), 0.0, i / shape[1]);
    }
    return w.words();
  };
  EXPECT_EQ(shifted({4, 3}, 3), "the scales of f are those of 1 expert after");
  EXPECT_EQ(shifted({4, 3}, -3), "the scales of f are those of 1 expert before");
  EXPECT_EQ(shifted({4, 3}, 6), "the scales of f are those of 2 experts after");
  EXPECT_EQ(shifted({4, 3}, 2), "the scales of f are those of 2 rows after");
  EXPECT_EQ(shifted({9, 1}, 1), "the scales of f are those of 1 expert after");
  EXPECT_EQ(shifted({4, 3, 1}, -3), "the scales of f are those of 1 expert before");
}

TEST(LineSources, OfXAreRowsOfOneBlockToo) {
  Measured x(Side::a, floats_of({6, 1}, {2, 4, 6, 8, 10, 12}));
  for (const Index line : {1, 2, 3}) x.add(line, 2.0 * static_cast<double>(line));
  EXPECT_EQ(x.words(), "the scales of f are those of 1 row before");
  // Columns of a gradient have scales of their group.
  Measured dy(Side::a, floats_of({3, 2}, {2, 4, 6, 8, 10, 12}));
  dy.p.wgrad = true;
  dy.add(0, 6.0, 0.0, 0);
  dy.add(1, 8.0, 0.0, 0);
  dy.add(0, 10.0, 0.0, 1);
  EXPECT_EQ(dy.words(), "the scales of f are those of 1 expert after");
}

/// Scales of a call after each of the hypotheses.
std::vector<std::vector<float>> altered(const Measured& rows, const Tensor& given) {
  std::vector<std::vector<float>> all;
  for (const Hypothesis& h : rows.found()) {
    Call call{"grouped_matmul", {}, {}};
    call.replace("f.scales", given);
    if (!h.alter(call)) continue;
    const Tensor& taken = call.input("f.scales");
    all.emplace_back(taken.as<float>(), taken.as<float>() + taken.elements());
  }
  return all;
}

TEST(LineSources, EndOrComeRoundAtTheEnds) {
  Rows after(5);
  for (const Index line : {0, 1, 2}) after.took(line, line + 2);
  EXPECT_EQ(altered(after, after.scales),
            (std::vector<std::vector<float>>{{6, 8, 10, 8, 10}, {6, 8, 10, 2, 4}}));
  Rows before(5);
  for (const Index line : {2, 3, 4}) before.took(line, line - 2);
  EXPECT_EQ(altered(before, before.scales),
            (std::vector<std::vector<float>>{{2, 4, 2, 4, 6}, {8, 10, 2, 4, 6}}));
}

}  // namespace
}  // namespace mxo
