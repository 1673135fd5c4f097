// Operands whose elements are read from elsewhere, all of them or some lines.
#include <gtest/gtest.h>

#include "golden/explain/case/call.h"
#include "golden/explain/hypotheses.h"

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

}  // namespace
}  // namespace mxo
