// Causes confirmed and placed: piece by piece of a product, or by some rows and columns.
#include <gtest/gtest.h>

#include "tests/golden/small_bench.h"

namespace mxo {
namespace {

/// x [rows, k] and w [1, n, k] of bytes: every line begins with its number, low byte first.
Call numbered_product(Index rows, Index n, Index k = 2) {
  Call call{"grouped_matmul", {}, {}};
  const auto numbered = [k](std::vector<Index> shape, Index lines) {
    Tensor t(Dtype::u8, std::move(shape));
    for (Index i = 0; i < lines; ++i) {
      t.as<std::uint8_t>()[i * k] = static_cast<std::uint8_t>(i % 256);
      t.as<std::uint8_t>()[i * k + 1] = static_cast<std::uint8_t>(i / 256);
    }
    return t;
  };
  call.replace("x", numbered({rows, k}, rows));
  call.replace("w", numbered({1, n, k}, n));
  call.replace("group_ends", ends_at({rows}));
  return call;
}

/// The numbers of the lines of an operand that was cut, in its first group.
std::vector<Index> numbers_of(const Tensor& t) {
  const Index k = t.shape().back();
  std::vector<Index> numbers;
  for (Index i = 0; i < t.extent(t.rank() - 2) * k; i += k) {
    numbers.push_back(t.as<std::uint8_t>()[i] + 256 * t.as<std::uint8_t>()[i + 1]);
  }
  return numbers;
}

using Value = std::function<float(Index row, Index column)>;

/// A cause that gives value(row, column), and runs in place of a numbered product.
Hypothesis that_gives(std::string name, Value value) {
  Hypothesis h{name, ""};
  h.phrase = "it is " + name;
  h.run = [value = std::move(value)](Backend&, const Call& call) {
    const std::vector<Index> rows = numbers_of(call.input("x"));
    const std::vector<Index> columns = numbers_of(call.input("w"));
    Tensor y(Dtype::f32, {static_cast<Index>(rows.size()), static_cast<Index>(columns.size())});
    float* to = y.as<float>();
    for (const Index r : rows) {
      for (const Index c : columns) *to++ = value(r, c);
    }
    NamedTensors out;
    out.emplace("y", std::move(y));
    return out;
  };
  return h;
}

/// A numbered product that expects zeros, of which value(row, column) came.
SmallBench of_zeros(Index rows, Index n, const Value& value, Index k = 2) {
  Tensor got(Dtype::f32, {rows, n});
  for (Index i = 0; i < got.elements(); ++i) got.as<float>()[i] = value(i / n, i % n);
  return {numbered_product(rows, n, k), Tensor(Dtype::f32, {rows, n}), std::move(got)};
}

/// What a cause that gives `model` explains of a product of which `came` came, and the windows.
struct Pieces {
  Pieces(Index rows, Index n, Value got, const Value& model, Stage stage = Stage::rule)
      : b(of_zeros(rows, n, got)), h(that_gives("a", model)) {
    h.stage = stage;
    h.local = true;
    h.alter = [this](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return true;
    };
    claims = mark_explained(*b.runner, {{&h}, {}});
  }
  std::string sentence() const { return claims.empty() ? "" : claims[0].sentence; }
  SmallBench b;
  Hypothesis h;
  std::vector<Window> windows;
  std::vector<Claim> claims;
};

/// Ones in rows from `row` on and columns from `column` on.
Value from(Index row, Index column) {
  return [=](Index r, Index c) { return r >= row && c >= column ? 1.0f : 0.0f; };
}

TEST(SettlingPieces, LeaveWhatDoesNotFit) {
  const Value twos = [](Index r, Index c) { return r == 1 && c == 1 ? 2.0f : 1.0f; };
  Pieces p(3, 4, twos, from(0, 0));
  EXPECT_EQ(p.sentence(), "it is a, in rows 0 and 2 of y") << "row 1 is no unit";
  EXPECT_EQ(p.b.output().left, 4);
  Pieces none(3, 4, from(0, 0), [](Index, Index) { return 3.0f; });
  EXPECT_TRUE(none.claims.empty());
  EXPECT_EQ(none.b.output().left, 12);
  EXPECT_EQ(none.windows.size(), 1u) << "each was computed: nothing is extended";
}

TEST(SettlingPieces, OfSumsFitAllOrNoneTogether) {
  const Value diagonal = [](Index r, Index c) { return r == c ? 1.0f : 0.0f; };
  const Value got = [](Index r, Index c) { return r != c ? 0.0f : r == 70 ? 2.0f : 1.0f; };
  Pieces sum(72, 80, got, diagonal, Stage::sum);
  EXPECT_EQ(sum.windows.size(), 9u);
  EXPECT_TRUE(sum.claims.empty()) << "the last does not fit";
  EXPECT_FALSE(Pieces(72, 80, got, diagonal).claims.empty());
}

/// Columns from 32 on of row 1 are right: a cause that alters them is not that of the whole.
TEST(SettlingPieces, ThatAlterWhatIsRightArePlaces) {
  const Value got = [](Index r, Index c) { return r == 0 || c < 32 ? 1.0f : 0.0f; };
  EXPECT_EQ(Pieces(2, 64, got, got).sentence(), "it is a");
  EXPECT_EQ(Pieces(2, 64, got, from(0, 0)).sentence(), "it is a, in all of y");
}

/// Fewer than 64 elements are what many sums give: it may alter none that is right.
TEST(SettlingPieces, OfFewElementsAreLookedAtBeside) {
  for (const Stage stage : {Stage::sum, Stage::output, Stage::input}) {
    for (const Index height : {7, 8}) {
      const Value got = [=](Index r, Index c) { return r < height && c < 9 ? 1.0f : 0.0f; };
      const Value more = [](Index r, Index c) { return r < 8 && c < 10 ? 1.0f : 0.0f; };
      Pieces p(20, 16, got, more, stage);
      EXPECT_EQ(p.claims.empty(), stage != Stage::input && height == 7);
      Pieces same(20, 16, got, got, stage);
      EXPECT_FALSE(same.claims.empty());
      if (stage == Stage::input || height == 8) {
        EXPECT_EQ(same.windows.size(), 1u);
      } else {
        ASSERT_EQ(same.windows.size(), 2u);
        EXPECT_EQ(same.windows[1].rows, range_of(20));
        EXPECT_EQ(same.windows[1].columns, range_of(16));
      }
    }
  }
}

constexpr Index kDeep = 1 << 16;  ///< 64 rows by 64 columns are more than is computed

/// What a cause that gives `model` explains of a deep product of which `came` came.
struct Deep {
  Deep(Index rows, Index n, const Value& got, const Value& model, Index k = kDeep)
      : b(of_zeros(rows, n, got, k)), h(that_gives("a", model)) {
    watch();
  }
  Deep(const Call& call, const Tensor& expected_output, const Tensor& got, const Value& model)
      : b(call, expected_output, got), h(that_gives("a", model)) {
    watch();
  }
  void watch() {
    h.local = true;
    h.alter = [this](Call& call) {
      windows.push_back({numbers_of(call.input("x")), numbers_of(call.input("w"))});
      return static_cast<int>(windows.size()) <= runs;
    };
  }
  std::vector<Claim> explained() { return mark_explained(*b.runner, {{&h}, {}}); }
  SmallBench b;
  Hypothesis h;
  int runs = 1000;  ///< so many, then none applies
  std::vector<Window> windows;
};

float one(Index, Index) { return 1; }

/// Rows from 60 on hold something else, and columns from `last` on but every fourth.
Value but_for(Index last) {
  return [=](Index r, Index c) { return r < 60 && (c < last || c % 4 == 0) ? 1.0f : 2.0f; };
}

/// Elements that were computed and are not claimed do not count.
TEST(SettlingWindows, NoMoreIsConfirmedThanClaimed) {
  Deep d(64, 128, but_for(32), one, kDeep / 2);
  const auto claims = d.explained();
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].elements, 60 * 32);
  EXPECT_EQ(claims[0].confirmed, 60 * 8 + 16 * 24);
}

TEST(SettlingWindows, WhatFitsNowhereInFullIsNoClaim) {
  const Value odd = [](Index, Index c) { return c % 4 == 1 ? 2.0f : 1.0f; };
  Deep d(64, 128, odd, one, kDeep / 2);
  EXPECT_TRUE(d.explained().empty());
  EXPECT_EQ(d.windows.size(), 2u);
  EXPECT_EQ(d.b.output().left, 8192);
  for (const int runs : {0, 1}) {
    Deep cut(64, 64, one, one);
    cut.runs = runs;
    EXPECT_TRUE(cut.explained().empty()) << runs;
    EXPECT_EQ(static_cast<int>(cut.windows.size()), runs + 1);
    EXPECT_EQ(cut.b.output().left, 4096);
  }
}

}  // namespace
}  // namespace mxo
