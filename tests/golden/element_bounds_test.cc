// Bounds of operators that sum nothing: honest kernels are inside, wrong ones are not.
#include "golden/judge/element_bounds.h"

#include <cmath>

#include <gtest/gtest.h>

#include "emu/backends.h"
#include "golden/judge/elements.h"
#include "golden/judge/outputs.h"
#include "golden/museum/operands.h"
#include "golden/suites/suites.h"

namespace mxo {
namespace {

Outcome judged(std::string_view op, const NamedTensors& inputs, const Parameters& set,
               const NamedTensors& expected, const NamedTensors& actual) {
  std::vector<OutputInQuestion> outputs;
  for (const auto& [name, tensor] : expected) {
    OutputInQuestion output{name, {}, &actual.at(name)};
    output.owed.expected = &tensor;
    output.owed.format = tensor.dtype();
    outputs.push_back(std::move(output));
  }
  CompareOptions options;
  options.gate = parse_gate("bound");
  Outcome outcome = Outcome::pass;
  for (const TensorVerdict& verdict : judge_outputs({op, inputs, set}, outputs, options)) {
    outcome = graver(outcome, verdict.outcome);
  }
  return outcome;
}

/// y of swiglu by `silu`, in f32.
Outcome swiglu_by(float (*silu)(float)) {
  const auto backend = make_reference_backend();
  NamedTensors inputs;
  inputs.emplace("x", random_floats({64, 256}, 3));
  const NamedTensors expected = call_operator(*backend, "swiglu", inputs, {});
  NamedTensors actual = expected;
  const float* x = inputs.at("x").as<float>();
  for (Index i = 0; i < actual.at("y").elements(); ++i) {
    const Index at = i / 128 * 256 + i % 128;
    actual.at("y").as<float>()[i] = silu(x[at]) * x[at + 128];
  }
  return judged("swiglu", inputs, {}, expected, actual);
}

TEST(ElementBounds, HoldSwigluOfAnyHonestExpAndNoOther) {
  EXPECT_EQ(swiglu_by([](float a) { return a / (1 + std::exp(-a)); }), Outcome::pass);
  EXPECT_EQ(swiglu_by([](float a) { return a * (1 / (1 + std::exp2(-a * 1.44269504f))); }),
            Outcome::fail);  // the argument's rounding grows with it
  EXPECT_EQ(swiglu_by([](float a) { return 0.5f * a * (1 + std::tanh(0.5f * a)); }),
            Outcome::fail);  // cancels where a is negative
  EXPECT_EQ(swiglu_by([](float a) { return decode(encode<kBF16>(a / (1 + std::exp(-a)))); }),
            Outcome::fail);
  EXPECT_EQ(swiglu_by([](float a) { return a * (1 / (1 + std::exp(-a))) * (1 + 0x1p-19f); }),
            Outcome::fail);
}

TEST(ElementBounds, HoldTheDefinitionOfSwigluInEveryCase) {
  const auto backend = make_reference_backend();
  Index held = 0;
  for (const SuiteCase& item : suite_cases("activation", 1)) {
    if (item.op != "swiglu") continue;
    const NamedTensors inputs = item.inputs(InputStream(2, item.id));
    const NamedTensors outputs =
        call_operator(*backend, item.op, inputs, Parameters(item.parameters));
    const Tensor& y = outputs.at("y");
    const ErrorBound bound = swiglu_bound(inputs, y.dtype());
    const ElementReader read(y.dtype());
    for (Index i = 0; i < y.elements(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double found = read(bits_at(y, i)).value;
      if (std::isnan(bound.exact[at]) || std::isinf(bound.allowed[at])) continue;
      EXPECT_LE(std::fabs(found - bound.exact[at]), bound.allowed[at]) << item.id << " " << i;
      ++held;
    }
  }
  EXPECT_GT(held, 1000);
}

/// Codes of quantize changed where `change` says, given x / scale in steps below the next code.
Outcome codes_by(const std::function<int(double above)>& change) {
  const auto backend = make_reference_backend();
  NamedTensors inputs;
  inputs.emplace("x", random_bf16({64, 256}, 7));
  const NamedTensors expected = call_operator(*backend, "quantize", inputs, {});
  NamedTensors actual = expected;
  for (Index i = 0; i < actual.at("codes").elements(); ++i) {
    std::uint8_t& code = actual.at("codes").as<std::uint8_t>()[i];
    const int scale = expected.at("scales").as<std::uint8_t>()[i / 32];
    const double x = std::fabs(static_cast<double>(decode(inputs.at("x").as<BF16>()[i]))) *
                     std::ldexp(1.0, 127 - scale);
    const auto magnitude = static_cast<std::uint8_t>(code & 0x7F);
    if (magnitude == 0 || magnitude >= 0x7E) continue;
    const double here = decode(E4M3{magnitude});
    const double next = decode(E4M3{static_cast<std::uint8_t>(magnitude + 1)});
    const double below = decode(E4M3{static_cast<std::uint8_t>(magnitude - 1)});
    const double above = x >= here ? (x - here) / (next - here) : -(here - x) / (here - below);
    code = static_cast<std::uint8_t>(code + change(above));
  }
  return judged("quantize", inputs, {}, expected, actual);
}

TEST(ElementBounds, LetTiesOfCodesGoEitherWayAndNothingElse) {
  EXPECT_EQ(codes_by([](double above) { return above == 0.5    ? 1
                                               : above == -0.5 ? -1
                                                               : 0; }),
            Outcome::pass);
  EXPECT_EQ(codes_by([](double above) { return above < 0 ? -1 : 0; }), Outcome::fail);  // truncated
  EXPECT_EQ(codes_by([](double above) { return above > 0.4 && above < 0.5 ? 1 : 0; }),
            Outcome::fail);
}

TEST(ElementBounds, HoldTheScalesOfCodesToBits) {
  const auto backend = make_reference_backend();
  NamedTensors inputs;
  inputs.emplace("x", random_bf16({32, 64}, 7));
  const NamedTensors expected = call_operator(*backend, "quantize", inputs, {});
  NamedTensors actual = expected;
  actual.at("scales").as<std::uint8_t>()[3] += 1;
  EXPECT_EQ(judged("quantize", inputs, {}, expected, actual), Outcome::fail);
}

}  // namespace
}  // namespace mxo
