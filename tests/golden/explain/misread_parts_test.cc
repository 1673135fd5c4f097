// Parts of the depth that were taken from elsewhere in an operand, and what shows them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "golden/explain/find/product/finders.h"
#include "tests/support/random_tensors.h"

namespace mxo {
namespace {

/// Bytes from `first` on, so many of them, in no order.
Tensor random_bytes(std::vector<Index> shape, int first, unsigned many, std::uint64_t seed) {
  Tensor t(Dtype::u8, std::move(shape));
  test::Random random(seed);
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint8_t>()[i] =
        static_cast<std::uint8_t>(first + static_cast<int>(random.word() % many));
  }
  return t;
}

/// Codes of both signs.
Tensor random_codes(std::vector<Index> shape, std::uint64_t seed) {
  Tensor t = random_bytes(std::move(shape), 0x28, 24, seed);
  test::Random random(seed + 1);
  for (Index i = 0; i < t.elements(); ++i) {
    if (random.word() % 2 == 0) t.as<std::uint8_t>()[i] ^= 0x80;
  }
  return t;
}

struct PartShape {
  std::vector<std::int32_t> ends{5, 12};
  Index rows = 12;
  Index n = 24;
  Index k = 96;
};

/// x [rows, k] and w [groups, n, k] of e4m3, with a byte for every 32 of them.
Call mx_call(const PartShape& s = {}) {
  const auto groups = static_cast<Index>(s.ends.size());
  Call call{"grouped_matmul", {}, {}};
  call.replace("x.codes", random_codes({s.rows, s.k}, 1));
  call.replace("x.scales", random_bytes({s.rows, ceil_div(s.k, 32)}, 124, 6, 3));
  call.replace("w.codes", random_codes({groups, s.n, s.k}, 5));
  call.replace("w.scales", random_bytes({groups, s.n, ceil_div(s.k, 32)}, 124, 6, 7));
  call.replace("group_ends", test::group_ends_of(s.ends));
  return call;
}

/// The same of dy [rows, 12] and x [rows, n], along the rows of groups.
Call mx_gradient_call(const std::vector<std::int32_t>& ends, Index rows, Index n = 24) {
  Call call{"grouped_matmul_wgrad", {}, {}};
  call.replace("dy.codes", random_codes({rows, 12}, 1));
  call.replace("dy.scales", random_bytes({ceil_div(rows, 32), 12}, 124, 6, 3));
  call.replace("x.codes", random_codes({rows, n}, 5));
  call.replace("x.scales", random_bytes({ceil_div(rows, 32), n}, 124, 6, 7));
  call.replace("group_ends", test::group_ends_of(ends));
  return call;
}

/// Every sum of a call.
Tensor sums(const Call& call, Dtype type = Dtype::f32) {
  const Product p = *product_of(call);
  Tensor y = p.wgrad ? Tensor(type, {p.groups(), p.a_lines, p.n}) : Tensor(type, {p.a_lines, p.n});
  for (Index g = 0; g < p.groups(); ++g) {
    for (Index i = p.first_line(g); i < p.last_line(g); ++i) {
      const auto a = p.line_a(g, i);
      for (Index j = 0; j < p.n; ++j) {
        const auto b = p.line_b(g, j);
        double sum = 0.0;
        for (std::size_t d = 0; d < a.size(); ++d) sum += a[d] * b[d];
        test::put(y, p.output_row(g, i) * p.n + j, static_cast<float>(sum));
      }
    }
  }
  return y;
}

/// `call` with operand `name` edited: edit(copy, given).
using Edit = std::function<void(std::uint8_t* to, const std::uint8_t* given)>;
Call edited(const Call& call, const std::string& name, const Edit& edit) {
  Call other = call;
  Tensor t = call.input(name);
  edit(t.as<std::uint8_t>(), call.input(name).as<std::uint8_t>());
  other.replace(name, std::move(t));
  return other;
}

std::vector<Hypothesis> misread(const Call& call, const Tensor& expected, const Tensor& actual) {
  std::vector<Hypothesis> list;
  const Product p = *product_of(call);
  add_misread_parts(call, make_output(call, p.output, expected, actual), list);
  return list;
}

/// The names and phrases of what is said of `call` where it came as `other`, by its sums, and only
/// what gives them exactly.
std::string said(const Call& call, const Call& other, Dtype type = Dtype::f32) {
  const Tensor actual = sums(other, type);
  std::string text;
  for (const Hypothesis& h : misread(call, sums(call, type), actual)) {
    Call altered = call;
    if (!h.alter(altered)) ADD_FAILURE() << h.name;
    EXPECT_EQ(h.stage, Stage::input);
    const Tensor made = sums(altered, type);
    if (!std::equal(made.data(), made.data() + made.bytes(), actual.data())) continue;
    text += (text.empty() ? "" : " | ") + h.name + ": " + h.phrase;
  }
  return text.empty() ? "nothing" : text;
}

constexpr Index kRows = 12;
constexpr Index kN = 24;
constexpr Index kK = 96;

/// Elements [first, last) of every line of `depth` come from `by` lines on, where there are any.
Edit from_lines(Index lines, Index depth, Index first, Index last, Index by) {
  return [=](std::uint8_t* to, const std::uint8_t* given) {
    for (Index i = 0; i < lines; ++i) {
      if (i + by < 0 || i + by >= lines) continue;
      for (Index d = first; d < last; ++d) to[i * depth + d] = given[(i + by) * depth + d];
    }
  };
}

/// Of x, k = 32-63: codes, scales or both.
std::string of_x(Index by, bool codes, bool scales) {
  const Call call = mx_call();
  Call other = call;
  if (codes) other = edited(other, "x.codes", from_lines(kRows, kK, 32, 64, by));
  if (scales) other = edited(other, "x.scales", from_lines(kRows, 3, 1, 2, by));
  return said(call, other);
}

TEST(MisreadParts, AreThoseOfOtherRows) {
  EXPECT_EQ(of_x(-1, true, true),
            "x=part: k = 32-63 of x is read from 1 row before, with its scales");
  EXPECT_EQ(of_x(1, true, true),
            "x=part: k = 32-63 of x is read from 1 row after, with its scales");
  EXPECT_EQ(of_x(2, true, false),
            "x.codes=part: k = 32-63 of x is read from 2 rows after, without its scales");
  EXPECT_EQ(of_x(-4, false, true),
            "x.scales=part: k = 32-63 of x takes the scales of 4 rows before");
  EXPECT_EQ(of_x(3, true, true), "nothing") << "no distance that is tried";
  const Call call = mx_call();
  EXPECT_EQ(said(call, edited(call, "x.codes", from_lines(kRows, kK, 32, 64, 1)), Dtype::bf16),
            "x.codes=part: k = 32-63 of x is read from 1 row after, without its scales");
}

TEST(MisreadParts, AreThoseOfOtherLinesOfW) {
  const Call call = mx_call();
  const auto lines = [](Index by, Index depth, Index first, Index last) {
    return [=](std::uint8_t* to, const std::uint8_t* given) {
      for (Index g = 0; g < 2; ++g) {
        from_lines(kN, depth, first, last, by)(to + g * kN * depth, given + g * kN * depth);
      }
    };
  };
  Call other = edited(call, "w.codes", lines(8, kK, 64, 96));
  EXPECT_EQ(said(call, other),
            "w.codes=part: k = 64-95 of w is read from 8 lines after, without its scales");
  other = edited(other, "w.scales", lines(8, 3, 2, 3));
  EXPECT_EQ(said(call, other),
            "w=part: k = 64-95 of w is read from 8 lines after, with its scales");
}

TEST(MisreadParts, AreThoseOfOtherDepths) {
  const Call call = mx_call();
  const auto shift = [](Index lines, Index depth, Index first, Index last, Index by) {
    return [=](std::uint8_t* to, const std::uint8_t* given) {
      for (Index i = 0; i < lines; ++i) {
        for (Index d = first; d < last; ++d) to[i * depth + d] = given[i * depth + d + by];
      }
    };
  };
  Call other = edited(call, "x.codes", shift(kRows, kK, 0, 64, 32));
  EXPECT_EQ(said(call, other),
            "x.codes=part: k = 0-63 of x is read from the depth 32 after, without its scales");
  other = edited(other, "x.scales", shift(kRows, 3, 0, 2, 1));
  EXPECT_EQ(said(call, other),
            "x=part: k = 0-63 of x is read from the depth 32 after, with its scales");
  other = edited(call, "w.codes", shift(2 * kN, kK, 64, 96, -64));
  EXPECT_EQ(said(call, other),
            "w.codes=part: k = 64-95 of w is read from the depth 64 before, without its scales");
}

TEST(MisreadParts, AreThoseOfOtherExperts) {
  const Call call = mx_call();
  const auto expert = [](Index from, Index to_expert) {
    return [=](std::uint8_t* to, const std::uint8_t* given) {
      for (Index j = 0; j < kN; ++j) {
        for (Index d = 0; d < 32; ++d) {
          to[(to_expert * kN + j) * kK + d] = given[(from * kN + j) * kK + d];
        }
      }
    };
  };
  EXPECT_EQ(said(call, edited(call, "w.codes", expert(0, 1))),
            "w.codes=part: k = 0-31 of w is read from the expert before, without its scales");
  EXPECT_EQ(said(call, edited(call, "w.codes", expert(1, 0))),
            "w.codes=part: k = 0-31 of w is read from the expert after, without its scales");
}

/// Of the first 64 of x: its codes by `code`, or scales of 1.
TEST(MisreadParts, AreOfOtherCodesOrNoScales) {
  const Call call = mx_call();
  const auto code = [&](const char* name, Index n, std::uint8_t (*of)(std::uint8_t)) {
    return said(call, edited(call, name, [=](std::uint8_t* to, const std::uint8_t* given) {
                  for (Index i = 0; i < n; ++i) {
                    if (i % kK < 64) to[i] = of(given[i]);
                  }
                }));
  };
  EXPECT_EQ(code("x.codes", kRows * kK,
                 [](std::uint8_t c) { return static_cast<std::uint8_t>(c & 0x7F); }),
            "x.codes=signs_lost: signs are lost in k = 0-63 of x");
  EXPECT_EQ(code("w.codes", 2 * kN * kK,
                 [](std::uint8_t c) { return static_cast<std::uint8_t>(c ^ 0x80); }),
            "x.codes=negated: signs are turned in k = 0-63 of x | w.codes=negated: signs are "
            "turned in k = 0-63 of w");
  EXPECT_EQ(code("x.codes", kRows * kK, [](std::uint8_t) { return std::uint8_t{0}; }),
            "x.codes=zero: codes are zero in k = 0-63 of x | w.codes=zero: codes are zero in k = "
            "0-63 of w");
  const Call ones = edited(call, "x.scales", [](std::uint8_t* to, const std::uint8_t*) {
    for (Index i = 0; i < kRows * 3; ++i) {
      if (i % 3 == 1) to[i] = 127;
    }
  });
  EXPECT_EQ(said(call, ones),
            "x.scales=part_left_out: k = 32-63 of x is not multiplied by its scales");
}

TEST(MisreadParts, OfGradientsAreRowsOfGroups) {
  const Call call = mx_gradient_call({64, 64, 160}, 170);
  const auto columns = [](Index width, Index by, bool every_block) {
    return [=](std::uint8_t* to, const std::uint8_t* given) {
      // Rows 32 to 63 of groups 0 and 2, codes or one scale for each.
      for (const Index first : {Index{32}, Index{96}}) {
        for (Index d = first / (every_block ? 1 : 32); d < (first + 32) / (every_block ? 1 : 32);
             ++d) {
          for (Index i = 0; i < width; ++i) {
            if (i + by >= 0 && i + by < width) to[d * width + i] = given[d * width + i + by];
          }
        }
      }
    };
  };
  Call other = edited(call, "dy.codes", columns(12, 1, true));
  EXPECT_EQ(said(call, other),
            "dy.codes=part: rows 32 to 63 of each group of dy is read from 1 line after, without "
            "its scales");
  other = edited(other, "dy.scales", columns(12, 1, false));
  EXPECT_EQ(said(call, other),
            "dy=part: rows 32 to 63 of each group of dy is read from 1 line after, with its "
            "scales");
  other = edited(call, "x.scales", columns(24, -4, false));
  EXPECT_EQ(said(call, other),
            "x.scales=part: rows 32 to 63 of each group of x takes the scales of 4 lines before");
}

TEST(MisreadParts, AreOfOperandsWithoutScales) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("x", test::random_floats(Dtype::bf16, {kRows, kK}, 1, 1));
  call.replace("w", test::random_floats(Dtype::bf16, {2, kN, kK}, 2, 1));
  call.replace("group_ends", test::group_ends_of({5, 12}));
  Call other = call;
  Tensor x = call.input("x");
  for (Index i = 1; i < kRows; ++i) {
    for (Index d = 32; d < 64; ++d) {
      x.as<BF16>()[i * kK + d] = call.input("x").as<BF16>()[(i - 1) * kK + d];
    }
  }
  other.replace("x", x);
  EXPECT_EQ(said(call, other), "x=part: k = 32-63 of x is read from 1 row before");
}

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Row i takes elements [first, last) of row i + 1; the last row keeps its own.
Edit from_next_row(Index rows, Index depth, Index first, Index last) {
  return [=](std::uint8_t* to, const std::uint8_t* given) {
    for (Index i = 0; i + 1 < rows; ++i) {
      for (Index d = first; d < last; ++d) to[i * depth + d] = given[(i + 1) * depth + d];
    }
  };
}

