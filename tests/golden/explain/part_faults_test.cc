// Products of which parts of the depth, rows or lanes were taken otherwise: what is said, and that
// it gives the actual output; and near misses.
#include "tests/golden/planted.h"
#include "tests/golden/product_faults.h"

#include <algorithm>
#include <numeric>

namespace mxo {
namespace {

using namespace product_faults;

const Names kX{"x.codes", "x.scales"};
const Names kDy{"dy.codes", "dy.scales"};

/// Places [first, last) of the depth of every line come from the line `by` on, if there is one.
Call part(const Call& call, const Names& names, Index first, Index last, Index by) {
  Call other = call;
  for (const std::string& name : names) {
    const Tensor& given = call.input(name);
    const Index depth = given.shape().back();
    const Index lines = given.extent(given.rank() - 2);
    const Index unit = name.ends_with("scales") ? 32 : 1;
    other = with_elements(other, {name}, [=](Index i) {
      const Index d = i % depth;
      const Index line = i / depth % lines + by;
      return d >= first / unit && d < last / unit && line >= 0 && line < lines ? i + by * depth : i;
    });
  }
  return other;
}

TEST(PartFaults, OfPartsAreNamed) {
  const Call call = forward({{5, 12}, 24, 96});
  const auto code = [&](const std::string& name, int (*of)(int)) {
    return with_codes(call, name, [=](Index i, int c) { return i % 96 < 64 ? of(c) : c; });
  };
  const Call rows = gradient({{64, 64, 160}, 24, 12});
  const auto group_rows = [&](const Names& names, Index by) {
    Call other = rows;
    for (const std::string& name : names) {
      const Index width = rows.input(name).shape().back();
      const Index unit = name.ends_with("scales") ? 32 : 1;
      other = with_elements(other, {name}, [=](Index i) {
        const Index d = i / width * unit;
        const bool in = (d >= 32 && d < 64) || (d >= 96 && d < 128);
        return in && i % width + by < width ? i + by : i;
      });
    }
    return other;
  };
  const Call deep = forward({{2}, 36, 2080});
  // A scale for every 128 of K; codes of k = 32-63 are zero, and show none.
  const Call coarse = with_codes(forward({{6}, 40, 288, 128}), "x.codes",
                                 [](Index i, int c) { return i % 288 / 32 == 1 ? 0 : c; });
  const Call unscaled = edited<float>(coarse, "x.scales", [](float* s) {
    for (Index i = 0; i < 18; i += 3) s[i] = 1.0f;
  });
  const Call experts = with_elements(
      call, {"w.codes"}, [](Index i) { return i >= 24 * 96 && i % 96 < 32 ? i - 24 * 96 : i; });
  const std::string row_after = " of x is read from 1 row after, ";
  expect_said(
      add_misread_parts,
      {{call, part(call, kX, 32, 64, 1), "x=part: k = 32-63" + row_after + "with its scales"},
       {call, part(call, {"x.codes"}, 32, 64, 2),
        "x.codes=part: k = 32-63 of x is read from 2 rows after, without its scales"},
       {call, part(call, {"x.scales"}, 32, 64, -4),
        "x.scales=part: k = 32-63 of x takes the scales of 4 rows before"},
       {call, part(call, kX, 32, 64, 3), ""},           // no distance that is tried
       {call, part(call, {"x.codes"}, 32, 40, 1), ""},  // no whole run
       {call, part(call, {"w.codes"}, 64, 96, 8),
        "w.codes=part: k = 64-95 of w is read from 8 lines after, without its scales"},
       {call, experts,
        "w.codes=part: k = 0-31 of w is read from the expert before, without its scales"},
       {call, with_elements(call, {"x.codes"}, [](Index i) { return i % 96 < 64 ? i + 32 : i; }),
        "x.codes=part: k = 0-63 of x is read from the depth 32 after, without its scales"},
       {call, code("x.codes", [](int c) { return c & 0x7F; }),
        "x.codes=signs_lost: signs are lost in k = 0-63 of x"},
       {call, code("w.codes", [](int c) { return c ^ 0x80; }),
        "x.codes=negated: signs are turned in k = 0-63 of x | w.codes=negated: signs are turned "
        "in k = 0-63 of w"},
       {call, code("x.codes", [](int) { return 0; }),
        "x.codes=zero: codes are zero in k = 0-63 of x | w.codes=zero: codes are zero in k = "
        "0-63 of w"},
       {call,
        edited<float>(call, "x.scales",
                      [](float* s) {
                        for (Index i = 1; i < 36; i += 3) s[i] = 1.0f;
                      }),
        "x.scales=part_left_out: k = 32-63 of x is not multiplied by its scales"},
       {coarse, unscaled, "x.scales=part_left_out: k = 0-127 of x is not multiplied by its scales"},
       {deep, part(deep, {"x.codes"}, 128, 256, 1),
        "x.codes=part: k = 128-255" + row_after + "without its scales"},
       {deep, part(deep, {"x.codes"}, 64, 96, 1), ""},  // of a long depth runs are of 128
       {rows, group_rows(kDy, 1),
        "dy=part: rows 32 to 63 of each group of dy is read from 1 line after, with its scales"},
       {rows, group_rows({"dy.codes"}, 2),
        "dy.codes=part: rows 32 to 63 of each group of dy is read from 2 lines after, without its "
        "scales"}});
}

// ---- Rows.

/// y where row r is made of row source(r) of x and the weights of expert(r, its group).
Tensor made(
    const Call& call, const std::function<Index(Index, Index)>& expert,
    const From& source = [](Index r) { return r; }) {
  const Product p = *product_of(call);
  Tensor y = multiplied(call);
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index r = p.begin(g); r < p.end(g); ++r) {
      const ProductSides::Line x = p.line_a(0, source(r));
      for (Index j = 0; j < p.n; ++j) {
        const ProductSides::Line w = p.line_b(expert(r, g), j);
        y.as<float>()[r * p.n + j] =
            static_cast<float>(std::inner_product(x.begin(), x.end(), w.begin(), 0.0));
      }
    }
  }
  return y;
}
Index own(Index, Index g) { return g; }

