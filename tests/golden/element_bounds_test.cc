// Bounds of operators that sum nothing: honest kernels are inside, wrong ones are not.
#include "golden/judge/element_bounds.h"

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/judge/quantized_pair.h"
#include "golden/judge/rounding_cell.h"
#include "golden/museum/operands.h"
#include "golden/suites/suites.h"
#include "tests/golden/expected.h"
#include "tests/golden/tensors.h"

namespace mxo::element_bounds_test {
namespace {

TEST(ElementBounds, HoldTheDefinitionOfSwigluInEveryCase) {
  const auto backend = make_reference_backend();
  Index held = 0;
  for (const SuiteCase& item : suite_cases("activation", 1)) {
    if (item.op != "swiglu") continue;
    const NamedTensors inputs = item.inputs(InputStream(2, item.id));
    const NamedTensors outputs =
        call_operator(*backend, item.op, inputs, Parameters(item.parameters));
    const Tensor& y = outputs.at("y");
    const ErrorBound bound = swiglu_bound(inputs);
    const ElementReader read(y.dtype());
    for (Index i = 0; i < y.elements(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double found = read(bits_at(y, i)).value;
      if (std::isnan(bound.exact[at]) || !bound.promises(i)) continue;
      EXPECT_TRUE(bound.admits(i, y.dtype(), found)) << item.id << " " << i;
      ++held;
    }
  }
  EXPECT_GT(held, 1000);
}

/// The bound of one row of gates `a` and their factors `b`, weighed by 3.
ErrorBound weighed_swiglu(const std::vector<std::pair<float, float>>& gates) {
  const auto n = static_cast<Index>(gates.size());
  Tensor x(Dtype::f32, {1, 2 * n});
  for (Index i = 0; i < n; ++i) {
    const auto& [a, b] = gates[static_cast<std::size_t>(i)];
    x.as<float>()[i] = a;
    x.as<float>()[n + i] = b;
  }
  return swiglu_bound({{"x", x}, {"probs", floats({1}, {3})}});
}

TEST(ElementBounds, PromiseNothingOfSwigluPastTheRangeOfF32) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const ErrorBound bound = weighed_swiglu({{0x1p64f, 0x1p62f},
                                           {0x1p64f, 0x1p63f},
                                           {0x1p64f, 0x1.555556p62f},
                                           {kInf, 1},
                                           {kInf, 0},
                                           {-100, 0x1p127f}});
  EXPECT_EQ(bound.exact[0], 0x3p126);
  EXPECT_LT(bound.stray[0], 0x1p110);
  EXPECT_EQ(bound.exact[1], 0x3p127);
  EXPECT_FALSE(bound.promises(1));
  EXPECT_FALSE(bound.promises(2));  // 2^128 is the first number that is too large
  EXPECT_TRUE(std::isnan(bound.exact[3]));
  EXPECT_TRUE(std::isnan(bound.exact[4]));
  EXPECT_FALSE(bound.promises(5)) << "b p overflows where y does not";
}

/// What quantize makes of one tensor, as the judge has it.
struct Cast {
  NamedTensors inputs, outputs;
  Parameters set;
  std::optional<QuantizedPair> pair;
  ExpectedOutput expected_output;

  Cast(Tensor x, bool turned) {
    inputs.emplace("x", std::move(x));
    if (turned) {
      set.set("transpose", "true");
      set.set("block", "32x1");
    }
    outputs = call_operator(*make_reference_backend(), "quantize", inputs, set);
    expected_output = owe(outputs.at("codes"), Dtype::e4m3);
    const Tensor& scales = outputs.at("scales");
    pair.emplace(expected_output.format, Dtype::e8m0,
                 *ScaleMap::of(expected_output.expected->shape(), scales.shape(), Dtype::e8m0,
                               scale_hints("quantize", inputs, set)),
                 scales, scales);
    expected_output.pair = &*pair;
  }
  Cast(const Cast&) = delete;
  Cast& operator=(const Cast&) = delete;
  std::optional<ErrorBound> bound() const {
    auto bound = quantize_bound(inputs, set, expected_output, outputs.at("codes"));
    return bound ? std::optional(computed(std::move(*bound))) : std::nullopt;
  }
};

TEST(ElementBounds, AreTheDistanceOfCodesFromTheirElements) {
  for (const bool turned : {false, true}) {
    const Cast cast(random_floats({32, 96}, 3), turned);
    const auto bound = cast.bound();
    ASSERT_TRUE(bound);
    for (Index r = 0; r < 32; ++r) {
      for (Index c = 0; c < 96; ++c) {
        const double x = cast.inputs.at("x").as<float>()[r * 96 + c];
        const Index i = turned ? c * 32 + r : r * 96 + c;
        const double code = decode(E4M3{cast.outputs.at("codes").as<std::uint8_t>()[i]});
        const double scale =
            std::ldexp(1.0, cast.outputs.at("scales").as<std::uint8_t>()[i / 32] - 127);
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(bound->exact[at], x) << r << " " << c;
        ASSERT_EQ(bound->stray[at], up(std::fabs(code * scale - x) + 0x1p-22 * std::fabs(x)));
      }
    }
  }
}

TEST(ElementBounds, AreNoneOfCodesWithoutTheirElements) {
  EXPECT_TRUE(Cast(random_floats({2, 32, 32}, 3), false).bound());
  const auto of_other_x = [](bool turned, std::vector<Index> shape) {
    Cast cast(random_floats({32, 64}, 3), turned);
    cast.inputs.insert_or_assign("x", Tensor(Dtype::f32, std::move(shape)));
    return cast.bound();
  };
  EXPECT_FALSE(of_other_x(false, {64, 32}));
  EXPECT_FALSE(of_other_x(false, {31, 64}));
  EXPECT_FALSE(of_other_x(true, {64, 32}));
  EXPECT_FALSE(of_other_x(true, {32, 1, 64}));
  Cast cast(random_floats({32, 64}, 3), false);
  cast.inputs.erase("x");
  EXPECT_FALSE(cast.bound());
  Cast alone(random_floats({32, 64}, 3), false);
  alone.expected_output.pair = nullptr;
  EXPECT_FALSE(alone.bound());
}

}  // namespace
}  // namespace mxo::element_bounds_test