const std::string kNext = " of x is read from 1 row after, without its scales";

std::string next_row(const PartShape& shape, Index first, Index last) {
  const Call call = mx_call(shape);
  return said(call, edited(call, "x.codes", from_next_row(shape.rows, shape.k, first, last)));
}

TEST(MisreadParts, MayHoldTheFirstAndTheLastOfK) {
  EXPECT_EQ(next_row({}, 0, 32), "x.codes=part: k = 0-31" + kNext);
  EXPECT_EQ(next_row({{5, 12}, 12, 24, 80}, 64, 80), "x.codes=part: k = 64-79" + kNext);
  EXPECT_EQ(next_row({{5, 12}, 12, 24, 32}, 0, 32), "x.codes=part: k = 0-31" + kNext);
  EXPECT_EQ(next_row({}, 32, 40), "nothing") << "no whole run";
  const Call call = mx_call();
  const Call scales = edited(call, "x.scales", from_next_row(12, 3, 0, 1));
  EXPECT_EQ(said(call, scales), "x.scales=part: k = 0-31 of x takes the scales of 1 row after");
  const Call before = edited(call, "x.scales", [](std::uint8_t* to, const std::uint8_t* given) {
    for (Index i = 3; i < 36; i += 3) to[i] = given[i - 3];
  });
  EXPECT_EQ(said(call, before), "x.scales=part: k = 0-31 of x takes the scales of 1 row before");
}

