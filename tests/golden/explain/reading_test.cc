// Operands whose elements are read from elsewhere, all of them or some lines.
#include <gtest/gtest.h>

#include "golden/explain/case/call.h"
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

}  // namespace
}  // namespace mxo
