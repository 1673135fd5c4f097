// Functions of the chip by their names: their bits on every backend, and their NaN.
#include <gtest/gtest.h>

#include "emu/reference/approximate.h"
#include "tests/support/contestants.h"
#include "tests/support/strided.h"

namespace mxo::test::approximate_test {
namespace {

struct Row {
  ChipFunction function;
  float (*flushed)(float);
  float (*whole)(float);
};
constexpr Row kRows[] = {
    {ChipFunction::ex2, ex2_approx_ftz, ex2_approx},
    {ChipFunction::rcp, rcp_approx_ftz, rcp_approx},
    {ChipFunction::rsqrt, rsqrt_approx_ftz, rsqrt_approx},
    {ChipFunction::sqrt, sqrt_approx_ftz, sqrt_approx},
    {ChipFunction::lg2, lg2_approx_ftz, lg2_approx},
    {ChipFunction::tanh, tanh_approx, tanh_approx},
    {ChipFunction::div_full, nullptr, nullptr},
};

/// f of every element: what lies in y and around it.
std::vector<std::byte> by_function(const Row& row, bool ftz, Strided& x, Strided& b, Strided y) {
  for (Index i = 0; i < x.elements(); ++i) {
    float u, v;
    std::memcpy(&u, x.at(i), 4);
    std::memcpy(&v, b.at(i), 4);
    const float w = row.flushed == nullptr ? (ftz ? div_full_ftz(u, v) : div_full(u, v))
                    : ftz                  ? row.flushed(u)
                                           : row.whole(u);
    const auto word = std::isnan(w) ? 0x7FFFFFFFu : bit_cast<std::uint32_t>(w);
    std::memcpy(y.at(i), &word, 4);
  }
  return y.bytes();
}

TEST(Approximate, GivesTheFunctionsBitsAndNothingElseOnEveryBackend) {
  auto backends = all_backends();
  backends.push_back(make_reference_backend());
  for (const Row& row : kRows) {
    for (const bool ftz : {true, false}) {
      for (const auto& shape : {std::vector<Index>{20011}, {1}, {33, 65}, {2, 3, 17, 41}, {0}}) {
        for (const Lie& lie : lies()) {
          Strided x(Dtype::f32, shape, lie), b(Dtype::f32, shape, lie);
          fill(x, Fill::anything, 3);
          fill(b, Fill::edges, 4);
          const Strided untouched(Dtype::f32, shape, lie);
          const std::vector<std::byte> expected = by_function(row, ftz, x, b, untouched);
          for (const auto& backend : backends) {
            Strided y = untouched;
            Approximate op{x.operand(), {}, y.result(), row.function, ftz};
            if (row.flushed == nullptr) op.b = b.operand();
            approximate(*backend, op);
            ASSERT_EQ(y.bytes(), expected)
                << static_cast<int>(row.function) << ftz << lie.name << " " << backend->name();
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo::test::approximate_test