/// Sums whose part of x came without signs, and then changed by `change`.
std::vector<std::string> names(const std::function<void(Tensor&)>& change,
                               const PartShape& shape = {}) {
  const Call call = mx_call(shape);
  Tensor came = sums(edited(call, "x.codes", [&](std::uint8_t* to, const std::uint8_t*) {
    for (Index i = 0; i < shape.rows * shape.k; ++i) {
      if (i % shape.k < 32) to[i] &= 0x7F;
    }
  }));
  change(came);
  std::vector<std::string> list;
  for (const Hypothesis& h : misread(call, sums(call), came)) list.push_back(h.name);
  return list;
}

/// Runs are of 32, and of 128 where the depth is more than 2048.
TEST(MisreadParts, AreCoarserInALongDepth) {
  EXPECT_EQ(next_row({{2}, 2, 104, 2048}, 64, 96), "x.codes=part: k = 64-95" + kNext);
  EXPECT_EQ(next_row({{2}, 2, 36, 2080}, 64, 96), "nothing");
  EXPECT_EQ(next_row({{2}, 2, 36, 2080}, 128, 256), "x.codes=part: k = 128-255" + kNext);
}

/// What would lie past the end of K stays as it is.
TEST(MisreadParts, EndWhereKEnds) {
  const Call call = mx_call({{1}, 1, 36, 2080});
  const Call other = edited(call, "x.codes", [](std::uint8_t* to, const std::uint8_t* given) {
    for (Index d = 1920; d < 2016; ++d) to[d] = given[d + 64];
  });
  EXPECT_EQ(said(call, other),
            "x.codes=part: k = 1920-2047 of x is read from the depth 64 after, without its scales");
}

