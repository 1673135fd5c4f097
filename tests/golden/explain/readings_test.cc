// Operands read from elsewhere, and codes of values, against slow ways to the same.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/explain/find/quantiser/code_rule.h"
#include "golden/explain/hypotheses.h"
#include "golden/judge/elements.h"
#include "golden/museum/operands.h"
#include "tests/golden/planted.h"

namespace mxo {
namespace {

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
