// Operands whose elements are read from elsewhere, all of them or some lines; codes of values.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/explain/case/reading.h"
#include "golden/explain/find/quantiser/quantiser_call.h"
#include "golden/explain/hypotheses.h"
#include "golden/judge/elements.h"
#include "golden/museum/operands.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

/// Bytes of which no two neighbours are alike, nor elements of any size.
Tensor counted(Dtype dtype, std::vector<Index> shape) {
  Tensor t(dtype, std::move(shape));
  for (std::size_t i = 0; i < t.bytes(); ++i) {
    t.data()[i] = static_cast<std::byte>(i * 37 + i / 7 + i / 256 * 11);
  }
  return t;
}

std::string element(const Tensor& t, Index i) {
  const std::size_t size = size_of(t.dtype());
  return {reinterpret_cast<const char*>(t.data()) + static_cast<std::size_t>(i) * size, size};
}

/// Where a kernel that starts one row late and walks backwards finds an element.
Index late_and_backwards(const Matrices& m, Index matrix, Index row, Index column) {
  return (matrix * m.rows + (row + 1) % m.rows) * m.columns + m.columns - 1 - column;
}

Reading backwards(std::string operand) {
  return make_reading(
      std::move(operand), [](const Matrices&) { return true; }, late_and_backwards);
}

/// Holds the lines `kept` of axis `axis`, read so, against their places one by one.
void expect_lines(const Tensor& given, int axis, const std::vector<Index>& kept) {
  const Tensor read = read_gathered(backwards("x"), given, axis, kept);
  std::vector<Index> shape = given.shape();
  shape[static_cast<std::size_t>(axis)] = static_cast<Index>(kept.size());
  ASSERT_EQ(read.shape(), shape);
  ASSERT_EQ(read.dtype(), given.dtype());
  const Matrices m = matrices_of(given);
  for (Index i = 0; i < read.elements(); ++i) {
    std::vector<Index> at(shape.size());
    Index rest = i;
    for (std::size_t a = shape.size(); a-- > 0; rest /= shape[a]) at[a] = rest % shape[a];
    Index& own = at[static_cast<std::size_t>(axis)];
    own = kept[static_cast<std::size_t>(own)];
    Index line = 0;
    for (std::size_t a = 0; a + 1 < at.size(); ++a) line = line * given.shape()[a] + at[a];
    const Index from = late_and_backwards(m, line / m.rows, line % m.rows, at.back());
    ASSERT_EQ(element(read, i), element(given, from)) << "element " << i << ", axis " << axis;
  }
}

TEST(Reading, LinesOfEveryAxisAreReadAlone) {
  for (const Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::i64}) {
    const Tensor given = counted(dtype, {2, 3, 4, 5});
    expect_lines(given, 0, {1});
    expect_lines(given, 1, {0, 2});
    expect_lines(given, 2, {3, 1});
    expect_lines(given, 3, {0, 3, 4});
    expect_lines(counted(dtype, {6, 3}), 0, {5, 0, 2});
    expect_lines(counted(dtype, {6, 3}), 1, {1});
    expect_lines(counted(dtype, {3, 2, 7}), 0, {2, 0});
    expect_lines(counted(dtype, {3, 4, 7}), 1, {});
  }
}

TEST(Reading, AppliesToOperandsThatAreMatrices) {
  Call call;
  call.replace("row", counted(Dtype::u8, {4}));
  call.replace("none", Tensor(Dtype::u8, {0, 4}));
  call.replace("x", counted(Dtype::u8, {2, 4}));
  call.replace("one", counted(Dtype::u8, {1, 1}));
  EXPECT_FALSE(applies(backwards("missing"), call));
  EXPECT_FALSE(applies(backwards("row"), call));
  EXPECT_FALSE(applies(backwards("none"), call));
  EXPECT_TRUE(applies(backwards("x"), call));
  EXPECT_TRUE(applies(backwards("one"), call));
  const Reading never = make_reading(
      "x", [](const Matrices&) { return false; }, late_and_backwards);
  EXPECT_FALSE(applies(never, call));
}