/// The rows of a group of eight that fail, and those that are said to be altered.
std::vector<Index> altered_rows(const std::vector<Index>& failing) {
  const Call call = mx_call({{8}, 8, 32, 64});
  const Call other = edited(call, "x.codes", [](std::uint8_t* to, const std::uint8_t* given) {
    for (Index i = 0; i < 8 * 64; ++i) to[i] = i % 64 < 32 ? given[i] & 0x7F : given[i];
  });
  Tensor came = sums(call);
  const Tensor wrong = sums(other);
  for (const Index i : failing)
    std::copy_n(wrong.as<float>() + i * 32, 32, came.as<float>() + i * 32);
  for (const Hypothesis& h : misread(call, sums(call), came)) {
    if (h.name != "x.codes=signs_lost") continue;
    EXPECT_EQ(h.phrase, "signs are lost in k = 0-31 of x");
    Call altered = call;
    EXPECT_TRUE(h.alter(altered));
    std::vector<Index> rows;
    for (Index i = 0; i < 8; ++i) {
      const auto row = [&](const Call& c) {
        return c.input("x.codes").as<std::uint8_t>() + i * 64;
      };
      if (!std::equal(row(call), row(call) + 64, row(altered))) rows.push_back(i);
    }
    return rows;
  }
  return {};
}

