// All of an output times one number: which, in words, and where it is none.
#include <limits>

#include "tests/golden/numbered.h"

namespace mxo {
namespace {

From times(double by) {
  return [by](Index, Index, double v) { return v * by; };
}

Words words_of(Came&& came) { return in_words(recover_one_factor(came.output)); }

Words number(const std::string& text, Index elements) {
  return {"value.factor: all of y: every value is " + text + " times what is expected (" +
          std::to_string(elements) + ")"};
}

TEST(OneFactor, IsTheShortestNumberWithin) {
  for (const auto& [by, text] : {std::pair<double, const char*>{3.0, "3"},
                                 {0.7, "0.7"},
                                 {0.75, "0.75"},
                                 {0.1, "0.1"},
                                 {0.025, "0.025"},
                                 {-3.0, "-3"},
                                 {-2.0, "-2"},
                                 {1.0 / 3.0, "1/3"},
                                 {1.0 / 4095.0, "1/4095"},
                                 {1.0 / 7168.0, "0.000139509"},
                                 {1.0 / 97.0, "1/97"},
                                 {123.0, "123"},
                                 {1230.0, "1230"},
                                 {4093.0, "4093"},
                                 {0.123, "0.123"},
                                 {0.1234, "0.1234"},
                                 {0.5772157, "0.577216"}}) {
    Came came = numbered(Dtype::f32, 8, 16, times(by));
    EXPECT_EQ(in_words(recover_one_factor(came.output)), number(text, 128)) << by;
    EXPECT_EQ(came.output.left, 0);
  }
}

TEST(OneFactor, IsFoundThroughRounding) {
  EXPECT_EQ(words_of(numbered(Dtype::bf16, 64, 64, times(0.7))), number("0.7", 4096));
  EXPECT_EQ(words_of(numbered(Dtype::bf16, 64, 64, times(-0.7))), number("-0.7", 4096));
  EXPECT_EQ(words_of(numbered(Dtype::bf16, 64, 64, times(1.0 / 7.0))), number("1/7", 4096));
  EXPECT_EQ(words_of(numbered(Dtype::f16, 64, 64, times(0.123))), number("0.123", 4096));
  const From small = [](Index, Index, double v) { return v * 0x1p-18; };
  const From tripled = [](Index, Index, double v) { return v * 0x3p-18; };
  EXPECT_EQ(words_of(numbered(Dtype::f16, 64, 64, tripled, small)), number("3", 4096))
      << "of subnormals";
}

TEST(OneFactor, IsNoPowerOfTwo) {
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 16, times(4.0))), Words{});
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 16, times(0.125))), Words{});
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 16, times(1.0 + 0x1p-22))), Words{});
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 16, times(0.0))), Words{});
}

TEST(OneFactor, IsThatOfEveryElement) {
  const auto but_one = [](Index r, Index c, double by) {
    return numbered(Dtype::f32, 8, 16, [=](Index row, Index column, double v) {
      return v * (row == r && column == c ? by : 3.0);
    });
  };
  EXPECT_EQ(words_of(but_one(0, 0, 3.0)), number("3", 128));
  EXPECT_EQ(words_of(but_one(0, 0, 3.001)), Words{});
  EXPECT_EQ(words_of(but_one(7, 15, 2.999)), Words{});
  EXPECT_EQ(words_of(but_one(3, 3, 1.0)), Words{});
  EXPECT_EQ(words_of(but_one(3, 3, -3.0)), Words{});
}

TEST(OneFactor, OfWhatIsZeroOrNoNumberIsAny) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto with = [](double owed, double came) {
    const auto at = [](double one, double by) {
      return [=](Index r, Index c, double v) { return r == 1 && c == 2 ? one : by * v; };
    };
    return words_of(numbered(Dtype::f32, 8, 16, at(came, 3.0), at(owed, 1.0)));
  };
  EXPECT_EQ(with(0.0, 0.0), number("3", 127));
  EXPECT_EQ(with(0.0, 1.0), Words{});
  EXPECT_EQ(with(0.0, -1.0), Words{});
  EXPECT_EQ(with(1.0, 0.0), Words{});
  EXPECT_EQ(with(nan, nan), number("3", 127));
  EXPECT_EQ(with(inf, inf), number("3", 127));
  for (const auto& [owed, came] : {std::pair{nan, 1.0}, {1.0, nan}, {inf, 1.0}, {1.0, inf}}) {
    EXPECT_EQ(with(owed, came), Words{}) << owed << " " << came;
  }
}

TEST(OneFactor, IsToldFromChanceBySixtyFour) {
  EXPECT_EQ(words_of(numbered(Dtype::f32, 8, 8, times(3.0))), number("3", 64));
  EXPECT_EQ(words_of(numbered(Dtype::f32, 7, 9, times(3.0))), Words{});
}

TEST(OneFactor, IsNotLookedForWhereSomethingIsExplained) {
  Came came = numbered(Dtype::f32, 8, 16, times(3.0));
  came.output.settle(5);
  EXPECT_EQ(in_words(recover_one_factor(came.output)), Words{});
}

TEST(OneFactor, IsOfWideFloats) {
  const Tensor ones = filled<std::int32_t>(Dtype::i32, {8, 16}, [](Index) { return 1; });
  const Tensor threes = filled<std::int32_t>(Dtype::i32, {8, 16}, [](Index) { return 3; });
  EXPECT_EQ(words_of(Came(ones, threes)), Words{});
}

TEST(OneFactor, OfTheRowsOwedIsEnough) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {1}, [](Index) { return 4; }));
  const From first_four = [](Index r, Index, double v) { return r < 4 ? 3.0 * v : v; };
  EXPECT_EQ(words_of(numbered(Dtype::f32, 6, 16, first_four, as_it_is, call)), number("3", 64));
}

}  // namespace
}  // namespace mxo
