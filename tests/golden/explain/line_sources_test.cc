// Scales of lines taken from other lines, by what was measured of a few.
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
