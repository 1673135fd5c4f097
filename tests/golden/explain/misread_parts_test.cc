// Parts of the depth that were taken from elsewhere in an operand: from where.
#include "tests/golden/misread_calls.h"

namespace mxo {
namespace {

using namespace misread_calls;

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

}  // namespace
}  // namespace mxo