TEST(MisreadParts, FillSmallGapsBetweenLines) {
  using Rows = std::vector<Index>;
  EXPECT_EQ(altered_rows({2, 3, 4}), (Rows{2, 3, 4}));
  EXPECT_EQ(altered_rows({2, 3, 5}), (Rows{2, 3, 4, 5})) << "three of four";
  EXPECT_EQ(altered_rows({2, 4, 5, 7}), (Rows{2, 4, 5, 7})) << "four of six";
  EXPECT_EQ(altered_rows({1, 3}), (Rows{1, 3}));
  EXPECT_EQ(altered_rows({0, 1, 3, 4, 5, 7}), (Rows{0, 1, 2, 3, 4, 5, 6, 7}));
}

/// x with f32 scales for every 128 of K; w with one for each line.
/// Its codes of k = 32-63 are zero, and show no scale.
Call blockwise_call() {
  Call call =
      edited(mx_call({{6}, 6, 40, 288}), "x.codes", [](std::uint8_t* to, const std::uint8_t*) {
        for (Index i = 0; i < 6 * 288; ++i) {
          if (i % 288 / 32 == 1) to[i] = 0;
        }
      });
  const auto numbers = [](std::vector<Index> shape) {
    Tensor t(Dtype::f32, std::move(shape));
    test::Random random(9);
    for (Index i = 0; i < t.elements(); ++i) t.as<float>()[i] = 1.5f + random.unit();
    return t;
  };
  call.replace("x.scales", numbers({6, 3}));
  call.replace("w.scales", numbers({1, 40}));
  return call;
}