TEST(PartFaults, OfRowsAreNamed) {
  const Call three = forward({{6, 12, 18}, 12, 32});
  const Call five = forward({{4, 8, 12, 16, 20}, 12, 32});
  const Call empty = forward({{6, 6, 18}, 12, 32});
  const Call long_one = forward({{100, 220}, 6, 32});
  const Call one = forward({{140}, 6, 32});
  const auto by = [&](std::vector<Index> experts) {
    return made(five, [=](Index, Index g) { return experts[static_cast<std::size_t>(g)]; });
  };
  const std::string other = "w=other_expert: group";
  const std::string ends = "group_ends=moved: group";
  Tensor zeros = made(three, [](Index r, Index g) { return r == 5 ? 1 : g; });
  std::fill_n(zeros.as<float>() + 16 * 12, 2 * 12, 0.0f);
  Tensor negative = made(one, own, [](Index r) { return r >= 4 && r < 8 ? r + 1 : r; });
  for (Index i = 4 * 6; i < 8 * 6; ++i) negative.as<float>()[i] *= -1.0f;
  const auto shifted = [&](Index far, Index last = 140) {
    return made(one, own,
                [=](Index r) { return r < last ? std::clamp<Index>(r + far, 0, 139) : r; });
  };
  const std::string from_rows = "x=shifted: rows are made of the rows of x ";
  expect_said(
      add_measured_rows,
      {{three, made(three, own), ""},
       {three, made(three, [](Index, Index g) { return g == 1 ? Index{2} : g; }),
        other + " 1 is multiplied by the weights of expert 2"},
       {five, by({1, 2, 3, 4, 0}), other + "s are multiplied by the next expert's weights"},
       {five, by({4, 0, 1, 2, 3}), other + "s are multiplied by the previous expert's weights"},
       {five, by({2, 2, 2, 2, 2}), other + "s are multiplied by the weights of expert 2"},
       {five, by({0, 2, 1, 3, 4}),
        other + " 1 is multiplied by the weights of expert 2 and group 2 is multiplied by the "
                "weights of expert 1"},
       {three, made(three, [](Index r, Index g) { return r == 5 ? 1 : g; }),
        ends + " 0 ends at row 5 rather than 6"},
       {three, made(three, [](Index r, Index g) { return r == 6 || r == 7 ? 0 : g; }),
        ends + " 0 ends at row 8 rather than 6"},
       {three, made(three, [](Index r, Index g) { return r == 5              ? 1
                                                         : r >= 10 && r < 12 ? 2
                                                                             : g; }),
        ends + " 0 ends at row 5 rather than 6 and group 1 ends at row 10 rather than 12"},
       {three, made(three, [](Index r, Index g) { return r == 5    ? 1
                                                         : r == 11 ? 2
                                                                   : g; }),
        ends + "s end 1 row early"},
       {empty, made(empty, [](Index r, Index g) { return r == 4 || r == 5 ? 2 : g; }),
        ends + "s end 2 rows early"},
       {long_one, made(long_one, [](Index r, Index g) { return r >= 39 && r < 100 ? 1 : g; }),
        ends + " 0 ends at row 39 rather than 100"},
       {long_one, made(long_one, [](Index r, Index g) { return r >= 100 && r < 161 ? 0 : g; }),
        ends + " 0 ends at row 161 rather than 100"},
       {three, zeros,
        ends + " 0 ends at row 5 rather than 6 and group 2 ends at row 16 rather than 18"},
       // A whole group over the next one's end, and rows that are no other's.
       {three, made(three, [](Index r, Index g) { return r == 4 || r == 5 ? 2 : g; }),
        "1 that do not give it"},
       {one, shifted(1), from_rows + "1 after them"},
       {one, shifted(64), from_rows + "64 after them"},
       {one, shifted(3), ""},
       {one, shifted(2, 1), ""},
       {one, negative, ""}});
}

