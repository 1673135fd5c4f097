// Products whose lines, depth or blocks were taken otherwise: what is said, and that it gives what
// came; and near misses, of which nothing is.
#include "tests/golden/product_faults.h"

#include <algorithm>
#include <limits>

namespace mxo {
namespace {

using namespace product_faults;

From later(Index by) {
  return [by](Index i) { return i + by; };
}
Index pairs(Index i) { return i ^ 1; }
Index fours(Index i) { return i ^ 3; }

const Names kX{"x.codes", "x.scales"};
const Names kW{"w.codes", "w.scales"};
const Names kDy{"dy.codes", "dy.scales"};

TEST(ProductFaults, OfLinesAreNamed) {
  const Call call = forward();
  const Call two = forward({{3, 8}, 24, 48});
  const Call columns = gradient({{32, 64}, 20, 16});
  Call plain = call;
  for (const char* name : {"x.scales", "w.scales"}) plain.inputs.erase(name);
  Call shared = call;  // one scale for all
  shared.replace("x.scales", mixed_scales({1}, 2));
  const Call groups = forward({{3, 11, 19}, 16, 64});
  const From of_groups = [](Index i) {
    const Index origin = i < 3 ? 0 : i < 11 ? 3 : 11;
    return origin + ((i - origin) ^ 3);
  };
  const std::string codes = "x.codes=lines: the codes of the rows of x, without their scales, are ";
  const std::string reversed = " (reversed)";
  const Tensor right = multiplied(call);
  Tensor rounded = right;
  for (Index i = 0; i < right.elements(); ++i) rounded.as<float>()[i] *= 1.0001f;
  expect_said(
      add_measured_scales,
      {{call, with_lines(call, kX, 0, later(3)), "x=lines: the rows of x are those of 3 after"},
       {call, with_lines(call, kX, 0, [](Index i) { return (i + 15) % 16; }),
        "x=lines: the rows of x are those of 1 before, wrapping around"},
       {call, with_lines(call, {"x.scales"}, 0, later(-2)),
        "x.scales=source: the scales of x are those of 2 rows before | x.scales=lines: the scales "
        "of the rows of x are those of 2 before"},
       {call, with_lines(call, {"x.codes"}, 0, later(1)), codes + "those of 1 after"},
       {two, with_lines(two, kW, 1, later(-5)), "w=lines: the lines of w are those of 5 before"},
       {columns, with_lines(columns, kDy, 1, later(2)),
        "dy=lines: the columns of dy are those of 2 after"},
       {plain, with_lines(plain, {"x.codes"}, 0, later(1)),
        "x.codes=lines: the rows of x are those of 1 after"},
       {shared, with_lines(shared, {"x.codes"}, 0, later(1)), codes + "those of 1 after"},
       {call, with_lines(call, kX, 0, pairs),
        "x=lines: the rows of x are taken in runs of 2 in the order 1, 0" + reversed},
       {call, with_lines(call, {"w.codes"}, 1, fours),
        "w.codes=lines: the codes of the lines of w, without their scales, are taken in runs of 4 "
        "in the order 3, 2, 1, 0" +
            reversed},
       {groups, with_lines(groups, kX, 0, of_groups),
        "x=lines: the rows of x are taken in runs of 4 in the order 3, 2, 1, 0" + reversed +
            ", from the first row of each group"},
       {call, rounded, ""}});
}

/// Codes that are read `by` elements on along the depth of rows of k.
Call along_k(const Call& call, const std::string& name, Index by, int beyond) {
  const Index k = call.input(name).shape().back();
  const Index n = call.input(name).elements();
  return with_elements(call, {name}, [=](Index i) -> Index {
    const Index c = i % k + by;
    if (beyond == 0) return i + by;
    if (beyond == 1) return (i + by + n) % n;
    if (beyond == 2) return c < 0 || c >= k ? -1 : i + by;
    return i - i % k + (c + k) % k;
  });
}

TEST(ProductFaults, OfShiftsAlongTheDepthAreNamed) {
  const Call call = forward({{2, 4}, 12, 256});
  const Call rows = gradient({{192, 194, 450}, 6, 5});
  const auto read = [](const std::string& side, const std::string& far) {
    return side + ".codes=depth_shifted: the codes of " + side + " are read " + far +
           " their place along K, their scales are not";
  };
  Call plain = call;
  plain.inputs.erase("x.scales");
  Tensor one_wrong = multiplied(along_k(call, "x.codes", 1, 0));
  one_wrong.as<float>()[5] += 1000.0f;
  // Of 96 elements any shift by many fits: what is read beyond the end is not known.
  const Call shorter = forward({{4}, 12, 96});
  Tensor any = multiplied(shorter);
  for (Index i = 0; i < any.elements(); ++i) any.as<float>()[i] = static_cast<float>(i % 7 - 3);
  expect_said(
      add_measured_scales,
      {{call, along_k(call, "x.codes", 1, 0), read("x", "1 element after")},
       {call, along_k(call, "w.codes", -2, 1),
        read("w", "2 elements before") + ", wrapping around at the end of the tensor"},
       {call, along_k(call, "x.codes", -2, 2),
        read("x", "2 elements before") + ", zeros beyond the end"},
       {call, along_k(call, "w.codes", 1, 3), read("w", "1 element after") + ", wrapping around"},
       {plain, along_k(plain, "x.codes", -1, 2),
        "x.codes=depth_shifted: x are read 1 element before their place along K, zeros beyond the "
        "end"},
       {rows,
        with_lines(rows, {"dy.codes"}, 0,
                   [](Index r) {
                     return r < 192   ? (r + 189) % 192
                            : r < 194 ? 192 + (r + 1) % 2
                                      : 194 + (r + 59) % 256;
                   }),
        "dy.codes=depth_shifted: the codes of dy are read 3 rows before their place along the "
        "rows, their scales are not, wrapping around"},
       {call, one_wrong, ""},
       {shorter, any, ""}});
}

/// Sums whose terms count so often as multiple(depth of the whole) says.
Tensor times(const Call& call, const std::function<double(Index)>& multiple) {
  const Product p = *product_of(call);
  return sums(
      call, [&](Index g, Index, Index d, const ProductSides::Line& a, const ProductSides::Line& b) {
        const auto at = static_cast<std::size_t>(d);
        return multiple(p.wgrad ? p.begin(g) + d : d) * a[at] * b[at];
      });
}
std::function<double(Index)> but(std::vector<Index> at, double m) {
  return [=](Index d) { return std::find(at.begin(), at.end(), d) == at.end() ? 1.0 : m; };
}
std::function<double(Index)> blocks(std::vector<double> of) {
  return [=](Index d) { return of[static_cast<std::size_t>(d / 32)]; };
}

TEST(ProductFaults, OfTheDepthAreNamed) {
  const Call call = forward({{6, 12}, 16, 96});
  const Call odd = forward({{6, 12}, 16, 40});
  const Call rows = gradient({{32, 32, 64}, 12, 10});
  const auto left_out = [](const std::string& k) {
    return "k.missing: the products of k = " + k + " are left out";
  };
  const auto row = [&](const Call& c, const std::function<double(Index)>& multiple,
                       const std::string& words) {
    return Row{c, times(c, multiple), words};
  };
  // Terms that do not show are what their neighbours are, if these agree.
  const Call zero = with_codes(forward({{12}, 12, 8}), "w.codes",
                               [](Index i, int code) { return i % 8 == 3 ? 0 : code; });
  const auto mixed_up = [](Index d) { return d == 7 ? 0.0 : d == 8 ? -1.0 : d == 9 ? 2.0 : 1.0; };
  Tensor spoiled = times(odd, but({5, 6}, 0));
  spoiled.as<float>()[8] = std::numeric_limits<float>::infinity();
  expect_said(
      add_measured_scales,
      {row(call, blocks({1, 0, 1}), left_out("32 to 63")),
       row(call, blocks({0, 1, 0}), left_out("0 to 31 and 64 to 95")),
       row(call, blocks({1, 2, 1}),
           "k.twice: the products of k = 32 to 63 are added twice, or scaled by twice their "
           "scales"),
       row(call, blocks({0, 0, 0}), ""),
       row(call, blocks({2, 2, 2}), ""),
       row(odd, but({0, 3, 4, 5, 39}, 0), left_out("0, 3 to 5 and 39")),
       row(odd, but({2, 36}, -1), "k.negative: the products of k = 2 and 36 have the other sign"),
       row(odd, but({5, 6, 33}, 2), "k.twice: the products of k = 5 to 6 and 33 are added twice"),
       row(rows, but({41}, 0), "k.missing: the products of row 41 of dy and x are left out"),
       row(rows, but({41}, -1),
           "k.negative: the products of row 41 of dy and x have the other sign"),
       row(rows, but({41}, 2), ""),
       row(odd, but({}, 1.01), ""),
       row(zero, but({2, 4}, 0), left_out("2 to 4")),
       row(zero, but({2}, 0), left_out("2")),
       {odd, spoiled, left_out("5 to 6")}});
  EXPECT_EQ(said(add_measured_scales, odd, times(odd, mixed_up)), "3 that do not give it")
      << "each gives its own";
}

/// Sums where, in each group, block b of the second side met block met[b] of the first; -1: none.
Tensor met(const Call& call, std::vector<Index> met) {
  return sums(call,
              [&](Index, Index, Index d, const ProductSides::Line& a, const ProductSides::Line& b) {
                const Index from = met[static_cast<std::size_t>(d / 32)];
                const auto at = static_cast<std::size_t>(from * 32 + d % 32);
                return from < 0 || at >= a.size() ? 0.0 : a[at] * b[static_cast<std::size_t>(d)];
              });
}

TEST(ProductFaults, OfBlocksThatMeetOthersAreNamed) {
  const Call call = forward({{3, 9}, 40, 128});
  const Call many = forward({{3, 9}, 40, 192});
  const Call rows = gradient({{96, 192}, 40, 6});
  const Call across = gradient({{80, 160}, 40, 6});  // a scale of two groups
  Call plain = call;
  for (const char* name : {"x.scales", "w.scales"}) plain.inputs.erase(name);
  // Both sides give it with their scales.
  const auto both = [](const std::string& a, const std::string& b, const std::string& words) {
    return a + "=blocks: " + words + " | " + b + "=blocks: " + words;
  };
  const std::string exchanged =
      "k = 64 to 95 of x meet k = 32 to 63 of w, k = 32 to 63 of x meet k = 64 to 95 of w";
  const std::string scales = ", with their scales";
  Tensor noisy = met(call, {0, 2, 1, 3});
  for (Index i = 0; i < noisy.elements(); ++i)
    noisy.as<float>()[i] += static_cast<float>(i % 11) - 5;
  Tensor column = met(call, {0, 2, 1, 3});
  for (Index r = 0; r < 9; ++r) column.as<float>()[r * 40 + 39] += static_cast<float>(40 + r);
  expect_said(
      add_measured_scales,
      {{call, met(call, {0, 2, 1, 3}), both("x", "w", exchanged + scales)},
       {call, met(call, {0, 2, -1, 3}),
        both("x", "w",
             "k = 64 to 95 of x meet k = 32 to 63 of w, k = 64 to 95 of w meet nothing" + scales)},
       {plain, met(plain, {0, 2, 1, 3}), both("x", "w", exchanged)},
       {call, met(call, {0, -1, 2, 3}), "k.missing: the products of k = 32 to 63 are left out"},
       {many, met(many, {1, 0, 3, 2, 5, 4}),
        both("x", "w",
             "k = 32 to 63 of x meet k = 0 to 31 of w, k = 0 to 31 of x meet k = 32 to 63 of w, k "
             "= 96 to 127 of x meet k = 64 to 95 of w, k = 64 to 95 of x meet k = 96 to 127 of w, "
             "and so on for 6 blocks" +
                 scales)},
       {rows, met(rows, {1, 0, 2}),
        both("dy", "x",
             "rows 32 to 63 of dy meet rows 0 to 31 of x, rows 0 to 31 of dy meet rows 32 to 63 "
             "of x (rows of each group)" +
                 scales)},
       {across, met(across, {1, 0, 2}), "2 that do not give it"},
       {call, noisy, ""},
       {call, column, ""}});
}

TEST(ProductFaults, OfScalesOfBytesAreOthers) {
  Call call = forward({{10}, 40, 128});
  for (const char* name : {"x.scales", "w.scales"}) {
    call.replace(name, filled<std::uint8_t>(Dtype::e8m0, call.input(name).shape(),
                                            [](Index i) { return 120 + i % 4 * 3 + i / 4 % 3; }));
  }
  const auto moved = [&](const std::function<int(Index)>& by) {
    return with_codes(call, "x.scales", [&](Index i, int byte) { return byte + by(i); });
  };
  const auto odd = [](Index i) {
    return i / 4 == 6 || i / 4 == 3 ? static_cast<int>(i * 5 % 7) - 9 : 0;
  };
  expect_said(add_measured_scales,
              {{call, moved(odd),
                "x.scales=other: the scales of x are not those that were given: by -9 to -3 "
                "steps in 8 of the 8 blocks that were measured"},
               {call, moved([](Index) { return 2; }), ""},
               {call, moved([](Index i) { return i / 4 == 2; }), ""}});
}

}  // namespace
}  // namespace mxo
