// What other stacks do round the expert, on the device: the host's bytes.
#include "ops/combine_rows.h"
#include "ops/swiglu_quantize.h"
#include "tests/cuda/twin.h"

namespace mxo::test {
namespace {

class CudaStackSteps : public OnDevice {};

constexpr Dtype kWide[] = {Dtype::bf16, Dtype::f32};

/// Every activation with every lie of the halves and every rounding; alpha, limit and offset as
/// gpt-oss has them where the rule takes them.
std::vector<GateRule> gates() {
  std::vector<GateRule> rules;
  for (const Activation activation :
       {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu_squared}) {
    for (const Halves halves :
         {Halves::gate_first, Halves::up_first, Halves::interleaved, Halves::gate_only}) {
      for (const Bf16Steps steps : {Bf16Steps::none, Bf16Steps::activation, Bf16Steps::every}) {
        GateRule rule{activation, halves, steps};
        rules.push_back(rule);
        if (activation == Activation::silu) {
          for (const GateArithmetic arithmetic :
               {GateArithmetic::triton_sm90, GateArithmetic::triton_sm90_quotient}) {
            GateRule by_chip = rule;
            by_chip.arithmetic = arithmetic;
            rules.push_back(by_chip);
          }
        }
        rule.limit = 1.5f;
        if (activation == Activation::silu) rule.alpha = 1.702f;
        if (halves != Halves::gate_only) rule.up_offset = 1.0f;
        rules.push_back(rule);
      }
    }
  }
  // The plain one has kernels of its own: in every shape.
  rules.insert(rules.end(), 48, GateRule{});
  return rules;
}

constexpr std::pair<Index, Index> kShapes[] = {{37, 130}, {0, 4},     {4, 0},    {1, 1},
                                               {131, 77}, {40, 1030}, {300, 256}};

TEST_F(CudaStackSteps, EveryGateAndItsGradientsAgree) {
  std::uint32_t seed = 700;
  const std::vector<Lie> lies = test::lies();
  for (const GateRule& gate : gates()) {
    for (const Fill how : {Fill::noise, Fill::edges, Fill::anything}) {
      const Lie& lie = lies[++seed % lies.size()];
      const auto& [rows, width] = kShapes[seed / 3 % std::size(kShapes)];
      const bool weighted = seed % 2 == 0;
      const Index columns = width * halves_of(gate);
      Strided x = filled(kWide[seed / 2 % 2], {rows, columns}, lie, how, seed);
      Strided probs = filled(Dtype::f32, {rows}, {"contiguous"}, Fill::noise, seed);
      Strided y(kWide[seed / 4 % 2], {rows, width}, lie);
      const auto what = [&] {
        return testing::Message() << "activation " << static_cast<int>(gate.activation)
                                  << ", halves " << static_cast<int>(gate.halves) << ", steps "
                                  << static_cast<int>(gate.bf16_steps) << ", limit " << gate.limit
                                  << ", fill " << static_cast<int>(how) << ", " << lie.name;
      };
      ASSERT_TRUE(agrees({&x, &probs}, {&y}, [&](auto& b, auto& in, auto& out) {
        swiglu(b, {in[0], weighted ? in[1] : Operand{}, out[0], gate});
      })) << what();
      if (gate.arithmetic != GateArithmetic::rounded) continue;  // forward only
      Strided dy = filled(kWide[seed / 4 % 2], {rows, width}, lie, how, seed + 1);
      Strided dx(kWide[seed / 8 % 2], {rows, columns}, lie);
      Strided dprobs(Dtype::f32, {rows}, {"contiguous"});
      ASSERT_TRUE(agrees({&x, &probs, &dy}, {&dx, &dprobs}, [&](auto& b, auto& in, auto& out) {
        swiglu_backward(b, {in[0], weighted ? in[1] : Operand{}, in[2], out[0],
                            weighted ? out[1] : Result{}, gate});
      })) << what();
    }
  }
}

/// Rows in blocks of 32 with e8m0 scales, and in blocks of 128 with those of the flow.
TEST_F(CudaStackSteps, GatesWithTheirCastAgree) {
  constexpr std::pair<Index, Index> kRows[] = {{33, 96}, {0, 64}, {131, 96}, {64, 416}};
  const ScaleRule rule = f32_rule(kFlowBlockwise);
  std::uint32_t seed = 800;
  for (const GateRule& gate : gates()) {
    for (const bool mx : {true, false}) {
      const auto& [rows, width] = kRows[++seed / 2 % std::size(kRows)];
      const BlockExtents block = mx ? kMxColumns : kRowBlock;
      const Dtype scale = mx ? Dtype::e8m0 : Dtype::f32;
      const bool weighted = seed / 4 % 2 == 0;
      const Dtype rounding = kWide[seed / 8 % 2];
      const Lie plain{"contiguous"};
      const Index columns = width * halves_of(gate);
      Strided x = filled(Dtype::bf16, {rows, columns}, plain, Fill::edges, seed);
      Strided probs = filled(Dtype::f32, {rows}, plain, Fill::noise, seed);
      Strided dy = filled(Dtype::bf16, {rows, width}, plain, Fill::noise, seed + 1);
      Strided codes(Dtype::e4m3, {rows, width}, plain);
      Strided scales(scale, {rows, ceil_div(width, block.columns)}, plain);
      ASSERT_TRUE(agrees({&x, &probs}, {&codes, &scales}, [&](auto& b, auto& in, auto& out) {
        swiglu_quantize(b, {in[0],
                            weighted ? in[1] : Operand{},
                            {},
                            rounding,
                            {out[0], out[1], block},
                            rule,
                            gate});
      }));
      if (gate.arithmetic != GateArithmetic::rounded) continue;
      Strided dcodes(Dtype::e4m3, {rows, columns}, plain);
      Strided dscales(scale, {rows, ceil_div(columns, block.columns)}, plain);
      Strided dprobs(Dtype::f32, {rows}, plain);
      ASSERT_TRUE(agrees({&x, &probs, &dy}, {&dcodes, &dscales, &dprobs},
                         [&](auto& b, auto& in, auto& out) {
                           swiglu_quantize_backward(b, {in[0],
                                                        weighted ? in[1] : Operand{},
                                                        in[2],
                                                        {},
                                                        rounding,
                                                        {out[0], out[1], block},
                                                        rule,
                                                        weighted ? out[2] : Result{},
                                                        gate});
                         }));
    }
  }
}

}  // namespace
}  // namespace mxo::test
