// What may have been taken in place of elements of an operand, and what it is worth.
#include "golden/explain/recover/taking.h"

#include <gtest/gtest.h>

#include <set>

namespace mxo {
namespace {

using Words = std::vector<std::string>;

/// A product of extents alone; its tensors hold one element.
struct Extents {
  Tensor codes{Dtype::e4m3, {1, 1}};
  Tensor scales{Dtype::f32, {1}};
  Product p;
  Extents(Index rows, Index columns, Index depth, Index groups) {
    for (auto [side, name] : {std::pair{&p.a, "x"}, std::pair{&p.b, "w"}}) {
      *side = {name,
               &codes,
               &scales,
               Dtype::e4m3,
               std::string(name) + ".codes",
               std::string(name) + ".scales"};
    }
    p.a_lines = rows;
    p.n = columns;
    p.k = depth;
    p.ends.assign(static_cast<std::size_t>(groups), rows);
  }
  Extents(const Extents&) = delete;
  Extents& operator=(const Extents&) = delete;

  std::vector<Taking> of(Side side) const { return takings_of(Sides{p, side}); }
};

std::string in_words(const Taking& t) {
  return t.id + ": " + t.words + ": " + std::to_string(t.lines) + " " + std::to_string(t.depth) +
         " " + std::to_string(t.expert) + (t.codes ? " codes" : "") + (t.scales ? " scales" : "") +
         (t.unscaled ? " unscaled" : "") + (t.code != nullptr ? " altered" : "");
}

Words in_words(const std::vector<Taking>& list) {
  Words words;
  for (const Taking& t : list) words.push_back(in_words(t));
  return words;
}

/// Codes, scales and both from one place.
Words parts(const std::string& name, const std::string& place, const std::string& by) {
  return {name + "=part: is read from " + place + ", with its scales: " + by + " codes scales",
          name + ".codes=part: is read from " + place + ", without its scales: " + by + " codes",
          name + ".scales=part: takes the scales of " + place + ": " + by + " scales"};
}

Words altered(const std::string& name) {
  return {name + ".codes=signs_lost: signs are lost in : 0 0 0 codes scales altered",
          name + ".codes=negated: signs are turned in : 0 0 0 codes scales altered",
          name + ".codes=zero: codes are zero in : 0 0 0 codes scales altered"};
}

std::string left_out(const std::string& name) {
  return name +
         ".scales=part_left_out: is not multiplied by its scales: 0 0 0 codes scales "
         "unscaled";
}

Words joined(std::initializer_list<Words> lists) {
  Words all;
  for (const Words& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

TEST(Takings, OfRowsAreOtherRowsAndDepths) {
  const Extents e(3, 2, 33, 2);
  EXPECT_EQ(
      in_words(e.of(Side::a)),
      joined({parts("x", "1 row before", "-1 0 0"), parts("x", "1 row after", "1 0 0"),
              parts("x", "2 rows before", "-2 0 0"), parts("x", "2 rows after", "2 0 0"),
              parts("x", "the depth 32 before", "0 -32 0"),
              parts("x", "the depth 32 after", "0 32 0"), Words{left_out("x")}, altered("x")}));
}

TEST(Takings, OfWeightsAreOtherExpertsToo) {
  const Extents e(2, 3, 32, 3);
  EXPECT_EQ(
      in_words(e.of(Side::b)),
      joined({parts("w", "1 line before", "-1 0 0"), parts("w", "1 line after", "1 0 0"),
              parts("w", "2 lines before", "-2 0 0"), parts("w", "2 lines after", "2 0 0"),
              parts("w", "the expert before", "0 0 -1"), parts("w", "the expert after", "0 0 1"),
              parts("w", "2 experts before", "0 0 -2"), parts("w", "2 experts after", "0 0 2"),
              Words{left_out("w")}, altered("w")}));
}

TEST(Takings, OfGradientsAreOtherLinesAlone) {
  Extents e(2, 1, 99, 3);
  e.p.wgrad = true;
  EXPECT_EQ(in_words(e.of(Side::a)),
            joined({parts("x", "1 line before", "-1 0 0"), parts("x", "1 line after", "1 0 0"),
                    Words{left_out("x")}, altered("x")}));
  EXPECT_EQ(in_words(e.of(Side::b)), joined({Words{left_out("w")}, altered("w")}));
}

TEST(Takings, WithoutScalesAreOfTheWhole) {
  Extents e(2, 1, 1, 1);
  e.p.a.scales = nullptr;
  EXPECT_EQ(in_words(e.of(Side::a)),
            joined({{"x=part: is read from 1 row before: -1 0 0 codes scales",
                     "x=part: is read from 1 row after: 1 0 0 codes scales"},
                    altered("x")}));
}

TEST(Takings, AlterOnlyBytesThatAreFloats) {
  Extents e(1, 1, 1, 1);
  e.p.a.scales = nullptr;
  ASSERT_EQ(e.of(Side::a).size(), 3u);
  e.p.a.format = Dtype::i8;
  EXPECT_EQ(in_words(e.of(Side::a)), Words{});
  const Tensor wide(Dtype::u16, {1, 1});
  e.p.a.codes = &wide;
  EXPECT_EQ(in_words(e.of(Side::a)), Words{});
  e.p.a.format = Dtype::e4m3;
  EXPECT_EQ(in_words(e.of(Side::a)), Words{});
}

TEST(Takings, AlterCodesAsTheySay) {
  const Extents e(1, 1, 1, 1);
  const std::vector<Taking> list = e.of(Side::a);
  ASSERT_EQ(list.size(), 4u);
  const std::uint8_t given[] = {0x00, 0x80, 0x38, 0xB8, 0xFF};
  const std::uint8_t lost[] = {0x00, 0x00, 0x38, 0x38, 0x7F};
  const std::uint8_t turned[] = {0x80, 0x00, 0xB8, 0x38, 0x7F};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(list[1].code(given[i]), lost[i]);
    EXPECT_EQ(list[2].code(given[i]), turned[i]);
    EXPECT_EQ(list[3].code(given[i]), 0);
  }
}

/// Distances of one kind among a list.
std::set<Index> distances(const std::vector<Taking>& list, Index Taking::*kind) {
  std::set<Index> found;
  for (const Taking& t : list) {
    if (t.*kind != 0) found.insert(t.*kind);
  }
  return found;
}

std::set<Index> both_ways(std::initializer_list<Index> list) {
  std::set<Index> found;
  for (const Index by : list) {
    found.insert(by);
    found.insert(-by);
  }
  return found;
}

TEST(Takings, ReachThroughTheExtentsOfTheirSide) {
  const Extents wide(1500, 130, 300, 12);
  EXPECT_EQ(distances(wide.of(Side::a), &Taking::lines),
            both_ways({1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024}));
  EXPECT_EQ(distances(wide.of(Side::a), &Taking::depth), both_ways({32, 64, 128, 256}));
  EXPECT_EQ(distances(wide.of(Side::a), &Taking::expert), std::set<Index>{});
  EXPECT_EQ(distances(wide.of(Side::b), &Taking::lines), both_ways({1, 2, 4, 8, 16, 32, 64, 128}));
  EXPECT_EQ(distances(wide.of(Side::b), &Taking::expert), both_ways({1, 2, 3, 4, 5, 6, 7, 8}));
  const Extents narrow(16, 32, 128, 5);
  EXPECT_EQ(distances(narrow.of(Side::a), &Taking::lines), both_ways({1, 2, 4, 8}));
  EXPECT_EQ(distances(narrow.of(Side::b), &Taking::lines), both_ways({1, 2, 4, 8, 16}));
  EXPECT_EQ(distances(narrow.of(Side::b), &Taking::depth), both_ways({32, 64}));
  EXPECT_EQ(distances(narrow.of(Side::b), &Taking::expert), both_ways({1, 2, 3, 4}));
}

/// Two groups of 2 and 3 rows by w [2, 4, 8], e4m3 with a scale for every line.
struct Operands {
  Call call;
  Product p;
  explicit Operands(bool wgrad = false)
      : call{wgrad ? "grouped_matmul_wgrad" : "grouped_matmul", {}, {}} {
    Tensor ends(Dtype::i32, {2});
    ends.as<std::int32_t>()[0] = 2;
    ends.as<std::int32_t>()[1] = 5;
    call.replace("group_ends", ends);
    call.replace(wgrad ? "dy.codes" : "x.codes", codes({5, 8}));
    call.replace(wgrad ? "dy.scales" : "x.scales", scales(wgrad ? 2 : 5, wgrad ? 8 : 1));
    call.replace(wgrad ? "x.codes" : "w.codes", wgrad ? codes({5, 4}) : codes({2, 4, 8}));
    call.replace(wgrad ? "x.scales" : "w.scales", scales(2, 4));
    p = *product_of(call);
  }
  static Tensor codes(std::vector<Index> shape) {
    Tensor t(Dtype::u8, std::move(shape));
    for (Index i = 0; i < t.elements(); ++i) t.as<std::uint8_t>()[i] = code(i);
    return t;
  }
  /// From 2^-6 on, both signs; no two of the first 112 alike.
  static std::uint8_t code(Index i) {
    return static_cast<std::uint8_t>((i % 2 == 0 ? 0x00 : 0x80) | (0x08 + i));
  }
  static double number(Index i) { return static_cast<double>(decode(E4M3{code(i)})); }
  static Tensor scales(Index rows, Index columns) {
    Tensor t(Dtype::f32, {rows, columns});
    for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = 3.0f + static_cast<float>(i);
    return t;
  }
};

/// Places from which a side's elements may come, as a number of each, and -1 for none.
std::string sources(const Operands& o, Side side, const Taking& t, Index g, Index d) {
  const Sides s{o.p, side};
  const Taker taker(s, t);
  std::string text;
  for (Index i = s.first(g); i < s.last(g); ++i) {
    const auto at = taker.source(g, i, d);
    if (!text.empty()) text += ", ";
    text += at ? std::to_string(at->group) + " " + std::to_string(at->line) + " " +
                     std::to_string(at->d)
               : "none";
  }
  return text;
}

TEST(Taker, TakesFromLinesThatThereAre) {
  const Operands o;
  EXPECT_EQ(sources(o, Side::a, {"", "", 1}, 0, 3), "0 1 3, 0 2 3") << "a row of the next group";
  EXPECT_EQ(sources(o, Side::a, {"", "", 1}, 1, 3), "1 3 3, 1 4 3, none");
  EXPECT_EQ(sources(o, Side::a, {"", "", -3}, 1, 3), "none, 1 0 3, 1 1 3");
  EXPECT_EQ(sources(o, Side::b, {"", "", 2}, 1, 3), "1 2 3, 1 3 3, none, none");
  EXPECT_EQ(sources(o, Side::b, {"", "", -1}, 0, 3), "none, 0 0 3, 0 1 3, 0 2 3");
}

TEST(Taker, TakesFromDepthThatThereIs) {
  const Operands o;
  EXPECT_EQ(sources(o, Side::a, {"", "", 0, 3}, 0, 4), "0 0 7, 0 1 7");
  EXPECT_EQ(sources(o, Side::a, {"", "", 0, 3}, 0, 5), "none, none");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, -3}, 0, 3), "0 0 0, 0 1 0, 0 2 0, 0 3 0");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, -3}, 0, 2), "none, none, none, none");
}

