// Functions of the chip by their names: their bits on every backend, and their NaN.
#include <gtest/gtest.h>

#include "emu/reference/approximate.h"
#include "tests/support/captures.h"
#include "tests/support/contestants.h"
#include "tests/support/products.h"
#include "tests/support/strided.h"

namespace mxo::test {
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

/// All bytes of y and around it, of operands of any bits that lie as `lie` says.
std::vector<std::byte> outputs(Backend& backend, const Row& row, bool ftz,
                               const std::vector<Index>& shape, const Lie& lie) {
  Strided x(Dtype::f32, shape, lie), b(Dtype::f32, shape, lie), y(Dtype::f32, shape, lie);
  fill(x, Fill::anything, 3);
  fill(b, Fill::edges, 4);
  Approximate op{x.operand(), {}, y.result(), row.function, ftz};
  if (row.flushed == nullptr) op.b = b.operand();
  approximate(backend, op);
  return y.bytes();
}

TEST(Approximate, GivesTheFunctionsBitsAndNothingElse) {
  const auto reference = make_reference_backend();
  for (const Row& row : kRows) {
    for (const bool ftz : {true, false}) {
      for (const auto& shape : {std::vector<Index>{7001}, {33, 65}, {2, 3, 17, 41}, {3, 0, 4}}) {
        for (const Lie& lie : lies()) {
          Strided x(Dtype::f32, shape, lie), b(Dtype::f32, shape, lie), y(Dtype::f32, shape, lie);
          fill(x, Fill::anything, 3);
          fill(b, Fill::edges, 4);
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
          ASSERT_EQ(outputs(*reference, row, ftz, shape, lie), y.bytes())
              << static_cast<int>(row.function) << ftz << lie.name;
        }
      }
    }
  }
}

TEST(Approximate, EveryBackendGivesTheDefinitionsBytes) {
  const auto reference = make_reference_backend();
  for (const Row& row : kRows) {
    for (const bool ftz : {true, false}) {
      for (const auto& shape : {std::vector<Index>{1}, {20011}, {0}, {33, 65}}) {
        for (const Lie& lie : lies()) {
          if (shape.size() == 1 && lie.name != "contiguous") continue;
          const auto want = outputs(*reference, row, ftz, shape, lie);
          for (const auto& contestant : contestants()) {
            EXPECT_EQ(outputs(*contestant.make(), row, ftz, shape, lie), want)
                << contestant.name() << " " << lie.name;
          }
        }
      }
    }
  }
}

NamedTensors called(const std::string& backend, NamedTensors in, const char* function,
                    const char* ftz = "ftz=false") {
  return call_operator(*make_backend(backend, 2), "approximate", in,
                       settings({std::string("function=") + function, ftz}));
}

/// Triton's a / (1 + exp(-a)) * b, of one call of the operator a function.
TEST(Approximate, ChainedIsASiluOfAnH200) {
  const TensorFile& file = capture("triton_kernels");
  const Tensor& x = tensor_of(file, "silu_mul.f32.x");
  const Tensor& expected = tensor_of(file, "silu_mul.f32.quotient");
  const Index columns = expected.extent(1);
  for (const std::string& backend : every_backend()) {
    Tensor angle(Dtype::f32, expected.shape()), a(Dtype::f32, expected.shape());
    for (Index i = 0; i < expected.elements(); ++i) {
      a.as<float>()[i] = x.as<float>()[i / columns * 2 * columns + i % columns];
      angle.as<float>()[i] = -a.as<float>()[i] * 0x1.715476p+0f;
    }
    NamedTensors of_angle, of_a;
    of_angle.emplace("x", std::move(angle));
    Tensor divisor = called(backend, std::move(of_angle), "ex2").at("y");
    for (Index i = 0; i < divisor.elements(); ++i) divisor.as<float>()[i] += 1.0f;
    of_a.emplace("x", std::move(a));
    of_a.emplace("b", std::move(divisor));
    const Tensor silu = called(backend, std::move(of_a), "div_full").at("y");
    Index differ = 0;
    for (Index i = 0; i < expected.elements(); ++i) {
      const float b = x.as<float>()[i / columns * 2 * columns + columns + i % columns];
      const float y = silu.as<float>()[i] * b;
      const float captured = expected.as<float>()[i];
      differ += bit_cast<std::uint32_t>(y) != bit_cast<std::uint32_t>(captured) &&
                !(std::isnan(y) && std::isnan(captured));
    }
    EXPECT_EQ(differ, 0) << backend;
  }
}

}  // namespace
}  // namespace mxo::test