// ---- Lanes.

TEST(PartFaults, OfLanesAreNamed) {
  // A scale for each element, those of odd places eight times as large.
  const auto laned = [](Index depth) {
    Call call = forward({{32}, 32, depth, 1});
    for (const char* name : {"x.scales", "w.scales"}) {
      call = edited<float>(call, name, [&](float* s) {
        for (Index i = 1; i < call.input(name).elements(); i += 2) s[i] *= 8.0f;
      });
    }
    return call;
  };
  const Call call = laned(16);
  const Call more = laned(18);
  const Call wide = laned(128);
  const auto order = [](std::vector<Index> list, Index depth, Index unit = 1) {
    return [=](Index i) {
      const Index run = static_cast<Index>(list.size()) * unit;
      if (i >= depth / (16 * unit) * (16 * unit)) return i;
      return i - i % run + list[static_cast<std::size_t>(i % run / unit)] * unit + i % unit;
    };
  };
  const auto row = [&](const Call& c, const char* name, int axis, const From& from,
                       const std::string& words) {
    return Row{c, with_lines(c, {name}, axis, from), words};
  };
  const std::string of_x = "x.codes=lanes: the codes of x are taken in runs of ";
  Tensor rounded = multiplied(call);
  for (Index i = 0; i < rounded.elements(); ++i) rounded.as<float>()[i] *= 1.001f;
  expect_said(
      add_measured_lanes,
      {row(call, "x.codes", 1, order({2, 0, 1, 2}, 16), of_x + "4 along K in the order 2, 0, 1, 2"),
       row(call, "x.codes", 1, order({2, 3, 0, 1}, 16),
           of_x + "4 along K in the order 1, 0, 2 at a time"),
       row(
           call, "x.codes", 1, [](Index i) { return 15 - i; },
           of_x + "16 along K in the order 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0"),
       row(call, "x.codes", 1, order({1, 2, 1, 2}, 16), of_x + "4 along K in the order 1, 2, 1, 2"),
       row(wide, "x.codes", 1, order({0, 2, 3, 3}, 128, 8),
           of_x + "32 along K in the order 0, 2, 3, 3, 8 at a time"),
       row(more, "x.codes", 1, order({2, 0, 1, 2}, 18), of_x + "4 along K in the order 2, 0, 1, 2"),
       row(call, "w.codes", 2, order({1, 3, 3, 2}, 16),
           "w.codes=lanes: the codes of w are taken in runs of 4 along K in the order 1, 3, 3, 2"),
       {call, rounded, ""}});
}

/// All rows differ in one column: the others are not said to be so.
TEST(PartFaults, OfOneColumnAreSaidWithIt) {
  const auto b = make_cpu_backend();
  Call call = mx_product(*b, 11, {{24}, 24, 32, 128});
  call.set.set("out", "f32");
  const Call wrong =
      with_lines(call, {"w.codes"}, 1, [](Index line) { return line == 5 ? 6 : line; });
  const Planted p = planted(*b, call, wrong);
  EXPECT_EQ(explain(*b, p.call, p.expected, p.actual).sentence(),
            "explained: k = 0-127 of w is read from 1 line after, without its scales, in column 5 "
            "of y");
}

/// By explain(), where nothing else is known.
TEST(PartFaults, OfLanesAreExplained) {
  const auto b = make_cpu_backend();
  const Call call = bf16_product(11);
  const Index k = call.input("x").shape().back();
  const Index order[] = {0, 3, 1, 2};
  const Call wrong = with_lines(
      call, {"x"}, 1, [&](Index i) { return i < k / 16 * 16 ? i / 4 * 4 + order[i % 4] : i; });
  const Planted p = planted(*b, call, wrong);
  EXPECT_EQ(explain(*b, p.call, p.expected, p.actual).sentence(),
            "explained: x is taken in runs of 4 along K in the order 0, 3, 1, 2");
}

}  // namespace
}  // namespace mxo
