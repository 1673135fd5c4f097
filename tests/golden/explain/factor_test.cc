// Rows and columns times powers of two: which are named, and what is no such factor.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "golden/explain/find/output/recover.h"
#include "tests/golden/came.h"

namespace mxo {
namespace {

using Words = std::vector<std::string>;
using By = std::function<double(Index row, Index column)>;

double value_of(Index i) { return 1.0 + static_cast<double>(i % 7) / 8.0; }

Tensor floats_of(Index rows, Index columns, const By& by) {
  return filled<float>(Dtype::f32, {rows, columns},
                       [&](Index i) { return value_of(i) * by(i / columns, i % columns); });
}

/// Numbers of which (r, c) came times by(r, c).
Came times(Index rows, Index columns, const By& by, const Call& call = {"any", {}, {}}) {
  return {floats_of(rows, columns, [](Index, Index) { return 1.0; }), floats_of(rows, columns, by),
          call};
}

Words sentences(Came& came) {
  Words words;
  for (const Claim& c : recover_factors(came.output)) {
    EXPECT_EQ(c.id, "value.power_of_2");
    EXPECT_EQ(c.where.tensor, "y");
    words.push_back(c.sentence + " (" + std::to_string(std::lround(c.elements)) + ")");
  }
  return words;
}

/// The words where row 1 of 3 x 9 came times 4, but for its first element.
Words with_one(double owed, double came) {
  Tensor expected = floats_of(3, 9, [](Index, Index) { return 1.0; });
  Tensor actual = floats_of(3, 9, [](Index r, Index) { return r == 1 ? 4.0 : 1.0; });
  expected.as<float>()[9] = static_cast<float>(owed);
  actual.as<float>()[9] = static_cast<float>(came);
  Came pair(std::move(expected), std::move(actual));
  return sentences(pair);
}

TEST(Factors, OfAllAreOne) {
  Came came = times(3, 4, [](Index, Index) { return 4.0; });
  EXPECT_EQ(sentences(came), Words{"all of y: every value is multiplied by 2^2 (12)"});
  EXPECT_EQ(came.output.left, 0);
}

TEST(Factors, OfRowsNameThem) {
  Came came = times(4, 4, [](Index r, Index) { return r == 1 || r == 2 ? 0.125 : 1.0; });
  EXPECT_EQ(sentences(came), Words{"rows 1 to 2 of y: every value is multiplied by 2^-3 (8)"});
  EXPECT_EQ(came.output.left, 0);
}

TEST(Factors, OfColumnsNameThem) {
  Came came = times(8, 4, [](Index, Index c) { return c == 0 ? 2.0 : 1.0; });
  EXPECT_EQ(sentences(came), Words{"column 0 of y: every value is multiplied by 2^1 (8)"});
  EXPECT_EQ(came.output.left, 0);
}

TEST(Factors, UpToThreeAreNamedEach) {
  const auto by = [](Index line) { return std::exp2(static_cast<double>(line % 4)); };
  Came rows = times(4, 8, [&](Index r, Index) { return by(r); });
  const Words each{"row 1 of y: every value is multiplied by 2^1 (8)",
                   "row 2 of y: every value is multiplied by 2^2 (8)",
                   "row 3 of y: every value is multiplied by 2^3 (8)"};
  EXPECT_EQ(sentences(rows), each);
  EXPECT_EQ(rows.output.left, 0);
}

TEST(Factors, OfMoreAreNamedTogether) {
  const auto by = [](Index line) { return std::exp2(static_cast<double>(line - 4)); };
  Came rows = times(4, 3, [&](Index r, Index) { return by(r); });
  EXPECT_EQ(
      sentences(rows),
      Words{"all of y: every row is multiplied by a power of two of its own, 2^-4 to 2^-1 (12)"});
  EXPECT_EQ(rows.output.left, 0);
  Came columns = times(3, 5, [&](Index, Index c) { return by(c); });
  EXPECT_EQ(sentences(columns),
            Words{"columns 0 to 3 of y: every column is multiplied by a power of two of its own, "
                  "2^-4 to 2^-1 (12)"});
}

TEST(Factors, OfEightElementsAreNamed) {
  const auto words = [](Index columns, double second) {
    Came came = times(3, columns, [&](Index r, Index) {
      return r == 0 ? 2.0 : r == 1 ? second : 1;
    });
    return sentences(came);
  };
  EXPECT_EQ(words(8, 1.0), Words{"row 0 of y: every value is multiplied by 2^1 (8)"});
  EXPECT_EQ(words(7, 1.0), Words{});
  EXPECT_EQ(words(7, 4.0), Words{}) << "seven of each";
  EXPECT_EQ(words(7, 2.0), Words{"rows 0 to 1 of y: every value is multiplied by 2^1 (14)"});
}

TEST(Factors, ThatAreFewerForAsManyAreTaken) {
  // Eight elements each: two rows of four, whose others are zero, and one column.
  const auto words = [](double second) {
    const auto zero = [](Index r, Index c) { return r < 2 && c >= 4; };
    const auto by = [&](Index r, Index c) {
      if (zero(r, c)) return 0.0;
      if (r < 2) return r == 0 ? 2.0 : second;
      return c == 8 ? 8.0 : 1.0;
    };
    Came came(floats_of(10, 9, [&](Index r, Index c) { return zero(r, c) ? 0.0 : 1.0; }),
              floats_of(10, 9, by));
    return sentences(came);
  };
  EXPECT_EQ(words(4.0),
            Words{"column 8 of rows 2 to 9 of y: every value is multiplied by 2^3 (8)"});
  EXPECT_EQ(words(2.0),
            Words{"columns 0 to 3 of rows 0 to 1 of y: every value is multiplied by 2^1 (8)"});
}

TEST(Factors, OfZeroAreAny) {
  const Words row{"columns 1 to 8 of row 1 of y: every value is multiplied by 2^2 (8)"};
  EXPECT_EQ(with_one(0.0, 0.0), row);
  EXPECT_EQ(with_one(1.0, 0.0), Words{});
  EXPECT_EQ(with_one(0.0, 1.0), Words{});
}

TEST(Factors, AreTheSameInAllOfALine) {
  EXPECT_EQ(with_one(1.5, 6.0), Words{"row 1 of y: every value is multiplied by 2^2 (9)"});
  EXPECT_EQ(with_one(1.5, 3.0), Words{}) << "another power";
  EXPECT_EQ(with_one(1.5, 4.5), Words{}) << "no power";
  EXPECT_EQ(with_one(1.5, -6.0), Words{}) << "another sign";
  EXPECT_EQ(with_one(1.5, 1.5), Words{}) << "as it should be";
  Came first = times(2, 9, [](Index r, Index c) { return r == 1 ? 1.0 : c == 0 ? 3.0 : 4.0; });
  EXPECT_EQ(sentences(first), Words{});
}

TEST(Factors, AreOfNumbers) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(with_one(nan, 4.0), Words{});
  EXPECT_EQ(with_one(1.0, nan), Words{});
  EXPECT_EQ(with_one(inf, 4.0), Words{});
  EXPECT_EQ(with_one(1.0, inf), Words{});
  EXPECT_EQ(with_one(nan, nan), Words{});
  EXPECT_EQ(with_one(inf, inf), Words{});
}

TEST(Factors, PassOverWhatIsExplained) {
  Came came = times(3, 9, [](Index r, Index c) { return r != 1 ? 1.0 : c == 2 ? 3.0 : 4.0; });
  came.output.settle(9 + 2);
  EXPECT_EQ(sentences(came),
            Words{"columns 0 to 1 and 3 to 8 of row 1 of y: every value is multiplied by 2^2 (8)"});
  EXPECT_EQ(came.output.left, 0);
}

TEST(Factors, EndWithTheRowsOwed) {
  Call call{"grouped_matmul", {}, {}};
  call.replace("group_ends", filled<std::int32_t>(Dtype::i32, {1}, [](Index) { return 8; }));
  Came came = times(
      10, 3, [](Index r, Index c) { return r < 8 && c == 0 ? 2.0 : 1.0; }, call);
  EXPECT_EQ(sentences(came), Words{"column 0 of y: every value is multiplied by 2^1 (8)"});
}

TEST(Factors, AreOfWideFloats) {
  const auto claims = [](Dtype dtype, auto one, auto two) {
    Came came(filled<decltype(one)>(dtype, {8}, [&](Index) { return one; }),
              filled<decltype(one)>(dtype, {8}, [&](Index) { return two; }));
    return sentences(came).size();
  };
  EXPECT_EQ(claims(Dtype::bf16, std::uint16_t{0x3F80}, std::uint16_t{0x4000}), 1u);
  EXPECT_EQ(claims(Dtype::f16, std::uint16_t{0x3C00}, std::uint16_t{0x4000}), 1u);
  EXPECT_EQ(claims(Dtype::f64, 1.0, 2.0), 0u);
  EXPECT_EQ(claims(Dtype::e4m3, std::uint8_t{0x38}, std::uint8_t{0x40}), 0u);
  EXPECT_EQ(claims(Dtype::i32, std::int32_t{1}, std::int32_t{2}), 0u);
}

}  // namespace
}  // namespace mxo
