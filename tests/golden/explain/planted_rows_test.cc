// Rows that were moved: other causes that chance or a shift resembles have to stay unnamed.
#include <cstring>

#include "tests/golden/planted.h"

namespace mxo {
namespace {

Call moved_rows(const char* op, const char* operand) {
  NamedTensors in;
  in.emplace(operand, random_bf16({80, 64}, 3));
  Tensor indices(Dtype::i32, {80});
  for (Index i = 0; i < 80; ++i) {
    indices.as<std::int32_t>()[i] = static_cast<std::int32_t>((i * 37 + 11) % 80);
  }
  in.emplace("indices", std::move(indices));
  return make_call(op, in, {});
}

/// Rows 9 apart by chance are no rows that were written 9 rows apart.
TEST(PlantedRows, ShowNoStrideInAnotherOrder) {
  const auto backend = make_cpu_backend();
  const Planted p = spoiled(*backend, moved_rows("unpermute", "y"), [&](NamedTensors& out) {
    std::memcpy(out.at("x").data(), moved_rows("unpermute", "y").input("y").data(),
                out.at("x").bytes());
  });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  ASSERT_EQ(e.causes.size(), 1u) << e.sentence();
  EXPECT_EQ(e.causes.front().id, "rows.permuted") << e.sentence();
}

/// Ends that would spoil rows which are right are not what happened.
TEST(PlantedRows, MoveNoEndForRowsOfOneGroup) {
  const auto backend = make_cpu_backend();
  NamedTensors in;
  in.emplace("x", random_bf16({100, 64}, 3));
  in.emplace("group_ends", ends_of({17, 33, 70, 100}));
  const Planted p = spoiled(*backend, make_call("pad_groups", in, {}), [](NamedTensors& out) {
    Tensor& y = out.at("y");
    std::memmove(row_of(y, 65), row_of(y, 64), 30 * row_bytes(y));
  });
  const Explanation e = explain(*backend, p.call, p.expected, p.actual);
  EXPECT_EQ(e.sentence(), "explained: rows 65 to 94 of y each hold the row 1 before");
}

}  // namespace
}  // namespace mxo