TEST(MisreadParts, OfScalesAreWholeBlocks) {
  const Call call = blockwise_call();
  const auto scales = [&](Index first, Index last, const std::function<float(Index)>& of) {
    Call other = call;
    Tensor t = call.input("x.scales");
    for (Index i = 0; i < 18; ++i) {
      if (i % 3 >= first && i % 3 < last) t.as<float>()[i] = of(i);
    }
    other.replace("x.scales", t);
    return said(call, other);
  };
  const float* given = call.input("x.scales").as<float>();
  const std::string after = " of x takes the scales of 2 rows after";
  const auto next = [&](Index i) { return i < 12 ? given[i + 6] : given[i]; };
  EXPECT_EQ(scales(0, 1, next), "x.scales=part: k = 0-127" + after);
  EXPECT_EQ(scales(1, 3, next), "x.scales=part: k = 128-287" + after);
  const std::string out = " of x is not multiplied by its scales";
  EXPECT_EQ(scales(0, 1, [](Index) { return 1.0f; }), "x.scales=part_left_out: k = 0-127" + out);
  EXPECT_EQ(scales(2, 3, [](Index) { return 1.0f; }), "x.scales=part_left_out: k = 256-287" + out);
  // Codes are not.
  EXPECT_EQ(said(call, edited(call, "x.codes", from_next_row(6, 288, 64, 96))),
            "x.codes=part: k = 64-95" + kNext);
  // Runs of 128, and a scale for every 32.
  const Call fine = mx_call({{2}, 2, 36, 2080});
  EXPECT_EQ(said(fine, edited(fine, "x.scales", from_next_row(2, 65, 4, 8))),
            "x.scales=part: k = 128-255 of x takes the scales of 1 row after");
}

TEST(MisreadParts, AreOfSumsThatAreNumbers) {
  using Names = std::vector<std::string>;
  const Names lost{"x.codes=signs_lost"};
  EXPECT_EQ(names([](Tensor&) {}), lost);
  for (const float odd : {std::numeric_limits<float>::infinity(), kNaN}) {
    EXPECT_EQ(names([&](Tensor& y) { std::fill_n(y.as<float>(), y.elements(), odd); }), Names{});
  }
  EXPECT_EQ(names([](Tensor& y) { std::fill_n(y.as<float>(), y.elements(), 0.0f); }), Names{});
}

/// Half of the columns came as expected: the others tell.
TEST(MisreadParts, AreMeasuredWhereSumsDiffer) {
  const PartShape shape{{5, 12}, 12, 48, 96};
  const Tensor expected = sums(mx_call(shape));
  EXPECT_EQ(names(
                [&](Tensor& y) {
                  for (Index i = 0; i < y.elements(); ++i) {
                    if (i % 2 == 0) y.as<float>()[i] = expected.as<float>()[i];
                  }
                },
                shape),
            std::vector<std::string>{"x.codes=signs_lost"});
}

TEST(MisreadParts, AreOfTheSumsOfAProduct) {
  const Call call = mx_call();
  const Tensor expected = sums(call);
  const Tensor actual = sums(edited(call, "x.codes", from_next_row(12, 96, 0, 32)));
  const auto count = [&](const Call& of, const char* name, const Tensor& came) {
    std::vector<Hypothesis> list;
    add_misread_parts(of, make_output(of, name, expected, came), list);
    return list.size();
  };
  EXPECT_EQ(count(call, "y", actual), 1u);
  EXPECT_EQ(count(call, "dw", actual), 0u);
  EXPECT_EQ(count(call, "y", expected), 0u);
  Call other = call;
  other.op = "permute";
  EXPECT_EQ(count(other, "y", actual), 0u);
  Output settled = make_output(call, "y", expected, actual);
  for (Index i = 0; i < expected.elements(); ++i) settled.settle(i);
  std::vector<Hypothesis> list;
  add_misread_parts(call, settled, list);
  EXPECT_TRUE(list.empty());
}

/// A gradient of groups that have no rows.
TEST(MisreadParts, AreOfSomeDepth) {
  const Call call = mx_gradient_call({0, 0}, 32);
  const Tensor expected = sums(call);
  Tensor came = expected;
  std::fill_n(came.as<float>(), came.elements(), 1.0f);
  EXPECT_TRUE(misread(call, expected, came).empty());
}

}  // namespace
}  // namespace mxo