TEST(Reading, ElementsBeyondATensorAreZero) {
  Call call;
  call.replace("line", counted(Dtype::u16, {5}));
  call.replace("x", counted(Dtype::u16, {2, 3}));
  for (const auto& [name, elements] : {std::pair{"line", Index{5}}, std::pair{"x", Index{6}}}) {
    const Tensor given = call.input(name);
    ASSERT_TRUE(read_whole(call, read_elements(name, [](Index i) { return i - 2; })));
    for (Index i = 0; i < elements; ++i)
      EXPECT_EQ(element(call.input(name), i), i < 2 ? std::string(2, '\0') : element(given, i - 2));
  }
}

TEST(Reading, LinesAlongAnyAxisComeFromOthers) {
  const Tensor given = counted(Dtype::f32, {2, 3, 4});
  const Index strides[] = {12, 4, 1};
  for (int axis = -3; axis < 3; ++axis) {
    const int along = axis < 0 ? 3 + axis : axis;
    const Index stride = strides[along];
    Call call;
    call.replace("x", given);
    const Reading next = read_lines("x", axis, [](Index i) { return i + 1; });
    ASSERT_TRUE(read_whole(call, next));
    for (Index i = 0; i < 24; ++i) {
      const bool last = i / stride % given.extent(along) == given.extent(along) - 1;
      EXPECT_EQ(element(call.input("x"), i),
                last ? std::string(4, '\0') : element(given, i + stride))
          << axis << ", " << i;
    }
    const Tensor some = read_gathered(next, given, 2, {3, 1});
    for (Index i = 0; i < 12; ++i)
      EXPECT_EQ(element(some, i), element(call.input("x"), i / 2 * 4 + (i % 2 == 0 ? 3 : 1)));
  }
  Call call;
  call.replace("scales", counted(Dtype::u8, {4}));
  EXPECT_FALSE(read_whole(call, read_lines("scales", 1, [](Index i) { return i; })));
  EXPECT_TRUE(read_whole(call, read_lines("scales", 0, [](Index i) { return 3 - i; })));
}

Tensor counted(std::vector<Index> shape) {
  Tensor t(Dtype::u16, std::move(shape));
  for (Index i = 0; i < t.elements(); ++i) {
    t.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(i * 40503);
  }
  return t;
}

std::string bytes_of(const Tensor& t) {
  return {reinterpret_cast<const char*>(t.data()), t.bytes()};
}

TEST(Readings, LinesAreThoseOfTheWholeTensor) {
  Call call;
  call.op = "grouped_matmul";
  call.replace("group_ends", Tensor(Dtype::i32, {3}));
  call.replace("x", counted({40, 72}));
  call.replace("w", counted({3, 34, 72}));
  int seen = 0;
  for (const Hypothesis& h : hypotheses_about(call)) {
    for (const Reading& reading : h.readings) {
      Call whole = call;
      if (!read_whole(whole, reading)) continue;
      const Tensor& read = whole.input(reading.operand);
      const Tensor& given = call.input(reading.operand);
      for (int axis = 0; axis < given.rank(); ++axis) {
        const std::vector<Index> kept = axis == 0 && given.rank() == 3
                                            ? std::vector<Index>{0, 2}
                                            : std::vector<Index>{1, 6, 33};
        EXPECT_EQ(bytes_of(read_gathered(reading, given, axis, kept)),
                  bytes_of(gathered(read, axis, kept)))
            << h.name << ", axis " << axis;
      }
      seen += bytes_of(read) != bytes_of(given);
    }
  }
  EXPECT_GT(seen, 60);
}

TEST(CodeRules, CodesAreFoundAmongAllOfThem) {
  for (const Dtype format : {Dtype::e4m3, Dtype::e5m2, Dtype::e4m3fnuz, Dtype::e5m2fnuz}) {
    const Grid grid(format);
    for (std::size_t c = 0; c < grid.top(); ++c) {
      const double low = grid.value(c);
      const double high = grid.value(c + 1);
      for (const double v :
           {low, std::nextafter(low, high), 0.5 * (low + high), std::nextafter(high, low)}) {
        EXPECT_EQ(grid.round(v, Rounding::zero), c) << v;
        EXPECT_EQ(grid.round(-v, Rounding::away), v == low ? c : c + 1) << v;
      }
    }
    EXPECT_EQ(grid.round(2 * grid.value(grid.top()), Rounding::even), grid.top());
    EXPECT_EQ(grid.round(5e-324, Rounding::zero), 0u);
  }
}

}  // namespace
}  // namespace mxo
