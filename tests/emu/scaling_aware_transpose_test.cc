// The scaling-aware transpose on every instruction set: each code, each rule, shifts of any size,
// rows of padding, odd strides.
#include "ops/scaling_aware_transpose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ops/scaled_tensor.h"
#include "tests/support/contestants.h"
#include "tests/support/random_tensors.h"
#include "tests/support/strided.h"

namespace mxo {
namespace {

using test::Lie;
using test::Strided;

struct Operands {
  Strided codes;
  Strided scales;
  Tensor ends;
};

/// Every byte, and scales whose exponents lie up to `spread` apart; some rows are padding.
Operands operands(Dtype format, Index rows, Index columns, const std::vector<std::int32_t>& ends,
                  int spread, const Lie& lie) {
  Operands in{{format, {rows, columns}, lie},
              {Dtype::f32, {rows, ceil_div(columns, kScaledBlock)}, lie},
              test::group_ends_of(ends)};
  std::mt19937 random(11);
  for (Index i = 0; i < in.codes.elements(); ++i) *in.codes.at(i) = static_cast<std::byte>(i * 5);
  for (Index i = 0; i < in.scales.elements(); ++i) {
    const bool padding = random() % 9 == 0;
    const int exponent =
        static_cast<int>(random() % static_cast<unsigned>(spread + 1)) - spread / 2;
    const float scale = padding ? 0.0f : std::ldexp(1.0f, exponent);
    std::memcpy(in.scales.at(i), &scale, sizeof scale);
  }
  return in;
}

std::vector<std::vector<std::byte>> turn(Backend& backend, const Operands& in, Underflow underflow,
                                         const Lie& lie) {
  const Operand codes = in.codes.operand();
  Strided out(codes.dtype, {codes.extent[1], codes.extent[0]}, lie);
  Strided scales(Dtype::f32, {row_blocks(in.ends.operand(), kScaledBlock), codes.extent[1]}, lie);
  scaling_aware_transpose(backend, {codes, in.scales.operand(), in.ends.operand(), out.result(),
                                    scales.result(), underflow});
  return {out.bytes(), scales.bytes()};
}

TEST(ScalingAwareTranspose, GivesTheReferencesBytesOnEveryInstructionSet) {
  const auto reference = make_reference_backend();
  std::vector<std::unique_ptr<Backend>> backends;
  for (const auto& contestant : test::contestants()) backends.push_back(contestant.make());
  const std::vector<Lie> lies = test::lies();
  std::size_t number = 0;
  for (const int spread : {0, 3, 24, 200}) {
    for (const std::vector<std::int32_t>& ends :
         {std::vector<std::int32_t>{300}, {0, 130, 130, 131, 290}, {128, 256}, {}}) {
      for (const auto& [format, rule] : {std::pair{Dtype::e4m3, Underflow::round},
                                         {Dtype::e4m3, Underflow::keep_mantissa},
                                         {Dtype::e4m3, Underflow::flush},
                                         {Dtype::e4m3fnuz, Underflow::round}}) {
        const Lie& lie = lies[number++ % lies.size()];
        const Operands in = operands(format, 300, 200, ends, spread, lie);
        const auto want = turn(*reference, in, rule, lie);
        for (const auto& backend : backends) {
          EXPECT_TRUE(want == turn(*backend, in, rule, lie))
              << backend->name() << ", spread " << spread << ", rule " << static_cast<int>(rule)
              << ", " << lie.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace mxo