TEST(Taker, TakesFromExpertsThatThereAre) {
  const Operands o;
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, 0, 1}, 0, 0), "1 0 0, 1 1 0, 1 2 0, 1 3 0");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, 0, 1}, 1, 0), "none, none, none, none");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, 0, -1}, 1, 0), "0 0 0, 0 1 0, 0 2 0, 0 3 0");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, 0, -1}, 0, 0), "none, none, none, none");
  EXPECT_EQ(sources(o, Side::a, {"", "", 0, 0, 1}, 0, 0), "none, none") << "rows have their group";
}

TEST(Taker, TakesLinesOfGradientsWithinTheGroup) {
  const Operands o(true);
  EXPECT_EQ(sources(o, Side::b, {"", "", 2}, 1, 2), "1 2 2, 1 3 2, none, none");
  EXPECT_EQ(sources(o, Side::a, {"", "", 5}, 0, 1),
            "0 5 1, 0 6 1, 0 7 1, none, none, none, none, none");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, 1}, 0, 1), "none, none, none, none");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, 1}, 1, 1), "1 0 2, 1 1 2, 1 2 2, 1 3 2");
  EXPECT_EQ(sources(o, Side::b, {"", "", 0, 0, 1}, 0, 0), "1 0 0, 1 1 0, 1 2 0, 1 3 0");
  EXPECT_EQ(sources(o, Side::a, {"", "", 0, 0, -1}, 1, 2).substr(0, 10), "none, none")
      << "group 0 has two rows";
}

TEST(Taker, MultipliesByTheScaleTaken) {
  const Operands o;
  const Sides x{o.p, Side::a};
  const double own = Operands::number(1 * 8 + 4), other = Operands::number(3 * 8 + 4);
  Taking t{"", "", 2};
  EXPECT_EQ(Taker(x, t).value(0, 1, 4), other * 6.0);
  t.scales = false;
  EXPECT_EQ(Taker(x, t).value(0, 1, 4), other * 4.0);
  t.codes = false;
  EXPECT_EQ(Taker(x, t).value(0, 1, 4), own * 4.0);
  t.scales = true;
  EXPECT_EQ(Taker(x, t).value(0, 1, 4), own * 6.0);
  EXPECT_EQ(Taker(x, t).value(1, 4, 4), 0.0) << "there is no row 6";
  EXPECT_EQ(Taker(x, {"", "", -1}).value(0, 1, 4), Operands::number(4) * 3.0)
      << "the first scale of all";
}

TEST(Taker, LeavesOutScalesThatThereAreNot) {
  Operands o;
  const double own = Operands::number(12);
  Taking t;
  t.unscaled = true;
  EXPECT_EQ(Taker(Sides{o.p, Side::a}, t).value(0, 1, 4), own);
  o.p.a.scales = nullptr;
  EXPECT_EQ(Taker(Sides{o.p, Side::a}, {}).value(0, 1, 4), own);
  Operands flat(true);
  const Tensor scales(Dtype::f32, {8});
  flat.p.a.scales = &scales;
  ASSERT_EQ(flat.p.scale_a(0, 4, 1), -1);
  EXPECT_EQ(Taker(Sides{flat.p, Side::a}, {}).value(0, 4, 1), own);
}

TEST(Taker, AltersTheCodeTaken) {
  const Operands o;
  Taking t;
  t.code = [](std::uint8_t c) { return static_cast<std::uint8_t>(c ^ 0x80); };
  EXPECT_EQ(Taker(Sides{o.p, Side::b}, t).value(1, 2, 5), -Operands::number(53) * 9.0);
}

}  // namespace
}  // namespace mxo
